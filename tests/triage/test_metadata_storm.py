"""Requests for metadata on all brokers at once: both sides of every number, who asks, and what cannot be told."""

from __future__ import annotations

import pytest

from tests.triage.brokers import Made, after, at
from tests.triage.test_blame_heavy_readers import neighbours
from tests.triage.test_brokers import look, one
from workbench.triage.broker_findings import BrokerVerdict

STORM = BrokerVerdict.METADATA_STORM


def storm(
    *,
    rate: float = 900.0,
    usual: float = 10.0,
    idle: float | None = 0.3,
    waits: float | None = None,
    on: tuple[int, ...] = (1, 2, 3),
    told: tuple[int, ...] = (1, 2, 3),
) -> Made:
    """Three brokers; those of `on` get so many requests for metadata, and what their handlers show for it."""
    made = Made()
    for broker in (1, 2, 3):
        neighbours(made, broker, slow=None, groups=2)
        made.traffic(broker, at(1e6))
        is_hit = broker in on
        if broker in told:
            made.count(broker, "metadata_requests", after(-10, rate, before=usual) if is_hit else at(usual))
        if idle is not None:
            made.own(broker, "request_handler_idle", after(-10, idle if is_hit else 0.9, before=0.9))
        if waits is not None:
            level = waits if is_hit else 0.001
            made.own(broker, "request_queue_time", after(-10, level, before=0.001), kind="Produce")
    return made


@pytest.mark.parametrize(
    ("below", "above"),
    [
        ({"rate": 49.0}, {"rate": 51.0}),
        ({"rate": 178.0, "usual": 60.0}, {"rate": 182.0, "usual": 60.0}),
        ({"idle": 0.81}, {"idle": 0.79}),
        ({"idle": None, "waits": 0.019}, {"idle": None, "waits": 0.021}),
        ({"on": (1, 2)}, {"on": (1, 2, 3)}),
        ({"told": (1,)}, {"told": (1, 2)}),
    ],
)
def test_both_sides_of_every_number(below: dict, above: dict) -> None:  # type: ignore[type-arg]
    """A rate, its usual, the handlers' rest, their queue, and on how many brokers."""
    assert one(storm(**below), STORM) is None
    found = one(storm(**above), STORM)
    assert found is not None and "ask every broker for metadata" in found.headline


@pytest.mark.parametrize(("rate", "is_storm"), [(28.0, False), (32.0, True)])
def test_a_broker_that_is_asked_less_ends_no_storm(rate: float, *, is_storm: bool) -> None:
    """Clients share their requests out unevenly: what counts is the mean of the brokers, and that all are asked more than before."""
    made = storm(rate=60.0, usual=1.0, told=(1, 2))
    made.count(3, "metadata_requests", after(-10, rate, before=1.0))
    found = one(made, STORM)
    assert (found is not None) == is_storm
    if found is not None:
        third = found.strains[2].evidence
        assert (third.value, third.threshold) == (pytest.approx(rate, rel=0.02), pytest.approx(3.0, rel=0.05))


def test_what_was_compared_is_shown_of_each_broker() -> None:
    """The rate, and what the handlers show; who asks is not known without a request quota, which is said."""
    found = one(storm(), STORM)
    assert found is not None and found.brokers == (1, 2, 3)
    assert [(it.broker, it.evidence.signal) for it in found.strains] == [
        *((broker, "metadata_requests") for broker in (1, 2, 3)),
        *((broker, "request_handler_idle") for broker in (1, 2, 3)),
    ]
    first = found.strains[0].evidence
    assert first.value == pytest.approx(900, rel=0.02) and first.baseline == pytest.approx(10, rel=0.05)
    assert "cannot be told" in found.headline


@pytest.mark.parametrize(("share", "is_named"), [(0.48, False), (0.52, True)])
def test_who_asks_is_named_if_it_is_most_of_the_rise(share: float, *, is_named: bool) -> None:
    """By the time of the brokers' threads that each client id takes; one that is busy all the time is not it."""
    made = storm()
    for broker in (1, 2, 3):
        made.asks("shop", broker, after(-10, share * 2, before=0.0))
        for other in ("one", "another"):
            made.asks(other, broker, after(-10, 1 - share, before=0.0))
        made.asks("busy", broker, at(4.0))
    found = one(made, STORM)
    assert found is not None
    assert ("shop" in found.headline) == is_named == ("shop" in found.actions[0].title)
    assert ("No client id makes most of it." in found.headline) != is_named


def test_clients_that_were_not_measured_before_are_not_named() -> None:
    """A quota that is set in the storm shows who takes how much, and not who takes more."""
    made = storm()
    for broker in (1, 2, 3):
        made.asks("shop", broker, after(-4, 2.0))
    found = one(made, STORM)
    assert found is not None and "shop" not in found.headline and "did not measure clients before" in found.headline


def test_versions_of_the_request_are_added_up() -> None:
    """A broker counts each by itself; clients of three versions ask together."""
    made = storm(told=())
    for broker in (1, 2, 3):
        for version in ("9", "12", "13"):
            made.count(broker, "metadata_requests", after(-10, 40.0, before=1.0), kind=version)
    found = one(made, STORM)
    assert found is not None and found.strains[0].evidence.value == pytest.approx(120, rel=0.02)


def test_groups_that_wait_are_its_victims() -> None:
    """And nobody else."""
    made = storm()
    made.group("late", 1, at(200.0), after(-9.5, 0.6, before=1.0))
    found = one(made, STORM)
    assert found is not None and found.groups == ("late",)


def test_without_signs_of_the_handlers_it_is_open() -> None:
    """Many requests alone harm nobody; a missing signal is no sign of rest."""
    found = look(storm(idle=None))
    assert found.unknown[STORM] == ("request_handler_idle or request_queue_time",)
    assert STORM not in {it.verdict for it in found.findings}
