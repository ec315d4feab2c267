"""Threads of the server: one judges, one for each target sends, one watches deadlines and deletes what is old.

The judging thread takes alerts first, then open incidents, then the fleet. All it knows is in the database, so a restart goes on where
the former process ended.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import partial
from itertools import groupby

from workbench.errors import WorkbenchError
from workbench.humanize import duration, plural
from workbench.serve import alert_journal, fleet_verdicts, incidents, outbox, who_is_told
from workbench.serve.judge_groups import AT_ONCE, GivenWayError, Judge, Question
from workbench.serve.kept_verdict import Judged, unknown
from workbench.serve.one_bad_item import each_alone
from workbench.serve.own_metrics import Metrics
from workbench.serve.send_message import NotTakenError, PartlyTakenError, Send, send
from workbench.serve.server_database import LeadLostError, Store, StoreError
from workbench.serve_settings import ServeSettings, Target

_log = logging.getLogger(__name__)
_TICK_SECONDS = 0.1
_FORGET_SECONDS = 3600.0
_PAUSE_AFTER_CRASH_SECONDS = 5.0
_PAUSE_WITHOUT_MEMORY_SECONDS = 1.0
_LEAD_SECONDS = 1.0
_MOST_FAILURES = 3
_ASKED_SECONDS = 30.0  # people who ask again and again get one triage in this time
_REST = 4.0  # so repeated triages of a cluster take a fifth of the time at most, however large it is


class Worker:
    """Everything that happens between an alert and its message.

    Args:
        clusters: names of the clusters that the fleet's pages show; asked before each round.
        warm_up: run first by the judging thread. give_up: called when triages fail for internal reasons again and again.
    """

    def __init__(
        self,
        store: Store,
        judge: Judge,
        settings: ServeSettings,
        *,
        clusters: Callable[[], Mapping[str, object]] = dict,
        warm_up: Callable[[], None] = lambda: None,
        metrics: Metrics | None = None,
        sender: Send = send,
        give_up: Callable[[], None] = lambda: None,
    ) -> None:
        self.store, self.settings, self.metrics = store, settings, metrics or Metrics()
        self._judge, self._clusters, self._warm_up, self._send = judge, clusters, warm_up, sender
        self._give_up, self._failures = give_up, 0
        self._stop, self._wake = threading.Event(), threading.Event()
        self.ready = threading.Event()
        self._leading = threading.Event()
        self._fleet_at: dict[str, float] = {}  # when the next round of a cluster is due, in monotonic time
        self._fleet_ended: dict[str, float] = {}
        self._look_at: dict[str, float] = {}
        self._unread = ""  # why the settings cannot be read now
        self._threads: list[threading.Thread] = []

    def start(self) -> None:
        """Start the threads; messages that were being sent at a former end are sent again."""
        self.take_lead()
        runs = {"judge": self._judging, "watch": self._watching, "lead": self._keeping_lead}
        for number, target in enumerate(self.settings.targets):
            runs[f"send-{number}"] = partial(self._sending, target)
        self._threads = [
            threading.Thread(target=self._until_stopped, args=(run,), name=f"serve-{name}", daemon=True)
            for name, run in runs.items()
        ]
        for thread in self._threads:
            thread.start()

    def _until_stopped(self, run: Callable[[], None]) -> None:
        """Run a thread; if it ends before the server does, the process ends, to be started anew: no part is missing unseen."""
        try:
            run()
        except BaseException:
            _log.exception("the thread %s failed", threading.current_thread().name)
        if not self._stop.is_set():
            _log.error("the thread %s has ended; ending, to be started anew", threading.current_thread().name)
            self._give_up()

    def stop(self, *, seconds: float = 10.0) -> None:
        """Stop after the present steps; a triage that takes longer is left to the end of the process."""
        self._stop.set()
        self._wake.set()
        until = time.monotonic() + seconds
        for thread in self._threads:
            thread.join(max(0.0, until - time.monotonic()))

    @property
    def alive(self) -> bool:
        """Whether all threads run."""
        return bool(self._threads) and all(it.is_alive() for it in self._threads)

    def woken(self) -> None:
        """Tell that there is a new alert."""
        self._wake.set()

    # Leading: of several instances with one database, one judges and sends

    @property
    def leading(self) -> bool:
        """Whether this instance judges and sends."""
        return self._leading.is_set()

    def take_lead(self) -> None:
        """Begin to lead if no other instance does, or cease if the way to the database was lost."""
        leads = self.store.leads()
        if leads and not self._leading.is_set():
            with self.store.writing(lead=self.store.lead) as db:
                unsent = outbox.give_up_unnamed(db, self.settings.targets)
                for target, about in unsent.items():
                    who_is_told.does_not_know(db, target, about)
                again = outbox.resume(db)
                who_is_told.resume(db, self.settings)
            for target, about in unsent.items():
                _log.warning(
                    "what waited for %s is given up, %s: the settings do not name it",
                    target,
                    plural(len(about), "message"),
                )
            if again:
                _log.warning("%d messages may already have been sent before; they are sent again", again)
            self._leading.set()
        elif not leads and self._leading.is_set():
            self._leading.clear()
            _log.warning("the database was out of reach; another instance may judge and send now")
        self.metrics.leading.set(leads)

    def _keeping_lead(self) -> None:
        while not self._stop.wait(_LEAD_SECONDS):
            try:
                self.take_lead()
            except StoreError as error:
                _log.warning("%s", error)
            except Exception:
                _log.exception("taking the lead failed; it is tried again")

    def _while_leading(self, step: Callable[[], bool], rest: Callable[[], object]) -> None:
        """Take steps until the end, as long as this instance leads; `rest` after one that had nothing to do."""
        while not self._stop.is_set():
            if not self.leading:
                self._stop.wait(_TICK_SECONDS)
                continue
            try:
                busy = step()
            except StoreError as error:
                _log.warning("%s", error)
                self._stop.wait(_PAUSE_WITHOUT_MEMORY_SECONDS)
            except Exception:  # the thread must survive: what it did not finish is still in the database
                _log.exception("the thread %s failed; it goes on", threading.current_thread().name)
                self._stop.wait(_PAUSE_AFTER_CRASH_SECONDS)
            else:
                if not busy:
                    rest()

    # Judging

    def _judging(self) -> None:
        try:
            self._warm_up()
        except Exception as error:  # the first triage will say what is wrong
            _log.warning("warming up failed: %s", error)
        self.ready.set()
        self.metrics.ready.set(1)
        self._while_leading(lambda: self.judge_alerts() or self.look_again() or self.judge_fleet(), self._until_woken)

    def _until_woken(self) -> None:
        self._wake.wait(_TICK_SECONDS * 5)
        self._wake.clear()

    def judge_alerts(self) -> bool:
        """Judge what waits, one triage for each cluster; return whether there was anything."""
        lead, waiting = self.store.lead, alert_journal.waiting(self.store)
        if not waiting:
            return False
        rest = self.settings.gather.total_seconds() - (self.store.clock() - waiting[0].received)
        if rest > 0:
            self._stop.wait(min(rest, self.settings.gather.total_seconds()))
            waiting = alert_journal.waiting(self.store)
        in_order, left = sorted(waiting, key=lambda it: it.cluster), len(waiting)
        skipped = self._skipping("alert")
        for cluster, found in groupby(in_order, key=lambda it: it.cluster):
            for alerts in _parts(list(found)):
                judged = self._verdicts(cluster, alerts)
                incidents.conclude(self.store, alerts, judged, self.settings, lead=lead, skipped=skipped)
        taken = {it.id for it in waiting}
        left -= sum(it.id in taken for it in alert_journal.waiting(self.store))
        return left > 0  # what cannot be concluded must not keep incidents and the fleet from their turn

    def _skipping(self, kind: str) -> Callable[[], None]:
        return self.metrics.skipped.labels(kind).inc

    def _verdicts(self, cluster: str, alerts: Sequence[alert_journal.Waiting]) -> Sequence[Judged]:
        if not cluster:
            return _without(
                alerts, "the alert names no cluster. Set `cluster` under [serve], or a label.", "no cluster"
            )
        groups = () if any(not it.group for it in alerts) else tuple(dict.fromkeys(it.group for it in alerts))
        try:
            since = min((datetime.fromisoformat(it.started) for it in alerts if it.started), default=None)
            return self._asked(Question(cluster=cluster, groups=groups, since=since), "alert")
        except WorkbenchError as error:
            return _without(alerts, error.message, f"error:{type(error).__name__}")
        except Exception as error:  # of a library; an alert is never left without an answer
            _log.exception("a triage failed")
            self._failed()
            return _without(alerts, f"internal error ({type(error).__name__}).", "error:internal")

    def _asked(self, question: Question, purpose: str) -> Sequence[Judged]:
        started = time.monotonic()
        result = "failed"
        try:
            found = self._judge(question)
            result, self._failures = "ok", 0
        finally:
            self.metrics.triages.labels(purpose, result).inc()
            self.metrics.triage_seconds.labels(purpose).observe(time.monotonic() - started)
        return found

    def _failed(self) -> None:
        """Count internal failures in a row: a Spark whose JVM has ended does not come back in this process."""
        self._failures += 1
        if self._failures >= _MOST_FAILURES:
            _log.error("%d triages in a row failed; ending, to be started anew", self._failures)
            self._give_up()

    def look_again(self) -> bool:
        """Judge open incidents again, one triage for each cluster; return whether there was anything."""
        lead = self.store.lead
        self.tell_due()
        found = incidents.due(self.store, self.settings)
        found = [it for it in found if self._look_at.get(it.cluster, 0.0) <= time.monotonic()]
        for cluster in dict.fromkeys(it.cluster for it in found):
            mine = [it for it in found if it.cluster == cluster]
            begun = time.monotonic()
            groups = {group for it in mine for group, _ in it.members}
            judged: Sequence[Judged] | None = None
            if cluster:
                try:
                    asked = () if "" in groups else tuple(sorted(groups))
                    followed = tuple(dict.fromkeys(it.origin for it in mine if it.origin is not None))
                    question = Question(cluster=cluster, groups=asked, give_way=self._is_wanted, followed=followed)
                    judged = self._asked(question, "again")
                except WorkbenchError as error:  # sources that are gone for a while: the incident stays as it is
                    _log.warning("looking again at %s failed: %s", cluster, error)
                except Exception:
                    _log.exception("looking again at %s failed", cluster)
                    self._failed()
            try:
                for it in mine:
                    self._follow(it, judged, lead)
            finally:
                self._look_at[cluster] = _rested(begun, self.settings.look_again.total_seconds())
            if alert_journal.waiting(self.store, most=1):
                break
        return bool(found)

    def _follow(self, incident: incidents.Open, judged: Sequence[Judged] | None, lead: int | None) -> None:
        try:
            incidents.followed(self.store, incident, judged, self.settings, lead=lead)
        except StoreError:
            raise
        except Exception:
            _log.exception("the incident %s could not be followed; the others are", incident.id)
            self._skipping("incident")()

    def tell_due(self) -> None:
        """Close what has ended, and tell what had to wait; this needs no triage."""
        lead = self.store.lead
        incidents.expire(self.store, self.settings, lead=lead)
        who_is_told.tell_due(self.store, self.settings, lead=lead)

    def ask(self, cluster: str) -> bool:
        """Let a cluster's turn come now, or soon if it just ended; return whether this instance judges it."""
        if not self.leading or cluster not in self._settings_clusters():
            return False
        soon = self._fleet_ended.get(cluster, 0.0) + _ASKED_SECONDS
        self._fleet_at[cluster] = min(self._fleet_at.get(cluster, 0.0), soon)
        self._wake.set()
        return True

    def _settings_clusters(self) -> Mapping[str, object]:
        """Clusters by name; none while the settings are broken, which is logged once, and said in the answer to each alert."""
        try:
            found, words = self._clusters(), ""
        except WorkbenchError as error:
            found, words = {}, error.message
        if words and words != self._unread:
            _log.warning("no fleet is judged until the settings can be read: %s", words)
        self._unread = words
        return found

    def _is_wanted(self) -> bool:
        """Whether new alerts wait."""
        return self._stop.is_set() or bool(alert_journal.waiting(self.store, most=1))

    def judge_fleet(self) -> bool:
        """Judge one whole cluster if its turn has come; return whether there was one."""
        every = self.settings.fleet_every.total_seconds()
        lead, now = self.store.lead, time.monotonic()
        cluster = next((it for it in self._settings_clusters() if self._fleet_at.get(it, 0.0) <= now), None)
        if cluster is None:
            return False
        try:
            judged = self._asked(Question(cluster=cluster, pictures=False, give_way=self._is_wanted), "fleet")
            skipped = self._skipping("subscription")
            fleet_verdicts.record(self.store, cluster, judged, every_seconds=every, lead=lead, skipped=skipped)
        except GivenWayError:
            every = 0.0  # its turn comes again after the alerts
        except StoreError:
            raise
        except WorkbenchError as error:
            _log.warning("the fleet of %s was not judged: %s", cluster, error)
        except Exception:
            _log.exception("judging the fleet of %s failed", cluster)
            self._failed()
        finally:
            self._fleet_ended[cluster] = time.monotonic()
            self._fleet_at[cluster] = max(now + every, _rested(now, every)) if every else now
        return True

    # Sending

    def _sending(self, target: Target) -> None:
        self._while_leading(lambda: self.send_one(target), lambda: self._stop.wait(_TICK_SECONDS))

    def send_one(self, target: Target) -> bool:
        """Send the oldest due message of a target; return whether there was one."""
        parcel = outbox.claim(self.store, target.name, lead=self.store.lead)
        if parcel is None:
            return False
        but = None
        try:
            try:
                self._send(parcel, target, self.settings.url)
            except PartlyTakenError as error:
                _log.warning("%s: %s", target.name, error)
                but = str(error)
        except NotTakenError as error:
            self.metrics.messages.labels(target.kind, "failed").inc()
            _log.warning("%s has not taken the message %s: %s", target.name, parcel.key, error)
            self._noted(partial(outbox.refused, self.store, parcel, str(error), passing=error.passing))
        except Exception as error:  # a message that cannot be built must not block those behind it
            _log.exception("a message failed")
            self._noted(partial(outbox.refused, self.store, parcel, type(error).__name__, passing=False))
        else:
            self._noted(partial(outbox.sent, self.store, parcel, but=but))
            self.metrics.messages.labels(target.kind, "sent").inc()
            if parcel.message.received is not None:
                self.metrics.answer_seconds.observe(max(0.0, self.store.clock() - parcel.message.received))
        return True

    def _noted(self, note: Callable[[], None]) -> None:
        """Keep what has become of a message; while the database is away, try again, or it would be sent twice."""
        while True:
            try:
                return note()
            except LeadLostError:
                raise  # whoever leads now sends it again, with the same key
            except StoreError as error:
                _log.warning("%s", error)
                if self._stop.wait(_PAUSE_WITHOUT_MEMORY_SECONDS):
                    raise

    # Watching

    def _watching(self) -> None:
        forgotten = 0.0
        while not self._stop.wait(_TICK_SECONDS * 10):
            if not self.leading:
                continue
            steps: list[Callable[[], object]] = [self.pass_on_late, self.tell_due]
            if time.monotonic() - forgotten > _FORGET_SECONDS or not forgotten:
                steps.append(self._forget)
                forgotten = time.monotonic()
            for step in steps:
                try:
                    step()
                except StoreError as error:
                    _log.warning("%s", error)
                except Exception:  # deadlines are watched whatever else fails
                    _log.exception("the thread %s failed; it goes on", threading.current_thread().name)

    def _forget(self) -> None:
        fleet_verdicts.forget(self.store, keep_seconds=self.settings.keep.total_seconds(), lead=self.store.lead)

    def pass_on_late(self) -> int:
        """Pass on alerts that have waited for too long; return their number."""
        lead = self.store.lead
        found = alert_journal.late(self.store, seconds=self.settings.deadline.total_seconds())
        for cluster in dict.fromkeys(it.cluster for it in found):
            mine = [it for it in found if it.cluster == cluster]
            _log.warning(
                "%d alerts have no verdict after %s", len(mine), duration(self.settings.deadline.total_seconds())
            )
            passed = partial(incidents.pass_on_late, self.store, settings=self.settings, lead=lead)
            each_alone(mine, passed, lambda _one, _error: self._skipping("alert")())
            self.metrics.late.inc(len(mine))
        return len(found)


def _rested(begun: float, pause: float) -> float:
    """When a triage that began then may be repeated, if that is later than after the usual pause: new alerts come first."""
    now = time.monotonic()
    rest = _REST * (now - begun)
    return now + rest if rest > pause else now


def _parts(alerts: list[alert_journal.Waiting]) -> list[list[alert_journal.Waiting]]:
    """Alerts of one cluster by triage: the first verdicts of a storm need not wait for the last."""
    groups = sorted({it.group for it in alerts})
    if "" in groups or len(groups) <= AT_ONCE:
        return [alerts]
    part = {group: number // AT_ONCE for number, group in enumerate(groups)}
    found: list[list[alert_journal.Waiting]] = [[] for _ in range(part[groups[-1]] + 1)]
    for it in alerts:
        found[part[it.group]].append(it)
    return found


def _without(alerts: Sequence[alert_journal.Waiting], reason: str, cause: str) -> list[Judged]:
    pairs = dict.fromkeys((it.group, it.topic) for it in alerts)
    return [unknown(group, topic, reason, cause=cause) for group, topic in pairs]
