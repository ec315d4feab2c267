"""The story book: 300 stories of one seed, 100 healthy and 200 sick."""

from __future__ import annotations

import numpy as np

from tests.stories.paces import PACES
from tests.stories.stops import STOPS
from tests.stories.truth import Cast, Story
from tests.stories.well import WELL

KINDS = {**WELL, **STOPS, **PACES}
SCRAPES = (30.0, 15.0, 60.0, 30.0, 30.0, 60.0)


def draw(seed: int, *, kind: str | None = None) -> list[Story]:
    """All stories of a seed; the same seed gives the same stories, also if only one kind is wanted."""
    stories, number = [], 0
    order = np.random.default_rng(seed)
    for make, (count, tiers) in KINDS.items():
        shift = int(order.integers(len(SCRAPES)))
        for turn in range(count):
            number += 1
            cast = Cast(
                kind=make.__name__,
                number=number,
                tier=tiers[turn % len(tiers)],  # type: ignore[arg-type]
                scrape=SCRAPES[(turn * 5 + turn // 6 + shift) % len(SCRAPES)],
                seed=seed,
                turn=turn + (seed % 2 if len(tiers) % 2 else 0),
            )
            if kind is not None and kind != cast.kind:
                continue
            plan = make(cast)
            stories.append(Story(cast=cast, make=make, truths=tuple(plan.truths), settings=plan.settings))
    return stories
