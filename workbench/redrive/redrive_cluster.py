"""A cluster for redrives: what its queue tells, put together for safety checks, runs and the end of a plan."""

from __future__ import annotations

import time
from collections.abc import Sequence

from workbench.plans.journal import Journal
from workbench.queues.group_kinds import REDRIVE_PREFIX
from workbench.queues.replay_port import ClusterView, Gateway
from workbench.redrive.abandon_plan import end_plan
from workbench.redrive.apply import Redrive
from workbench.redrive.commit_marks import PlanProgress, PlanState
from workbench.redrive.groups_reading_targets import Readers, audience_words
from workbench.redrive.guard import RedriveLimits, RedriveNow
from workbench.redrive.http_sink import HttpSink
from workbench.redrive.picked_letter_offsets import Picks
from workbench.redrive.planfile import RedrivePlan, To
from workbench.redrive.redrive_ledger import Ledger
from workbench.redrive.redrive_ports import LetterQueue, LetterReader, Sink


class RedriveCluster:
    """Redrives on one cluster, through the port of its queue."""

    def __init__(self, queue: LetterQueue) -> None:
        self._queue = queue

    @property
    def gateway(self) -> Gateway:
        """What a replay reads too."""
        return self._queue.gateway

    @property
    def promise(self) -> str | None:
        """What a plan must say of records that may come twice; None: none may."""
        return self._queue.promise

    def letters(self, topic: str) -> LetterReader:
        """Reader of a topic."""
        return self._queue.letters(topic)

    def limit_of(self, topic: str) -> int:
        """Largest record of a topic in bytes."""
        return self._queue.limit_of(topic)

    def readers(self, topics: Sequence[str]) -> Readers | None:
        """Committed offsets on some topics, by group, without those of redrive plans; None if it cannot be told."""
        return self._queue.readers(topics)

    def lacking(self, plan: RedrivePlan, name: str = f"{REDRIVE_PREFIX}*") -> tuple[str, ...]:
        """Permissions that the brokers say these credentials lack, for a plan of this name; before it has one, for any."""
        return self._queue.lacking(plan.topic, [it.topic for it in plan.targets], name)

    def handled(
        self, topic: str, topic_id: str | None, cluster_id: str, ledger: Ledger, *, but: str | None = None
    ) -> tuple[dict[int, Picks], dict[int, Picks]]:
        """Letters that other plans have handled, and those of them that they have discarded; see `Ledger.handled`."""
        commits, groups = self._queue.gateway.commits, self._queue.groups()
        return ledger.handled(topic, topic_id, cluster_id, commits, groups, self.progress, but=but)

    def progress(self, plan: RedrivePlan) -> PlanProgress:
        """What Kafka says about a plan."""
        return self._queue.positions(plan).progress()

    def _topics(self, plan: RedrivePlan) -> ClusterView:
        return self.gateway.cluster([plan.topic, *(it.topic for it in plan.targets)])

    def now(self, plan: RedrivePlan, ledger: Ledger) -> RedriveNow:
        """Current state of the cluster for the safety checks."""
        cluster = self._topics(plan)
        keys = [(plan.topic, part.partition) for part in plan.partitions]
        there = plan.topic in cluster.topics
        progress = self.progress(plan)
        where = (plan.topic, plan.topic_id, plan.cluster_id, ledger)
        others = self.handled(*where, but=plan.hash)[0] if there else {}
        return RedriveNow(
            cluster=cluster,
            logs=self.gateway.logs(keys if there else []),
            settings=self.gateway.settings([plan.topic]) if there else {},
            positions=progress.positions,
            ordered=progress.ordered,
            state=progress.state,
            refused=progress.refused,
            handled=others,
            now_ms=time.time() * 1000,
            position_kept_seconds=self._queue.position_kept_seconds(plan),
            was_started=ledger.was_started(plan) and ledger.ended(plan) is None,
            lacking=self.lacking(plan, plan.id),
            untold=self._queue.untold(),
            audience=tuple(audience_words(plan, self.readers([it.topic for it in plan.targets])))
            if plan.targets
            else (),
            quotas=self._queue.quotas(),
        )

    def sink(self, plan: RedrivePlan) -> Sink:
        """A sink for the plan's destination."""
        if plan.destination.kind is To.HTTP:
            return HttpSink(plan, self._queue.positions(plan))
        return self._queue.sink(plan)

    def end(self, plan: RedrivePlan, state: PlanState, ledger: Ledger) -> PlanProgress:
        """End a plan that is not done: discarded before it has begun, or given up after. Whoever applies it is fenced.

        Returns:
            What the plan has produced.

        Raises:
            GuardError: if it has not begun, or has; if it is done; or if another plan has claimed its letters.
        """
        sink = self._queue.positions(plan)
        try:
            sink.begin()
            return end_plan(plan, state, sink, lambda: self.now(plan, ledger), was_started=ledger.was_started(plan))
        finally:
            sink.close()

    def redrive(self, plan: RedrivePlan, journal: Journal, ledger: Ledger, limits: RedriveLimits) -> Redrive:
        """A run of a plan on this cluster."""
        return Redrive(
            plan=plan,
            letters=self.letters(plan.topic),
            make_sink=lambda: self.sink(plan),
            look=lambda: self.now(plan, ledger),
            topics=lambda: self._topics(plan),
            journal=journal,
            ledger=ledger,
            limits=limits,
        )
