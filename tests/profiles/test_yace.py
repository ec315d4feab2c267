"""An MSK whose lag comes from CloudWatch by YACE: from the answers of a Prometheus, by a draft as it is written, to findings.

CloudWatch has a value a minute, YACE hands it over minutes late, and a Prometheus repeats it at each scrape. Names and labels are its
own (https://github.com/prometheus-community/yet-another-cloudwatch-exporter): a recorded page, no real MSK.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.collect.test_samples_from_prometheus import END
from tests.servers import Script, scripted
from workbench.collect.capture_in_memory import collect
from workbench.profiles.profile_draft import Draft, draft
from workbench.settings import load_settings
from workbench.thresholds import Thresholds
from workbench.triage.finding import Finding
from workbench.triage.triage_engine import triage
from workbench.triage.verdict_names import State, Verdict
from workbench.window import Window

BASELINE, LENGTH, SCRAPE, PERIOD, LATE = 3600, 900, 30, 60, 120
START = END.timestamp() - BASELINE - LENGTH
INCIDENT = BASELINE - 600.0  # seconds after the start
PARTITIONS = 6
Series = tuple[dict[str, str], list[list[object]]]
Of = Callable[[float], float]


def series(name: str, value: Of, **labels: str) -> Series:
    """What a Prometheus has of a series: CloudWatch's last full minute of some minutes ago."""
    seconds = [number * float(SCRAPE) for number in range((BASELINE + LENGTH) // SCRAPE + 1)]
    of = {"name": "arn:aws:kafka:eu-west-1:1:cluster/prod/1", "region": "eu-west-1", "dimension_Cluster_Name": "prod"}
    shown = [[START + at, str(value((at - LATE) // PERIOD * PERIOD))] for at in seconds]
    return {"__name__": name, **of, **labels}, shown


def group(name: str, more: Callable[[int, float], float]) -> Iterator[Series]:
    """A group whose lag is some messages, and `more` of a partition."""

    def lag(partition: int) -> Of:
        return lambda at: Random(f"{name} {partition} {at}").randrange(60) + round(more(partition, at))

    of = {"dimension_Consumer_Group": name, "dimension_Topic": f"about {name}"}
    each = [lag(partition) for partition in range(PARTITIONS)]
    for partition, value in enumerate(each):
        own = {**of, "dimension_Partition": str(partition)}
        yield series("aws_kafka_offset_lag_maximum", value, **own)
        yield series("aws_kafka_estimated_time_lag_maximum", lambda at, value=value: value(at) / 50, **own)
    yield series("aws_kafka_sum_offset_lag_maximum", lambda at: sum(value(at) for value in each), **of)
    yield series("aws_kafka_max_offset_lag_maximum", lambda at: max(value(at) for value in each), **of)


def since(at: float, began: float = INCIDENT) -> float:
    """Seconds of the incident so far."""
    return max(0.0, at - began)


EVERYTHING = [
    *group("fine", lambda _partition, _at: 0),
    *group("stuck", lambda _partition, at: 50 * since(at)),
    *group("slow", lambda _partition, at: 8 * since(at)),
    *group("one-stuck", lambda partition, at: 50 * since(at) if partition == 2 else 0),
    *group("recovered", lambda _partition, at: max(0.0, 50 * since(at, 600) - 110 * since(at, 1500))),
    *group("draining", lambda _partition, at: max(0.0, 50 * since(at) - 75 * since(at, INCIDENT + 700))),
    series(
        "aws_kafka_messages_in_per_sec_average", lambda _at: 300, dimension_Broker_ID="1", dimension_Topic="about fine"
    ),
]
WHOLE = [it for it in EVERYTHING if "dimension_Partition" not in it[0]]  # MSK's default level of monitoring


def drafted(there: list[Series]) -> Draft:
    """The draft that these series give."""
    examples: dict[str, list[dict[str, str]]] = {}
    for labels, _ in there:
        examples.setdefault(labels["__name__"], []).append(labels)
    return draft("yace", examples)


def findings(there: list[Series], spark: Any, folder: Path) -> dict[str, Finding]:
    """Findings by group, with the draft that these series give."""

    def answer(_path: str, query: dict[str, list[str]]) -> bytes:
        named = re.search(r'__name__(=~?)"([^"]+)"', query.get("query", [""])[0])
        names = set(named[2].split("|")) if named else set()
        found = [{"metric": it, "values": values} for it, values in there if it["__name__"] in names]
        return json.dumps({"status": "success", "data": {"resultType": "matrix", "result": found}}).encode()

    (folder / "yace.yaml").write_text(drafted(there).to_yaml())
    with scripted(Script(answer=answer)) as server:
        (folder / "workbench.toml").write_text(
            f'[clusters.msk]\nprometheus = "{server.url}"\nprofiles = ["./yace.yaml"]\n'
        )
        window = Window.ending(END, length=timedelta(seconds=LENGTH), baseline=timedelta(seconds=BASELINE))
        capture = collect(load_settings(folder / "workbench.toml").cluster("msk"), window, thresholds=Thresholds())
    return {it.group: it for it in triage(capture, spark).findings}


@pytest.mark.jvm
@pytest.mark.parametrize("there", [EVERYTHING, WHOLE], ids=["by partition", "sums of topics"])
def test_a_growing_lag_is_seen_and_no_cause_is_guessed(there: list[Series], spark: Any, tmp_path: Path) -> None:
    """Lag alone shows that a group falls behind, and how fast; a group that is well, or is so again, is no alarm."""
    found = findings(there, spark, tmp_path)
    assert set(found) == {"fine", "stuck", "slow", "one-stuck", "recovered", "draining"}
    for name in ("stuck", "slow", "one-stuck"):
        said = found[name]
        assert (said.state, said.verdict) == (State.CANNOT_TELL, Verdict.CANNOT_TELL), said.headline
        assert re.search(r"growing [\d.,]+/s", said.headline), said.headline
    for name in ("fine", "recovered"):  # a few messages: how long one of them waits may not be known
        assert found[name].state in (State.HEALTHY, State.CANNOT_TELL), found[name].headline
        assert "growing" not in found[name].headline
    assert "shrinking" in found["draining"].headline
    assert found["draining"].state in (State.DRAINING, State.CANNOT_TELL)


def test_the_draft_takes_no_time_to_drain_for_an_age() -> None:
    """It says why; and the age of nothing is in "messages … average"."""
    found = drafted(EVERYTHING)
    assert set(found.signals) == {"consumer_lag"}
    assert found.left["aws_kafka_estimated_time_lag_maximum"].startswith("the time that it will take to drain")
    assert found.missing["time_lag"].startswith("no metric looks like")
