"""The story book itself: its stories are possible, and what they claim is so."""

from __future__ import annotations

import numpy as np
import pyarrow.compute as pc
import pytest

from evaluation.stories.book import draw
from evaluation.stories.life import Life, serve
from evaluation.stories.truth import Story

SEED = 7
OBJECTIVE = 120.0
# Sick without a lag that is late at the end: what is wrong is elsewhere.
NOT_LATE = {"overtaken", "skipped", "recreated", "failing", "dead_producer", "from_the_start", "on_and_off"}
# Healthy with an age above the objective: between two commits or runs, or on purpose.
LATE_AND_WELL = {"rhythm", "sink", "checkpoints", "hourly_batch", "delayed", "standby", "vanished", "never_committed"}


@pytest.fixture(scope="module")
def stories() -> list[Story]:
    """One book."""
    return draw(SEED)


def lives(story: Story) -> list[Life]:
    """What really happens in it."""
    return [view.life for view in story.plan().views]


def test_a_book_has_306_stories(stories: list[Story]) -> None:
    """100 healthy and 206 sick groups, each with a name of its own."""
    assert len(stories) == 306
    assert sum(not story.truths[0].sick for story in stories) == 100
    assert len({story.group for story in stories}) == 306


def test_a_seed_is_a_book(stories: list[Story]) -> None:
    """The same seed tells the same stories; another one does not."""
    again = {story.group: story for story in draw(SEED)}
    other = {story.group: story for story in draw(SEED + 1)}
    for story in stories[::46]:
        assert story.samples() == again[story.group].samples(), story.name
        assert story.truths == again[story.group].truths
        assert story.samples() != other[story.group].samples(), story.name


def test_one_kind_alone_is_the_same(stories: list[Story]) -> None:
    """A story does not depend on those before it."""
    for story in draw(SEED, kind="hot_key"):
        whole = next(it for it in stories if it.group == story.group)
        assert story.samples() == whole.samples()


def test_offsets_are_possible(stories: list[Story]) -> None:
    """Nothing is done before it has arrived, or committed before it is done; ends, starts and commits only grow, but for a reset."""
    for story in stories:
        for life in lives(story):
            found = life.offsets
            assert (found.done <= found.produced).all(), story.name
            assert (found.committed - found.base <= found.done).all(), story.name
            assert (found.start >= 0).all(), story.name
            if life.recreated is None:
                assert (np.diff(found.end) >= 0).all(), story.name
                assert (np.diff(found.start) >= 0).all(), story.name
            if not life.jumps:
                assert (np.diff(found.committed) >= 0).all(), story.name


def test_the_sick_are_late(stories: list[Story]) -> None:
    """At the end something is older than the objective, wherever the story is about a lag."""
    for story in stories:
        late = [truth for truth in story.truths if truth.sick and not truth.calm_is_fine]
        if late and story.cast.kind not in NOT_LATE:
            worst = min(float(life.ages()[:, -1].max()) for life in lives(story))
            assert worst > OBJECTIVE * 1.1, f"{story.name}: {worst:.0f} s"


def test_the_healthy_are_not_late(stories: list[Story]) -> None:
    """In the last minutes nothing is older than half of the objective, but for groups whose rhythm is slower."""
    for story in stories:
        if not story.truths[0].sick and story.cast.kind not in LATE_AND_WELL:
            worst = max(float(life.ages()[:, -180:].max()) for life in lives(story))
            assert worst < OBJECTIVE * 0.6, f"{story.name}: {worst:.0f} s"


def test_retention_has_passed_what_is_lost(stories: list[Story]) -> None:
    """Before a reset to the end, or still: the log begins above the commit."""
    for story in stories:
        if story.cast.kind in ("overtaken", "stopped_and_expired"):
            [life] = lives(story)
            at = life.tick((-life.jumps[0][0] if life.jumps else 0.0) + 5)
            found = life.offsets
            assert (found.start[:, at] > found.committed[:, at]).any(), story.name


def test_who_is_gone_shows_nothing(stories: list[Story]) -> None:
    """No sample of a process after its end, and none of a process by a lag exporter."""
    some = stories[::15] + [it for it in stories if it.cast.kind in ("members_gone", "stopped_and_expired")]
    for story in some:
        samples = story.samples()
        inside = samples.filter(pc.equal(samples["source"], "runtime"))
        if story.cast.kind != "stopped_and_expired":  # its processes ended before anything was measured
            assert (inside.num_rows > 0) == (story.cast.tier == "R"), story.name
        if story.cast.kind == "members_gone" and inside.num_rows:
            onset = story.truths[0].onset
            assert onset is not None
            last = pc.max(inside["ts"]).as_py()
            assert (story.window.end - last).total_seconds() >= onset - 1, story.name


def test_members_are_known_by_one_name(stories: list[Story]) -> None:
    """No two samples of a series at the same instant."""
    for story in stories[::15]:
        samples = story.samples()
        names = [name for name in samples.schema.names if name not in ("value", "flag")]
        assert samples.group_by(names).aggregate([("value", "count")]).num_rows == samples.num_rows, story.name


def test_a_server_does_no_more_than_it_can() -> None:
    """Lindley's recursion against a loop, with a backlog at the beginning."""
    rng = np.random.default_rng(1)
    produced = np.cumsum(rng.poisson(3.0, (2, 400)), axis=1).astype(float)
    pace = rng.choice([0.0, 2.0, 6.0], (2, 400))
    served = serve(produced, pace, -10.0)
    for row in range(2):
        done = -10.0
        for tick in range(400):
            done = min(done + pace[row, tick], produced[row, tick])
            assert served[row, tick] == np.floor(done)
