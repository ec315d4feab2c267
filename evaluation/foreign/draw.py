"""Draws recordings by seed, with their truths: nothing here knows what triage says."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence

from evaluation.foreign.circumstances import Draw
from evaluation.foreign.healthy import HEALTHY
from evaluation.foreign.sick import ONLY, SICK
from evaluation.foreign.spec import LIBRARIES, Library, Plan

_HEALTHY_SHARE = 0.3
Make = Callable[[Draw], Plan]


def _chosen(
    chance: random.Random, kinds: Mapping[str, Make], count: int, libraries: Sequence[Library]
) -> list[tuple[str, Library]]:
    """Every kind once before any comes again, and then with another library."""
    names = chance.sample(list(kinds), len(kinds))
    turns = {
        name: chance.sample(able, len(able))
        for name in names
        if (able := [it for it in libraries if it in ONLY.get(name, libraries)])
    }
    most = max(len(able) for able in turns.values())
    return [(name, able[turn]) for turn in range(most) for name, able in turns.items() if turn < len(able)][:count]


def drawn(seed: int, count: int, *, only: tuple[str, ...] = (), libraries: Sequence[Library] = LIBRARIES) -> list[Plan]:
    """Recordings of a seed, about a third of them healthy; with `only`, these kinds on each library that has them.

    Raises:
        ValueError: if there are not so many different ones.
    """
    chance = random.Random(seed)
    calm = round(count * _HEALTHY_SHARE)
    pairs = [*_chosen(chance, HEALTHY, calm, libraries), *_chosen(chance, SICK, count - calm, libraries)]
    if only:
        pairs = [(kind, library) for kind in only for library in libraries if library in ONLY.get(kind, libraries)]
    elif len(pairs) < count:
        raise ValueError(f"there are {len(pairs)} recordings to draw, fewer than {count}")
    chance.shuffle(pairs)
    return [
        {**HEALTHY, **SICK}[kind](Draw(seed, number, kind, library)) for number, (kind, library) in enumerate(pairs)
    ]
