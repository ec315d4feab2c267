"""Do brokers hand topics around: by a load report that is no number, or again and again for balance?"""

from __future__ import annotations

from workbench.humanize import counted, duration, listed
from workbench.judgement_numbers import PAUSE_SECONDS, SEVERAL
from workbench.queues.dispatching_queues import DispatchTools
from workbench.triage.finding import Action
from workbench.triage.pulsar.pulsar_facts import Known
from workbench.triage.pulsar.pulsar_status import behind
from workbench.triage.pulsar.question_types import (
    DispatchLeaf,
    DispatchQuestion,
    Test,
    proof_of,
    says_no,
    stays_open,
)
from workbench.triage.verdict_names import DispatchVerdict

_NOW = Test("connected_seconds", "<=", PAUSE_SECONDS)
_STAYS = says_no(
    "stays",
    "a consumer has been connected for longer than a start takes",
    Test("connected_seconds", ">", PAUSE_SECONDS),
)

BAD_LOAD = DispatchQuestion(
    id="load_not_finite",
    question="Does a broker report a load that is no number, and are topics moved by it?",
    short="load no number?",
    rules=(
        proof_of(
            "not_finite",
            "a broker reported a load that is no finite number, and the consumers of this topic had to connect again",
            Test("bad_reports", ">", 0),
            _NOW,
        ),
        says_no("finite", "all loads that brokers reported are numbers", Test("bad_reports", "=", 0)),
        _STAYS,
        stays_open(
            "not_told",
            "the loads of all brokers, or since when consumers are connected, are not told",
            look="pulsar_lb_cpu_usage and its neighbours of every broker (prometheus or metrics of the cluster's settings)",
        ),
    ),
    yes=DispatchVerdict.BAD_LOAD_REPORT,
    by="side",
)

UNLOADS = DispatchQuestion(
    id="unloaded_again",
    question="Are topics unloaded for balance again and again?",
    short="unloaded again?",
    rules=(
        proof_of(
            "again",
            "bundles were unloaded for balance again and again, and the consumers of this topic had to connect again",
            Test("unload_times", ">=", SEVERAL),
            _NOW,
        ),
        says_no("few", "bundles were hardly unloaded for balance", Test("unload_times", "<", SEVERAL)),
        _STAYS,
        stays_open(
            "not_told",
            "how often bundles were unloaded within half an hour is not told",
            look="pulsar_lb_unload_bundle_total of the brokers in a Prometheus (prometheus of the cluster's settings)",
        ),
    ),
    yes=DispatchVerdict.UNLOAD_STORM,
    by="side",
)


def _moved(it: Known) -> str:
    return f"the longest connection of a consumer is {duration(it.connected_seconds)} old; {behind(it)}"


def _mend_report(tools: DispatchTools, _it: Known) -> list[Action]:
    return [
        Action(
            title="Look at the load that each broker reports: one that is no number looks overloaded, and loses its topics",
            command=tools.show_load(),
            verify="you know the broker whose cpu, memory or bandwidth is no number",
        ),
        Action(
            title="Stop moving topics until that broker is well",
            command=tools.set_balance(on=False),
            verify="pulsar_lb_unload_bundle_total no longer grows",
        ),
        Action(
            title="Restart that broker; with a history (loadBalancerHistoryResourcePercentage) it never recovers by itself. Brokers"
            " before 2.8.3 and 2.9.2 make such reports after a garbage collection: upgrade them",
            verify="every pulsar_lb_*_usage is a number; then switch the balance on again",
        ),
    ]


def _calm(tools: DispatchTools, _it: Known) -> list[Action]:
    return [
        Action(
            title="Look which brokers lose topics and which get them: the same ones back and forth, or always one bundle",
            command=tools.show_load(),
            verify="you know whether a single bundle is too large (then it overloads any broker)",
        ),
        Action(
            title="Stop moving topics for now",
            command=tools.set_balance(on=False),
            verify="pulsar_lb_unload_bundle_total no longer grows, and consumers stay connected",
        ),
        Action(
            title="If one bundle is too large: split it between its hot topics (workbench pulsar split-plan). If not: a"
            " higher loadBalancerBrokerThresholdShedderPercentage, or a longer loadBalancerSheddingIntervalMinutes."
            " Then switch the balance on again",
            verify="topics are moved less than once in half an hour",
        ),
    ]


LEAVES = (
    DispatchLeaf(
        DispatchVerdict.BAD_LOAD_REPORT,
        lambda it: f"A broker's load is no number ({listed(it.servers.bad_loads)}), so topics are moved: {_moved(it)}.",
        _mend_report,
    ),
    DispatchLeaf(
        DispatchVerdict.UNLOAD_STORM,
        lambda it: (
            f"Topics are moved again and again: {counted(it.servers.unload_times, 'time')} within half an hour bundles were unloaded;"
            f" {_moved(it)}."
        ),
        _calm,
    ),
)
