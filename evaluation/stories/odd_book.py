"""Life that the story book does not have: 55 odd kinds, each of them seen in real clusters.

python -m evaluation.stories.odd_book --seed 1 --list-wrong            # all kinds, in one Spark job
python -m evaluation.stories.odd_book --seed 1 --kind quick_catch_up
python -m evaluation.stories.odd_book --seed 1 --book --every 120      # the story book itself at another scrape interval
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

from evaluation.stories.odd_delays import (
    drain_stops,
    drain_turns,
    frozen_and_quiet,
    frozen_for_hours,
    leak_begins,
    oscillates_late,
    outage_again,
    slow_leak,
)
from evaluation.stories.odd_groups import (
    cascade,
    edge_of_load,
    half_a_topic,
    migrated,
    new_producer,
    one_heals_another,
    rare_commits_gone,
    scaled_to_zero,
    second_fault,
    slow_member,
    three_of_200,
    trickle_dead,
    wandering_heat,
)
from evaluation.stories.odd_mixed import (
    aborted_tail,
    caught_up_before_window,
    clients_alone,
    drained_but_one_frozen,
    edge_of_retention,
    first_start,
    hourly_dump,
    lag_only,
    leaderless_behind,
    lost_last_scrape,
    lost_one_of_many,
    new_partitions_well,
    night_falls,
    nobody_owns,
    one_drains_for_ever,
    one_drains_slowly,
    one_step_skip,
    rare_scrapes,
    skip_before_window,
    skipped_after_hours,
    skipped_to_datetime,
)
from evaluation.stories.odd_offsets import (
    deleted_group,
    dropped_group,
    flapping_exporter,
    gap_over_onset,
    leaderless,
    new_partitions_latest,
    new_partitions_unread,
    quick_catch_up,
    reset_and_done,
    short_history,
    slow_poll,
    slow_poll_gone,
    stale_exporter,
    stale_for_a_while,
)
from evaluation.stories.truth import Cast, Plan, Story

EVERY = (30.0, 15.0, 60.0, 120.0, 30.0, 60.0)


KINDS: dict[Callable[[Cast], Plan], tuple[int, str]] = {
    frozen_for_hours: (9, "LCR"),
    frozen_and_quiet: (6, "LCR"),
    slow_leak: (6, "LCR"),
    leak_begins: (6, "LCR"),
    drain_turns: (16, "LLCR"),
    drain_stops: (8, "LLCR"),
    oscillates_late: (8, "LLCR"),
    outage_again: (8, "LLCR"),
    quick_catch_up: (10, "LLLCR"),
    deleted_group: (6, "LCR"),
    new_partitions_latest: (4, "L"),
    new_partitions_unread: (8, "LLR"),
    reset_and_done: (4, "L"),
    leaderless: (6, "LCR"),
    dropped_group: (6, "L"),
    stale_exporter: (9, "LCR"),
    stale_for_a_while: (9, "LCL"),
    slow_poll: (6, "L"),
    slow_poll_gone: (6, "L"),
    gap_over_onset: (4, "L"),
    flapping_exporter: (9, "L"),
    short_history: (8, "LR"),
    migrated: (12, "LLC"),
    scaled_to_zero: (8, "L"),
    one_heals_another: (8, "LCCR"),
    slow_member: (8, "LCCR"),
    cascade: (6, "LCR"),
    three_of_200: (6, "LC"),
    trickle_dead: (8, "LLCR"),
    rare_commits_gone: (6, "L"),
    edge_of_load: (6, "LCR"),
    wandering_heat: (6, "LCR"),
    second_fault: (8, "LCR"),
    half_a_topic: (6, "LR"),
    new_producer: (6, "LCR"),
    skipped_to_datetime: (6, "LLR"),
    edge_of_retention: (6, "LCR"),
    nobody_owns: (6, "LCR"),
    hourly_dump: (9, "LCR"),
    new_partitions_well: (6, "L"),
    first_start: (6, "LCR"),
    leaderless_behind: (9, "LCR"),
    one_step_skip: (6, "LCR"),
    one_drains_for_ever: (6, "LCR"),
    one_drains_slowly: (9, "LCR"),
    drained_but_one_frozen: (15, "LCR"),
    night_falls: (6, "LCR"),
    lost_one_of_many: (6, "LCR"),
    rare_scrapes: (16, "RRRRCCCC"),
    lost_last_scrape: (16, "RRRRCCCC"),
    lag_only: (8, "L"),
    clients_alone: (12, "LRCR"),
    aborted_tail: (6, "LCR"),
    skipped_after_hours: (6, "LCR"),
    skip_before_window: (6, "RC"),
    caught_up_before_window: (6, "RC"),
}


def draw(seed: int, *, kind: str | None = None, every: float | None = None, tier: str | None = None) -> list[Story]:
    """All of these stories of a seed."""
    stories, number = [], 0
    for at, (make, (count, tiers)) in enumerate(KINDS.items()):
        for turn in range(count):
            number += 1
            if kind is not None and make.__name__ not in kind.split(","):
                continue
            cast = Cast(
                kind=make.__name__,
                number=number,
                tier=tier or tiers[(turn + turn // len(tiers)) % len(tiers)],  # type: ignore[arg-type]
                scrape=every or EVERY[(turn * 5 + at) % len(EVERY)],
                seed=seed,
                turn=turn,
            )
            plan = make(cast)
            stories.append(Story(cast=cast, make=make, truths=tuple(plan.truths), settings=plan.settings))
    return stories


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kind")
    parser.add_argument("--every", type=float, help="another scrape interval")
    parser.add_argument("--tier", help="all of them in this tier: L, C, H, R")
    parser.add_argument("--book", action="store_true", help="the story book instead")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--list-wrong", action="store_true")
    given = parser.parse_args()
    from evaluation.stories import book
    from evaluation.stories.score import Mark, score, shares, table
    from workbench.spark.session import end, session

    began = time.monotonic()
    if given.book:
        if given.every:
            book.SCRAPES = (given.every,) * 6
        stories = book.draw(given.seed, kind=given.kind)
    else:
        stories = draw(given.seed, kind=given.kind, every=given.every, tier=given.tier)
    spark = session()
    judged = score(spark, stories)
    end(spark)
    for it in judged:
        off = it.since_error is not None and abs(it.since_error) > 5
        if given.list or (given.list_wrong and (it.mark is not Mark.RIGHT or it.harmful or off)):
            print(it, f"\n    since off by {it.since_error:.1f} scrapes" if off else "", sep="")
    print(table(judged))
    print(", ".join(f"{name} {share:.1%}" for name, share in shares(judged).items()))
    print(f"{len(judged)} findings of {len(stories)} stories, seed {given.seed}, {time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    main()
