"""The story book: 306 stories of one seed, 100 healthy and 206 sick."""

from __future__ import annotations

import numpy as np

from evaluation.stories.held import HELD
from evaluation.stories.paces import PACES
from evaluation.stories.stops import STOPS
from evaluation.stories.truth import Cast, Story
from evaluation.stories.well import WELL

KINDS = {**WELL, **STOPS, **PACES, **HELD}
SCRAPES = (30.0, 15.0, 60.0, 30.0, 30.0, 60.0)


# Nothing of these can be seen by a client's statistics and process times.
_INSIDE = {"failing", "poison_alone", "poison_among_idle", "poison_one_of_many"}


def draw(seed: int, *, kind: str | None = None, clients: bool = False, handlers: bool = False) -> list[Story]:
    """All stories of a seed; the same seed gives the same stories, also if only one kind is wanted.

    Args:
        seed: of all draws.
        kind: only this one.
        clients: the same kinds, of consumers that somebody else wrote; `handlers`: ... and whose clients show nothing of themselves.
    """
    stories, number = [], 0
    order = np.random.default_rng(seed)
    for make, (count, tiers) in KINDS.items():
        shift = int(order.integers(len(SCRAPES)))
        for turn in range(count):
            number += 1
            cast = Cast(
                kind=make.__name__,
                number=number,
                tier="H" if handlers else "C" if clients else tiers[turn % len(tiers)],  # type: ignore[arg-type]
                scrape=SCRAPES[(turn * 5 + turn // 6 + shift) % len(SCRAPES)],
                seed=seed,
                turn=turn + (seed % 2 if len(tiers) % 2 else 0),
            )
            if (kind is not None and kind != cast.kind) or (cast.others and cast.kind in _INSIDE):
                continue
            plan = make(cast)
            stories.append(Story(cast=cast, make=make, truths=tuple(plan.truths), settings=plan.settings))
    return stories
