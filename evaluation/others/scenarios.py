"""Scenarios of consumers without the runtime: a poll loop, and a pool of threads behind one.

The arithmetic: use = arrivals × mean handler time / (members × threads); a loop has one thread. A sick fleet gets 150 % and more.
They have no recorded incident, and their names begin with the shape.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from typing import Literal

from evaluation.others import (
    camel_scenarios,
    inside,
    micronaut_scenarios,
    pods,
    python_framework_scenarios,
    reactive_scenarios,
    spring_scenarios,
    watermill_scenarios,
)
from evaluation.others.java_consumer import PROGRAMS, JavaMeasured, Protocol, client_id
from workbench.lab.client_spec import Behaviour
from workbench.lab.kafka_jars import JMX_AGENTS
from workbench.lab.producer_and_consumers import LabFleet
from workbench.lab.scenario_circumstances import QUICK_SECONDS, Draw, Fault, Make, Scenario, behaving, sending
from workbench.lab.scenarios import SCENARIOS
from workbench.lab.scenarios import make_scenario as make
from workbench.lab.scenarios_outside_processors import JAVA_SMALL_FETCHES, SMALL_FETCHES
from workbench.triage.verdict_names import Verdict

Shape = Literal[
    "loop", "pool", "java", "streams", "connect_sink", "aiokafka", "kafka_python", "spring", "java_otel", "java_strimzi", "parallel",
    "faststream", "faust", "quarkus", "pekko", "reactor", "micronaut",
]  # fmt: skip
_REACTIVE = ("quarkus", "pekko", "reactor")
_INSIDE = ("java_otel", "java_strimzi", "parallel")
_FRAMEWORKS = ("faststream", "faust")
_NO_STATISTICS = ("aiokafka", "kafka_python")  # nothing shows what the client does
_PROTOCOLS: dict[Shape, tuple[Protocol, ...]] = {
    "java": ("classic", "consumer"),
    "streams": ("classic",),  # exporters do not list groups of the protocol that Streams has of its own
    "connect_sink": ("classic", "consumer"),
}
_KEYS = 4000  # so that partitions get about as much as each other


def _prepare(draw: Draw, shape: Shape) -> None:
    if shape == "spring":
        spring_scenarios.prepare(draw)
        return
    if shape == "micronaut":
        micronaut_scenarios.prepare(draw)
        return
    if shape in _FRAMEWORKS:
        python_framework_scenarios.prepare(draw, shape)
        return
    if shape in _REACTIVE:
        reactive_scenarios.prepare(draw, shape)
        return
    draw.consumer = shape
    draw.threads = draw.random.choice((3, 4)) if shape in ("pool", "parallel") else 1
    draw.by_type = draw.random.random() < 0.6
    if shape in _INSIDE:
        draw.by_type = False  # nor do these
        draw.topic = draw.random.choice(("events", "shop.events"))
        draw.measured = inside.drawn(draw)
    if shape in PROGRAMS:
        draw.by_type = False  # a listener's timer does not know them
        draw.topic = draw.random.choice(("events", "shop.events"))  # a name with a dot is exported under two spellings
        draw.measured = JavaMeasured(
            rules=draw.random.choice(("plain", "connect", "strimzi")),
            agent=draw.random.choice(tuple(JMX_AGENTS)),
            protocol=draw.random.choice(_PROTOCOLS[shape]),
            max_poll_records=draw.random.choice((50, 500)),
        )


def _slots(draw: Draw) -> int:
    return draw.instances * draw.threads


def _members(draw: Draw) -> int:
    """A pool has one for all of its threads, a listener of Spring one for each."""
    return draw.instances * draw.consumers


def _about_six(draw: Draw) -> int:
    """Partitions, equally many for each member."""
    return 6 if 6 % _members(draw) == 0 else 2 * _members(draw)


def _times(draw: Draw, use: float) -> dict[str, float]:
    """Process times, different for each type, that use the threads to this share."""
    weights = {name: draw.random.uniform(0.7, 1.4) for name in draw.types}
    mean = sum(draw.share(name) * weight for name, weight in weights.items())
    return {name: use * _slots(draw) / draw.rate * weight / mean for name, weight in weights.items()}


def _calm(draw: Draw) -> Behaviour:
    return Behaviour(process_seconds=_times(draw, draw.random.uniform(0.15, 0.35)))


def _quick(draw: Draw) -> Behaviour:
    return Behaviour(process_seconds=dict.fromkeys(draw.types, QUICK_SECONDS / 2))


def _healthy(shape: Shape, draw: Draw, run_id: str) -> Scenario:
    _prepare(draw, shape)
    behaviour = Behaviour(process_seconds=_times(draw, draw.random.uniform(0.1, 0.6)))
    return draw.scenario(behaviour, lambda _fleet: None, Verdict.HEALTHY, run_id=run_id, keys=_KEYS)


def _slow_handler(shape: Shape, draw: Draw, run_id: str) -> Scenario:
    """What all handlers wait for becomes slow."""
    _prepare(draw, shape)
    use = draw.random.uniform(0.2, 0.45)
    times, factor = _times(draw, use), draw.random.uniform(1.7, 2.6) / use
    slow = {name: seconds * factor * draw.random.uniform(0.9, 1.1) for name, seconds in times.items()}
    # Threads of Kafka Streams have no client id, so rules for clients leave them out.
    # Nor does a reporter inside of the client, or an agent without the messaging conventions, time handlers.
    untimed = (shape == "streams" and draw.measured.rules != "plain") or (
        shape in ("java_strimzi", "pekko", "reactor")
        or (shape == "java_otel" and not draw.measured.messaging)
        or (shape == "quarkus" and not draw.measured.observed)
        or (shape == "micronaut" and not draw.measured.timed)
    )
    also = (*(() if draw.by_type else (Verdict.SLOW_PROCESSOR,)), *((Verdict.CANNOT_TELL,) if untimed else ()))
    return draw.scenario(
        Behaviour(process_seconds=times),
        behaving(process_seconds=slow),
        Verdict.SLOW_DOWNSTREAM,
        run_id=run_id,
        keys=_KEYS,
        also=also,
    )


def _slow_type(shape: Shape, draw: Draw, run_id: str) -> Scenario:
    """The handler of one event type becomes slow."""
    _prepare(draw, shape)
    draw.by_type = True
    use = draw.random.uniform(0.15, 0.3)
    times, hit = _times(draw, use), draw.random.choice(list(draw.types))
    more = draw.random.uniform(1.5, 2.2) * _slots(draw) / draw.rate / draw.share(hit)
    return draw.scenario(
        Behaviour(process_seconds=times), behaving(process_seconds={**times, hit: times[hit] + more}), Verdict.SLOW_PROCESSOR,
        run_id=run_id, scope={"processors": [hit]}, keys=_KEYS,
    )  # fmt: skip


def _throttled(shape: Shape, draw: Draw, run_id: str) -> Scenario:
    """A quota lets the members fetch a third of what arrives."""
    _prepare(draw, shape)
    draw.partitions = _about_six(draw)
    share = draw.random.uniform(0.28, 0.36)
    fault = partial(spring_scenarios.limit_each, share, draw)
    return draw.scenario(_calm(draw), fault, Verdict.THROTTLED, run_id=run_id, keys=_KEYS)


def _slow_network(shape: Shape, draw: Draw, run_id: str) -> Scenario:
    """All members' ways to the broker become long."""
    _prepare(draw, shape)
    fetches = SMALL_FETCHES if shape in ("loop", "pool") else JAVA_SMALL_FETCHES
    draw.partitions, draw.proxied, draw.kafka = _about_six(draw), True, fetches
    delay = draw.random.uniform(0.8, 1.2)

    def fault(fleet: LabFleet) -> None:
        fleet.lab.slow_down(fleet.spec.group, {client_id(shape, fleet.spec.group, whole=False): delay})

    also = _unless_measured(shape)
    return draw.scenario(_quick(draw), fault, Verdict.SLOW_NETWORK, run_id=run_id, keys=_KEYS, also=also)


def _unless_measured(shape: Shape) -> tuple[Verdict, ...]:
    """Only the statistics of a client tell a slow network, or whether a thread hangs or has paused."""
    return (Verdict.CANNOT_TELL,) if shape in _NO_STATISTICS else ()


def _hot_partition(shape: Shape, draw: Draw, run_id: str) -> Scenario:
    """Most of the traffic goes to one partition, whose member can take half of it."""
    _prepare(draw, shape)
    if draw.consumers == 1:
        draw.instances = draw.random.choice((4, 5))
    draw.partitions = _members(draw)
    use = draw.random.uniform(0.45, 0.55)
    wanted = draw.random.uniform(1.7, 2.0) / use / draw.partitions  # share of the traffic on the hot one
    share = (wanted - 1 / draw.partitions) / (1 - 1 / draw.partitions)
    hit = draw.random.randrange(draw.partitions)
    fault = sending(hot_partition=hit, hot_share=min(0.95, share))
    return draw.scenario(
        Behaviour(process_seconds=_times(draw, use)), fault, Verdict.HOT_PARTITION, run_id=run_id,
        scope={"partitions": [hit]}, keys=_KEYS,
    )  # fmt: skip


def _stopped(shape: Shape, draw: Draw, run_id: str) -> Scenario:
    """All members crash or are stopped."""
    _prepare(draw, shape)
    crash = draw.random.random() < 0.5

    def fault(fleet: LabFleet) -> None:
        names = list(fleet.instances)
        if crash:
            fleet.kill(names)
        else:
            fleet.shut_down(names)

    return draw.scenario(_calm(draw), fault, Verdict.CONSUMER_STOPPED, run_id=run_id, keys=_KEYS)


def _hangs(shape: Shape, draw: Draw, run_id: str) -> Scenario:
    """The handlers of one member never return."""
    _prepare(draw, shape)
    hung = f"{draw.group(run_id)}-{draw.random.randrange(draw.instances)}"
    fault = behaving(stall_members=[hung], stall_seconds=3600.0)
    return draw.scenario(
        _calm(draw), fault, Verdict.CONSUMER_STOPPED, run_id=run_id, scope={"members": [client_id(shape, hung)]}, keys=_KEYS,
        also=_unless_measured(shape),
    )  # fmt: skip


def _poison(shape: Shape, draw: Draw, run_id: str) -> Scenario:
    """A record that cannot be handled is read again every second; its partition waits."""
    _prepare(draw, shape)
    hit = draw.random.randrange(draw.partitions)
    return draw.scenario(
        _calm(draw), sending(poison_partition=hit), Verdict.STUCK_PARTITION, run_id=run_id,
        scope={"partitions": [hit]}, keys=_KEYS,
    )  # fmt: skip


def _paused(shape: Shape, draw: Draw, run_id: str) -> Scenario:
    """One member has paused its partitions and goes on polling: its client measures no lag then."""
    _prepare(draw, shape)
    held = f"{draw.group(run_id)}-{draw.random.randrange(draw.instances)}"
    fault = behaving(held_members=[held])
    return draw.scenario(
        _calm(draw), fault, Verdict.STUCK_PARTITION, run_id=run_id, keys=_KEYS,
        also=(Verdict.CONSUMER_STOPPED, *_unless_measured(shape)),
    )  # fmt: skip


def _burst(shape: Shape, draw: Draw, run_id: str) -> Scenario:
    """Three times the usual arrivals, where there is room for one and a half. What is usual, a minute cannot tell."""
    _prepare(draw, shape)
    use = draw.random.uniform(0.55, 0.65)
    fault = sending(rate_per_second=draw.rate * draw.random.uniform(2.9, 3.2))
    lacking = Verdict.TOO_FEW_CONSUMERS if _members(draw) < draw.partitions else Verdict.PARTITION_CEILING
    also = (lacking, Verdict.CANNOT_TELL)
    return draw.scenario(
        Behaviour(process_seconds=_times(draw, use)), fault, Verdict.BURST, run_id=run_id, keys=_KEYS, also=also
    )


def _outgrown(draw: Draw) -> tuple[Behaviour, Fault]:
    """Traffic rises within some seconds to 135 to 150 % of what the members can do."""
    use = draw.random.uniform(0.8, 0.88)
    behaviour = Behaviour(process_seconds=_times(draw, use))
    growth, steps = draw.random.uniform(1.35, 1.5) / use, 5

    def fault(fleet: LabFleet) -> None:
        usual = fleet.traffic.rate_per_second

        def rise(over: threading.Event) -> None:
            for step in range(1, steps + 1):
                sending(rate_per_second=usual * (1 + (growth - 1) * step / steps))(fleet)
                if over.wait(1.0):
                    return

        fleet.keep_doing(rise)

    return behaviour, fault


def _too_few(shape: Shape, draw: Draw, run_id: str) -> Scenario:
    _prepare(draw, shape)
    draw.partitions = _members(draw) * draw.random.choice((3, 4))
    behaviour, fault = _outgrown(draw)
    also = (Verdict.BURST, Verdict.CANNOT_TELL)
    return draw.scenario(behaviour, fault, Verdict.TOO_FEW_CONSUMERS, run_id=run_id, keys=_KEYS, also=also)


def _ceiling(shape: Shape, draw: Draw, run_id: str) -> Scenario:
    _prepare(draw, shape)
    draw.instances = max(draw.instances, 3) if draw.consumers > 1 else draw.random.choice((3, 4))
    draw.partitions = _members(draw)
    behaviour, fault = _outgrown(draw)
    return draw.scenario(behaviour, fault, Verdict.PARTITION_CEILING, run_id=run_id, keys=_KEYS)


_KINDS: dict[str, tuple[Callable[[Shape, Draw, str], Scenario], str]] = {
    "healthy": (_healthy, "normal traffic, no fault"),
    "slow_handler": (_slow_handler, "every handler becomes slow at once"),
    "slow_type": (_slow_type, "one event type's handler becomes slow"),
    "throttled": (_throttled, "a client quota on the broker throttles the members"),
    "slow_network": (_slow_network, "the network to the broker becomes slow"),
    "hot_partition": (_hot_partition, "most of the traffic goes to one partition"),
    "stopped": (_stopped, "all members crash or are stopped"),
    "hangs": (_hangs, "one member hangs in its handler"),
    "poison": (_poison, "a record that cannot be handled blocks one partition"),
    "paused": (_paused, "one member has paused its partitions, and goes on polling"),
    "burst": (_burst, "three times the usual arrivals"),
    "too_few": (_too_few, "fewer members than partitions, and traffic outgrows them"),
    "ceiling": (_ceiling, "as many members as partitions, and traffic outgrows them"),
}
# A listener's timer does not tell event types apart; the loop and the pool do not know how to pause.
_NEVER = {("java", "slow_type"), ("loop", "paused"), ("pool", "paused")}
_NEVER |= {(shape, it) for shape in ("streams", "connect_sink") for it in ("slow_type", "poison", "paused")}
_NEVER |= {
    (shape, it) for shape in ("spring", "micronaut") for it in ("slow_type", "poison")
}  # they have their own of these
_NEVER |= {(shape, "slow_type") for shape in (*_INSIDE, *_REACTIVE)} | {
    (shape, "paused") for shape in ("pekko", "reactor")
}
_NEVER |= {
    (shape, it) for shape in _FRAMEWORKS for it in ("slow_type", "poison", "paused")
}  # they have poison of their own
_SHAPES: dict[Shape, str] = {
    "loop": "a poll loop",
    "pool": "a pool of threads",
    "java": "a Java listener",
    "streams": "a Kafka Streams application",
    "connect_sink": "a sink of Kafka Connect",
    "aiokafka": "an event loop (aiokafka)",
    "kafka_python": "a poll loop (kafka-python)",
    "spring": "a Spring Boot application",
    "java_otel": "a Java listener with OpenTelemetry's agent",
    "java_strimzi": "a Java listener with Strimzi's reporter",
    "parallel": "a parallel consumer",
    "faststream": "an application on FastStream",
    "faust": "an application on Faust",
    "quarkus": "a Quarkus application",
    "pekko": "a stream of Pekko Connectors Kafka",
    "reactor": "a receiver of Reactor Kafka",
    "micronaut": "a Micronaut application",
}


def _made(shape: Shape, make: Callable[[Shape, Draw, str], Scenario]) -> Make:
    made = partial(make, shape)
    if shape in _FRAMEWORKS:
        return partial(pods.of_one_name, made)
    if shape in _REACTIVE:
        return partial(reactive_scenarios.told_by_pods, made)
    if shape == "micronaut":
        return partial(micronaut_scenarios.told_by_pods, made)
    return partial(spring_scenarios.told_by_pods, made) if shape == "spring" else made


OTHERS: dict[str, tuple[Make, str]] = {
    f"{shape}_{name}": (_made(shape, make), f"{words}: {what}")
    for shape, words in _SHAPES.items()
    for name, (make, what) in _KINDS.items()
    if (shape, name) not in _NEVER
}
OTHERS |= {
    f"spring_{name}": (partial(spring_scenarios.told_by_pods, make), f"{_SHAPES['spring']}: {what}")
    for name, (make, what) in spring_scenarios.KINDS.items()
}
OTHERS |= {
    f"{shape}_{name}": (_made(shape, make), f"{_SHAPES[shape]}: {what}")
    for shape in _FRAMEWORKS
    for name, (make, what) in python_framework_scenarios.KINDS.items()
    if (shape, name) not in python_framework_scenarios.NEVER
}
OTHERS |= {
    f"{shape}_{name}": (_made(shape, make), f"{_SHAPES[shape]}: {what}")
    for name, (make, what, shapes) in reactive_scenarios.KINDS.items()
    for shape in shapes
}
OTHERS |= {
    f"micronaut_{name}": (partial(micronaut_scenarios.told_by_pods, make), f"{_SHAPES['micronaut']}: {what}")
    for name, (make, what) in micronaut_scenarios.KINDS.items()
}
OTHERS |= {
    f"watermill_{name}": (make, f"a consumer on Watermill: {what}")
    for name, (make, what) in watermill_scenarios.KINDS.items()
}
OTHERS |= {
    f"camel_{name}": (make, f"a Camel application: {what}") for name, (make, what) in camel_scenarios.KINDS.items()
}

# Those of the runtime too.
EVERY = {**SCENARIOS, **OTHERS}


def make_scenario(name: str, seed: int, *, bootstrap: str, run_id: str) -> Scenario:
    """A scenario of any consumers, with the circumstances of its seed; see `workbench.lab.scenarios`."""
    return make(name, seed, bootstrap=bootstrap, run_id=run_id, among=EVERY)
