"""The real triage behind the server: what it is asked, what is kept of a finding, in parts."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from evaluation.stories import THRESHOLDS, WINDOW, Story, lagging
from workbench.api.load_measurements import Measured
from workbench.api.measurement_requests import Measurements
from workbench.collect.capture import Capture, new_info, read_capture
from workbench.errors import NoSeriesError
from workbench.samples import concat
from workbench.serve.judge_groups import Question, SparkJudge

INCIDENT = Path(__file__).parent.parent.parent / "notebooks" / "captures" / "incident-1"


@pytest.mark.jvm
def test_a_finding_is_reduced_with_its_picture(tmp_path: Path, spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The verdict, the words and an escaped picture; a group without data is left out; one that has gone is asked no more."""
    capture = read_capture(INCIDENT)
    asked: list[Measurements] = []

    def answer(request: Measurements) -> Measured:
        asked.append(request)
        if "gone" in request.groups:
            raise NoSeriesError("There is no group 'gone'.")
        return Measured(capture=capture, window=capture.window)

    monkeypatch.setattr("workbench.api.load_measurements.measure", answer)
    settings = tmp_path / "workbench.toml"
    settings.write_text('[clusters.prod]\nprometheus = "http://127.0.0.1:9"\n')
    judge = SparkJudge(config=settings)
    [group] = {str(it) for it in capture.samples["group"].unique().to_pylist() if it}
    question = Question(cluster="prod", groups=(group, "gone"))
    [found] = judge(question)
    assert [it.groups for it in asked] == [(group, "gone"), ()]
    assert found.group == group and found.state == "lagging" and found.headline
    assert found.picture is not None and '<svg class="tree"' in found.picture and "style=" not in found.picture
    assert found.trend is not None and found.trend.startswith("Time lag, last ") and "█" in found.trend
    [plain] = judge(replace(question, groups=(), pictures=False))
    assert plain.picture is None and plain.trend is None and plain.verdict == found.verdict


@pytest.mark.jvm
@pytest.mark.parametrize("unanswered", [(), ("second: did not answer (ConnectionError) \u202e", "third: is silent")])
def test_what_a_source_did_not_answer_is_no_all_clear(
    tmp_path: Path, spark: Any, monkeypatch: pytest.MonkeyPatch, unanswered: tuple[str, ...]
) -> None:
    """A healthy part of a group says nothing of the rest, which would have closed its incident; what lags in it lags."""
    well = Story(group="well", topic="t").all_partitions().people()
    late = lagging(Story(group="late", topic="t")).calm()
    info = new_info(cluster="prod", source="prometheus", profiles=["runtime"], window=WINDOW, thresholds=THRESHOLDS)
    capture = Capture(info=info, samples=concat([it.samples() for it in (well, late)]), unanswered=unanswered)
    measured = Measured(capture=capture, window=capture.window)
    monkeypatch.setattr("workbench.api.load_measurements.measure", lambda _request: measured)
    settings = tmp_path / "workbench.toml"
    settings.write_text('[clusters.prod]\nprometheus = "http://127.0.0.1:9"\n')
    found = {it.group: it for it in SparkJudge(config=settings)(Question(cluster="prod", pictures=False))}
    assert found["late"].state == "lagging"
    assert found["well"].state == ("cannot_tell" if unanswered else "healthy")
    if unanswered:
        assert "did not answer" in found["well"].headline
        assert "\u202e" not in found["well"].headline
