"""Words of a rule: a metric for each kind, values that mean kinds, labels that a series must have; and what is refused."""

from __future__ import annotations

import math

import pytest

from workbench.collect.scrape import Page, page_series
from workbench.errors import ConfigError
from workbench.profiles import LeftOut, Meaning, Profile, parse_profile

RULES = """
title: t
signals:
  broker_traffic:
    kinds: {BytesInPerSec: acme_in_bytes_total, BytesOutPerSec: acme_out_bytes_total}
    labels: {broker: instance}
  request_time:
    metric: acme_request_ms
    labels: {broker: instance}
    where: {quantile: "0.99"}
    only_with: [quantile]
    stat_label: api
    stats: {"PUT|POST": Produce, "get-(.+)": 'Fetch\\1'}
    scale: 0.001
"""


def of(metric: str, **labels: str) -> Meaning | None:
    """What a series means."""
    return parse_profile(RULES, name="t").meaning(metric, {"instance": "b:1", **labels}, left_out=LeftOut())


def test_a_metric_for_each_kind() -> None:
    """Its name tells it."""
    profile: Profile = parse_profile(RULES, name="t")
    assert set(profile.metrics()) == {"acme_in_bytes_total", "acme_out_bytes_total", "acme_request_ms"}
    found = of("acme_out_bytes_total")
    assert found is not None and (found.signal, found.stat) == ("broker_traffic", "BytesOutPerSec")


@pytest.mark.parametrize(
    ("labels", "kind"),
    [
        ({"api": "PUT"}, "Produce"),
        ({"api": "POST"}, "Produce"),
        ({"api": "get-Consumer"}, "FetchConsumer"),
        ({"api": "DELETE"}, None),
        ({"api": "PUTS"}, None),
        ({}, None),
        ({"api": "PUT", "quantile": "0.5"}, None),
    ],
)
def test_a_value_means_a_kind(labels: dict[str, str], kind: str | None) -> None:
    """In full, and by its first group; what means none is not meant, which is no invalid label."""
    found = of("acme_request_ms", **{"quantile": "0.99", **labels})
    assert (None if found is None else found.stat) == kind


def test_a_series_without_a_label_that_it_must_have_is_not_meant() -> None:
    """A count under the name of its percentiles."""
    assert of("acme_request_ms", api="PUT") is None


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        ("{metric: m, labels: {broker: i}, stat_label: a, stats: {'(': x}}", "is not a valid pattern"),
        ("{metric: m, labels: {broker: i}, stat_label: a, stats: {x: '\\1'}}", "has no group"),
        ("{metric: m, labels: {broker: i}, stats: {x: y}}", "needs the stat_label"),
        ("{kinds: {a: m}, labels: {broker: i}, stat_label: a}", "there are no parts and no stat_label"),
        ("{kinds: {a: m}, also: [n], labels: {broker: i}}", "there is no also"),
        ("{kinds: {a: 'not a name'}, labels: {broker: i}}", "should match pattern"),
        ("{kinds: {}, labels: {broker: i}}", "metric"),
        ("{kinds: [m], labels: {broker: i}}", "metric"),
    ],
)
def test_what_is_no_rule_is_one_clear_error(rule: str, words: str) -> None:
    """It names the field or the reason."""
    with pytest.raises(ConfigError, match="cannot be used") as caught:
        parse_profile(f"title: t\nsignals:\n  broker_traffic: {rule}\n", name="t")
    assert words in str(caught.value)


JAVA = """
title: t
member_is: client_id
signals:
  poll_idle: {metric: acme_idle_ratio, labels: {member: client_id}, counted_twice: true}
"""


@pytest.mark.parametrize(
    ("told", "share"), [(0.0, 0.0), (0.2, 0.25), (1 / 3, 0.5), (0.5, 1.0), (0.7, 1.0), (1.0, 1.0), (math.nan, None)]
)
def test_a_share_whose_own_part_is_counted_twice(told: float, share: float | None) -> None:
    """Java's clients divide the time in polls (b) by 2b + h: who waits half of the time tells a third, and who only waits a half."""
    page = Page(url="http://page", taken_at=1000.0, text=f'acme_idle_ratio{{client_id="c"}} {told}\n')
    [series] = page_series(page, [parse_profile(JAVA, name="t")], cluster="c")
    [row] = series.to_samples().to_pylist()
    assert row["value"] == (None if share is None else pytest.approx(share))


def test_what_is_no_share_has_no_part_that_is_counted_twice() -> None:
    """It is refused where the profile is read."""
    with pytest.raises(ConfigError, match="is no share"):
        parse_profile(JAVA.replace("poll_idle:", "poll_age:"), name="t")
