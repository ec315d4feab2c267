"""Clusters by chance: culprits on some brokers, readers that are busy all the time or on and off, and decoys that begin elsewhere."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tests.triage.brokers import RECORD, Line, Made, after, at


@dataclass(frozen=True, slots=True, kw_only=True)
class Crowd:
    """A cluster, and the truth: who is guilty, and which groups read less than arrives because of it."""

    made: Made
    guilty: frozenset[str]
    hurt: frozenset[str]


def crowd(seed: int, *, begin: tuple[float, float] = (-8.0, -3.5)) -> Crowd:
    """Culprits begin between these minutes before the end.

    Two, three or five brokers, none to three of them taken by somebody, one reader for each or one for all; noise of 10 to 15 %."""
    draw = np.random.default_rng(seed)
    count = int(draw.choice([2, 3, 5]))
    taken = [
        int(it) for it in draw.permutation(np.arange(1, count + 1))[: int(draw.integers(0, min(3, count - 1) + 1))]
    ]
    together = bool(taken) and draw.random() < 0.3
    plots = {"hog": sorted(taken)} if together else {f"hog{broker}": [broker] for broker in taken}
    begins = {name: float(draw.uniform(*begin)) for name in plots}
    begin_on = {broker: begins[name] for name, brokers in plots.items() for broker in brokers}
    made, hurt = Made(count), set[str]()
    traffic: dict[int, list[np.ndarray]] = {broker: [] for broker in range(1, count + 1)}

    def noisy(line: Line, share: float) -> Line:
        return lambda minutes: np.maximum(0.0, line(minutes) * (1 + share * draw.standard_normal(len(minutes))))

    def reads(name: str, broker: int, line: Line, share: float) -> None:
        values = noisy(line, share)(made.minutes)
        made.reads(f"{name}-0", broker, lambda _minutes: values)
        traffic[broker].append(values)

    for broker in traffic:
        begin, rest = begin_on.get(broker), float(draw.uniform(0.35, 0.85))
        made.own(broker, "request_handler_idle", at(0.9))
        made.own(broker, "network_idle", at(0.9) if begin is None else after(begin, 0.2, before=0.9))
        sends = at(0.003) if begin is None else after(begin, float(draw.uniform(0.03, 1)), before=0.003)
        made.own(broker, "response_send_time", sends, kind="FetchConsumer")
        for signal in ("request_queue_time", "request_local_time"):
            made.own(broker, signal, at(0.004), kind="FetchConsumer")
        for number in range(int(draw.integers(2, 8))):
            name, rate = f"g{broker}.{number}", float(draw.uniform(20, 2000))
            share = at(1.0) if begin is None else after(begin, rest, before=1.0)
            made.group(name, broker, noisy(at(rate), 0.1), share, clients=1)
            reads(name, broker, lambda minutes, rate=rate, share=share: rate * RECORD * share(minutes), 0.1)  # type: ignore[misc]
            if begin is not None:
                hurt.add(name)
        level, period = float(draw.uniform(1e6, 6e7)), float(draw.uniform(2, 5))
        made.group(f"busy{broker}", broker, at(100), clients=1)
        reads(f"busy{broker}", broker, at(float(draw.uniform(1e6, 6e7))), 0.15)
        made.group(f"flips{broker}", broker, at(100), clients=1)
        reads(
            f"flips{broker}",
            broker,
            lambda minutes, level=level, period=period: level * (0.4 + 1.2 * (minutes % period < period / 2)),
            0.15,
        )  # type: ignore[misc]
        if begin is None and draw.random() < 0.6:
            made.group(f"decoy{broker}", broker, at(100), clients=1)
            reads(f"decoy{broker}", broker, after(float(draw.uniform(-8, -3)), float(draw.uniform(1e7, 9e7))), 0.1)
    for name, brokers in plots.items():
        made.group(name, brokers[0], at(100), after(begins[name], 0.9), clients=1)
        for broker in brokers:
            reads(name, broker, after(begins[name], float(draw.uniform(2e7, 1e8))), 0.1)
    for broker, lines in traffic.items():
        made.traffic(broker, lambda _minutes, lines=lines: np.sum(lines, axis=0))  # type: ignore[misc]
    return Crowd(made=made, guilty=frozenset(plots), hurt=frozenset(hurt))
