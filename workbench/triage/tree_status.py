"""The first questions of the tree: is there data, was something lost, does it lag?"""

from __future__ import annotations

from workbench.triage import wording
from workbench.triage.node import Ask, Choose, Conclude, Measure, Node
from workbench.triage.rules import status
from workbench.triage.verdict import Verdict

STATUS = (
    Node(
        id="data_usable",
        number=1,
        question="Is there data, and is it finite and consistent?",
        short="data usable?",
        rules=status.DATA_USABLE,
        yes=Ask("lost"),
        no=Choose(((status.has_no_sample, Verdict.NO_DATA),), otherwise=Verdict.UNUSABLE_DATA),
        words=wording.data,
        needs=(),
        measures=(
            Measure("consumer_lag", "last_sample_age_seconds", "s since the last sample"),
            Measure("consumer_lag", "lag_samples", "usable samples"),
            Measure("consumer_lag", "lag_bad_samples", "unusable samples"),
        ),
    ),
    Node(
        id="lost",
        number=2,
        question="Were records deleted or skipped before they were read?",
        short="records lost?",
        rules=status.LOST,
        yes=Conclude(Verdict.RECORDS_LOST),
        no=Ask("reset"),
        words=wording.lost,
        needs=("log_start_offset", "committed_offset"),
        measures=(
            Measure("log_start_offset", "lost_messages", "messages deleted before they were read"),
            Measure("committed_offset", "skipped_messages", "messages passed by a commit"),
        ),
    ),
    Node(
        id="reset",
        number=3,
        question="Did commits go back, or are they above the log's end?",
        short="offsets reset?",
        rules=status.RESET,
        yes=Conclude(Verdict.OFFSETS_RESET),
        no=Ask("lagging"),
        words=wording.reset,
        needs=("committed_offset", "log_end_offset"),
        measures=(
            Measure("committed_offset", "back_messages", "messages back"),
            Measure("committed_offset", "above_end_messages", "messages above the end"),
        ),
    ),
    Node(
        id="lagging",
        number=4,
        question="Is the group lagging: late, growing or stalled?",
        short="lagging?",
        rules=status.LAGGING,
        yes=Ask("consuming"),
        no=Ask("draining"),
        words=wording.lagging,
        needs=("time_lag", "log_end_offset"),
        measures=(
            Measure("time_lag", "time_lag_seconds", "s", threshold="time_lag_objective_seconds"),
            Measure("consumer_lag", "lag_messages", "messages"),
            Measure("consumer_lag", "lag_slope", "messages/s"),
            Measure("log_end_offset", "arrival_per_second", "messages/s arriving"),
        ),
    ),
    Node(
        id="draining",
        number=5,
        question="Is it catching up?",
        short="catching up?",
        rules=status.DRAINING,
        yes=Conclude(Verdict.PRODUCER_BURST),
        no=Ask("failing"),
        words=wording.draining,
        needs=("consumer_lag",),
        measures=(Measure("consumer_lag", "eta_drain_seconds", "s until nothing waits"),),
    ),
    Node(
        id="failing",
        number=6,
        question="Do more records fail than usual, although the group keeps up?",
        short="records failing?",
        rules=status.FAILING,
        yes=Conclude(Verdict.FAILING_RECORDS),
        no=Ask("silent"),
        words=wording.failing,
        needs=("processed",),
        measures=(
            Measure(
                "processed",
                "failing_share",
                "of the attempts",
                threshold="failing_ratio",
                baseline="failing_baseline_share",
            ),
        ),
        contributes=True,
    ),
    Node(
        id="silent",
        number=7,
        question="Does nothing arrive, although records usually do?",
        short="producer silent?",
        rules=status.SILENT,
        yes=Conclude(Verdict.PRODUCER_SILENT),
        no=Choose(((status.has_recovered, Verdict.RECOVERED),), otherwise=Verdict.HEALTHY),
        words=wording.silent,
        needs=("log_end_offset",),
        measures=(
            Measure("log_end_offset", "quiet_seconds", "s since the last arrival", threshold="silent_seconds"),
            Measure("log_end_offset", "usual_gap_seconds", "s at most before"),
            Measure("log_end_offset", "arrival_per_second", "messages/s arriving"),
        ),
    ),
)
