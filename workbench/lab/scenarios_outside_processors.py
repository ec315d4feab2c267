"""Scenarios about keys, delays, the broker and the network: what stands around the processors."""

from __future__ import annotations

from workbench.lab.client_spec import Behaviour
from workbench.lab.producer_and_consumers import LabFleet
from workbench.lab.scenario_circumstances import QUICK_SECONDS, Draw, Make, Scenario, behaving, growing, sending
from workbench.triage.verdict_names import Verdict

RECORD_BYTES = 300  # on the wire: value, key, headers, and a share of its batch's head


def hot_key(draw: Draw, run_id: str) -> Scenario:
    """One key gets so many events of one type that the one queue it belongs to is full, while its siblings idle."""
    draw.instances, draw.threads = 2, 4
    hit = draw.random.choice(list(draw.types))
    key = draw.random.randrange(240)
    share = draw.random.uniform(0.3, 0.4)
    slow = draw.random.uniform(2.0, 2.6) / (share * draw.rate)  # the hot queue's use is over 2
    times = {**dict.fromkeys(draw.types, QUICK_SECONDS), hit: slow}
    fault = sending(hot_key=key, hot_type=hit, hot_share=share)
    return draw.scenario(
        Behaviour(process_seconds=times), fault, Verdict.HOT_KEY, run_id=run_id, scope={"processors": [hit]}
    )


def delay_backlog(draw: Draw, run_id: str) -> Scenario:
    """The events of one type are put off for much longer than the bounded delay queue has room for."""
    draw.settings = {"delay_capacity": 60}
    hit = draw.random.choice(list(draw.types))
    times = dict.fromkeys(draw.types, QUICK_SECONDS)
    arriving = draw.rate * draw.share(hit) / draw.instances  # at each consumer
    before, after = 10 / arriving, 60 / arriving * draw.random.uniform(4, 6)
    fault = behaving(delay_seconds={hit: after})
    return draw.scenario(
        Behaviour(process_seconds=times, delay_seconds={hit: before}), fault, Verdict.DELAY_BACKLOG, run_id=run_id
    )


def throttled(draw: Draw, run_id: str) -> Scenario:
    """A quota on the members' client ids lets them fetch a third of what arrives."""
    draw.partitions = 6
    quota = draw.random.uniform(0.28, 0.36) * draw.rate / draw.instances * RECORD_BYTES

    def fault(fleet: LabFleet) -> None:
        fleet.limit(round(quota))

    behaviour = Behaviour(process_seconds=dict.fromkeys(draw.types, QUICK_SECONDS))
    return draw.scenario(behaviour, fault, Verdict.THROTTLED, run_id=run_id)


# With small fetches a long round trip limits what arrives, as it does for big ones on a real distance.
SMALL_FETCHES: dict[str, str | int | float | bool] = {"fetch.message.max.bytes": 4096}
JAVA_SMALL_FETCHES: dict[str, str | int | float | bool] = {"max.partition.fetch.bytes": 4096, "fetch.max.bytes": 24576}


def slow_network(draw: Draw, run_id: str) -> Scenario:
    """All members' ways to the broker become long."""
    draw.partitions, draw.proxied, draw.kafka = 6, True, SMALL_FETCHES
    delay = draw.random.uniform(0.8, 1.2)

    def fault(fleet: LabFleet) -> None:
        fleet.lab.slow_down(fleet.spec.group, {fleet.spec.group: delay})

    behaviour = Behaviour(process_seconds=dict.fromkeys(draw.types, QUICK_SECONDS))
    return draw.scenario(behaviour, fault, Verdict.SLOW_NETWORK, run_id=run_id, scope={"brokers": ["1"]})


def partition_ceiling(draw: Draw, run_id: str) -> Scenario:
    """As many consumers as partitions, all busy with decoding; then traffic outgrows them evenly."""
    draw.instances, draw.consumers = 2, draw.random.choice((2, 3))
    draw.partitions = draw.instances * draw.consumers
    use = draw.random.uniform(0.5, 0.6)
    growth = draw.random.uniform(1.6, 1.9) / use
    behaviour = Behaviour(
        process_seconds=dict.fromkeys(draw.types, QUICK_SECONDS), decode_seconds=draw.decode_seconds(use)
    )
    return draw.scenario(behaviour, growing(growth), Verdict.PARTITION_CEILING, run_id=run_id, keys=4000)


SCENARIOS: dict[str, tuple[Make, str]] = {
    "hot_key": (hot_key, "one key fills one queue while the other queues idle"),
    "delay_backlog": (delay_backlog, "delays grow until the bounded delay queue is full"),
    "throttled": (throttled, "a client quota on the broker throttles the members"),
    "slow_network": (slow_network, "the network to the broker becomes slow"),
    "partition_ceiling": (partition_ceiling, "as many consumers as partitions, and still too slow"),
}
