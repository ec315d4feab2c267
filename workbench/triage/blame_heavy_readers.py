"""Whose fault it is: who reads so much from a broker that others wait. A correlation in time and place, and called so.

Somebody is accused only if, from one moment on, it moves clearly more than before; that is most of what its brokers move more; groups
on these brokers begin to fall behind then, and not before; groups on other brokers do not; and the brokers themselves show a strain,
where they are measured. A reader that is busy all the time, or elsewhere, or when nobody waits, is listed with the reason instead.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeVar

import numpy as np

from workbench.features.broker_features import FloatArray, GroupOnBroker, Neighbourhood
from workbench.humanize import listed, percent, plural
from workbench.judgement_numbers import (
    APART,
    FEW_SAMPLES,
    MOST,
    PART,
    SEVERAL,
    TENTH,
    TREND_SAMPLES,
    UTILISATION,
)
from workbench.thresholds import Thresholds
from workbench.triage.broker_strains import is_calm, mean_of, strains_of
from workbench.triage.groups_slowed_by_broker import HeldUp, Span
from workbench.triage.verdict_names import Answer
from workbench.triage.who_holds_up_whom import BlamedCause, Cleared, Impact, Mover, named

_FEW, _TREND = int(FEW_SAMPLES), int(TREND_SAMPLES)
_NEEDED = ("consumer_lag", "leader", "broker_traffic")  # without them nothing can be said
Line = TypeVar("Line")
_TRAFFIC = {"group": "BytesOutPerSec", "client": "BytesOutPerSec", "writer": "BytesInPerSec"}


@dataclass(frozen=True, slots=True, eq=False)
class _Suspect:
    kind: Literal["group", "client", "writer"]
    name: str
    clients: tuple[str, ...]
    lines: Mapping[int, FloatArray]  # by broker, bytes/s; NaN where its page is not there
    measured_by: str
    shared: tuple[str, ...] = ()  # those of its client ids that several groups have

    is_named: bool = True  # else all that is moved beside the others: nobody can be accused of it

    @property
    def words(self) -> str:
        """`group "backfill"`."""
        who = "writes" if self.kind == "writer" else "reads"
        return named(self.kind, self.name) if self.is_named else f"somebody whose {who} no source tells"

    @property
    def group(self) -> str | None:
        """Its name, if it is a group."""
        return self.name if self.kind == "group" else None


def blame(all_of: Neighbourhood, limits: Thresholds) -> Impact:
    """Find who holds whom up."""
    if all_of.first < _TREND:
        return _plain(all_of, Answer.CANNOT_TELL, "Cannot tell: there is no time before the window to compare with.")
    suspects = list(_suspects(all_of))
    suspects += list(_unnamed(all_of, suspects))
    held = HeldUp(all_of, limits)
    moved = {it: _moved(it, suspects, all_of) for it in suspects}
    # Brokers where somebody else's reads explain the waiting say nothing about this one.
    blamed = {
        it: set(one.brokers)
        for it, one in moved.items()
        if isinstance(one, _Moved) and one.share > MOST and held.victims(it.group, one.brokers, (), one.span)[0]
    }
    causes: list[BlamedCause] = []
    cleared: list[tuple[float, Cleared]] = []
    unsure: list[str] = []
    for it, one in moved.items():
        found: BlamedCause | _NotAccused
        if isinstance(one, _NotAccused):
            found = one
        else:
            theirs = set[int]().union(*(brokers for other, brokers in blamed.items() if other is not it))
            elsewhere = set(all_of.brokers) - set(one.brokers) - theirs
            found = _judged(it, one, sorted(elsewhere), suspects, all_of, held)
        if not it.is_named:
            if isinstance(found, BlamedCause) or (found.is_open and found.moved):
                unsure.append(it.words)
            continue
        if isinstance(found, BlamedCause):
            causes.append(found)
            continue
        now = sum(_mean(line[-_TREND:]) for line in it.lines.values())
        cleared.append((max(now, found.moved), Cleared(who=it.words, bytes_per_second=now, because=found.because)))
        if found.is_open:
            unsure.append(it.words)
    causes.sort(key=lambda it: (-len(it.victims), it.offender.name))
    explained = {(one.group, broker) for it in causes for one in it.victims for broker in one.brokers}
    accused = {it.offender.name for it in causes if it.offender.kind == "group"}
    rest: dict[str, tuple[int, ...]] = {}
    for group, broker in held.at(Span(all_of.first, len(all_of.times), False)):
        if (group, broker) not in explained and group not in accused:
            rest[group] = (*rest.get(group, ()), broker)
    missing = tuple(_missing(all_of, suspects, {broker for brokers in rest.values() for broker in brokers}))
    answer, sentence = _answer(causes, rest, unsure, missing, held.is_known)
    return replace(
        _plain(all_of, answer, sentence),
        causes=tuple(causes),
        cleared=tuple(it for _, it in sorted(cleared, key=lambda it: -it[0])[: int(SEVERAL)]),
        held_up=rest,
        missing=missing,
    )


def _plain(all_of: Neighbourhood, answer: Answer, sentence: str) -> Impact:
    start, end = float(all_of.times[0]), float(all_of.times[-1])
    return Impact(answer=answer, sentence=sentence, start=start, end=end, step=all_of.step, brokers=all_of.brokers)


def _missing(all_of: Neighbourhood, suspects: Sequence[_Suspect], brokers: Collection[int]) -> Iterator[str]:
    """Signals that nothing measures in the window; and those that a broker on which groups wait does not tell for most of the time."""
    yield from (name for name in _NEEDED if name in all_of.absent)
    if "server_start_time" in all_of.absent and "broker_traffic" not in all_of.absent:
        yield "server_start_time"  # which page is which broker's
    reads = "client_reads or topic_reads"
    if {"client_reads", "topic_reads"} <= all_of.absent:
        yield reads
    if {"committed_offset", "log_end_offset"} <= all_of.absent:
        yield "committed_offset or log_end_offset"
    for broker in sorted(brokers):
        traffic = all_of.servers.get(broker, {}).get(("broker_traffic", "BytesOutPerSec"))
        readers = [it.lines[broker] for it in suspects if it.is_named and it.kind != "writer" and broker in it.lines]
        if "broker_traffic" not in all_of.absent and (traffic is None or not _is_told(traffic, all_of.first)):
            yield f"broker_traffic of broker {broker}"
        elif not {"client_reads", "topic_reads"} <= all_of.absent and not any(
            _is_told(line, all_of.first) for line in readers
        ):
            yield f"{reads} of broker {broker}"


def _is_told(line: FloatArray, first: int) -> bool:
    """Whether it is known for most of the time, before the window and in it."""
    known = ~np.isnan(line)
    return bool(known[:first].mean() > MOST and known[first:].mean() > MOST)


def _answer(
    causes: Sequence[BlamedCause],
    rest: Mapping[str, tuple[int, ...]],
    unsure: Sequence[str],
    missing: Sequence[str],
    is_judged: bool,
) -> tuple[Answer, str]:
    if causes:
        more = f" And {len(causes) - 1} more." if len(causes) > 1 else ""
        return Answer.YES, f"{causes[0].headline}{more}"
    if not is_judged or (missing and rest):
        return Answer.CANNOT_TELL, f"Cannot tell: nothing measures {listed(missing or ['consumer_lag'])}."
    if not rest:
        return Answer.NO, "No group is held up on a broker."
    words = f"{plural(len(rest), 'group')} {'is' if len(rest) == 1 else 'are'} held up"
    if unsure:
        return Answer.CANNOT_TELL, f"Cannot tell: {words}, and it may be {listed(unsure, most=3)}."
    return Answer.NO, f"{words[:1].upper()}{words[1:]}, and nobody who shares their brokers explains it."


def _suspects(all_of: Neighbourhood) -> Iterator[_Suspect]:
    """Everybody that moves bytes: groups by their client ids or else by topics, client ids of no group, and producers."""
    users: dict[str, set[str]] = defaultdict(set)
    for group, clients in all_of.clients_of.items():
        for client in clients:
            users[client].add(group)
    by_client, brokers_of = _by_name(all_of.clients), _by_name(all_of.groups)
    of_groups: set[str] = set()
    for group in sorted(brokers_of.keys() | all_of.clients_of.keys()):
        clients = all_of.clients_of.get(group, ())
        shared = tuple(it for it in clients if len(users[it]) > 1)
        # What no broker names reads nothing: a member without partitions.
        own = [by_client[it] for it in clients if it in by_client]
        if own and not shared:
            of_groups |= set(clients)
            brokers = {broker for lines in own for broker in lines}
            sums = {broker: np.sum([it[broker] for it in own if broker in it], axis=0) for broker in brokers}
            yield _Suspect("group", group, clients, sums, "client_reads")
        elif told := _told_bytes(brokers_of[group]):
            yield _Suspect("group", group, clients, told, "topic_reads", shared)
    for client, lines in sorted(by_client.items()):
        if client not in of_groups and not any(_told_bytes(brokers_of[group]) for group in users[client]):
            shared = (client,) if len(users[client]) > 1 else ()
            yield _Suspect("client", client, (client,), lines, "client_reads", shared)
    for client, lines in sorted(_by_name(all_of.writers).items()):
        yield _Suspect("writer", client, (client,), lines, "client_writes")


def _by_name(lines: Mapping[tuple[str, int], Line]) -> defaultdict[str, dict[int, Line]]:
    """What somebody has on each broker."""
    found: defaultdict[str, dict[int, Line]] = defaultdict(dict)
    for (name, broker), line in lines.items():
        found[name][broker] = line
    return found


def _told_bytes(on: Mapping[int, GroupOnBroker]) -> dict[int, FloatArray]:
    return {broker: one.read_bytes for broker, one in on.items() if one.read_bytes is not None}


def _unnamed(all_of: Neighbourhood, suspects: Sequence[_Suspect]) -> Iterator[_Suspect]:
    """What brokers give and take beside all that is told of anybody."""
    for kind in ("client", "writer"):
        lines: dict[int, FloatArray] = {}
        for broker, own in all_of.servers.items():
            if (whole := own.get(("broker_traffic", _TRAFFIC[kind]))) is not None:
                same = _same_way(kind, suspects, broker)
                lines[broker] = whole - np.sum([np.nan_to_num(it) for it in same], axis=0) if same else whole
        if lines:
            yield _Suspect(kind, "", (), lines, "broker_traffic", is_named=False)


@dataclass(frozen=True, slots=True)
class _NotAccused:
    because: str
    moved: float = 0.0
    is_open: bool = False


@dataclass(frozen=True, slots=True)
class _Moved:
    """What somebody moves more than before: when, on which brokers, bytes/s, and its part of what these move more."""

    span: Span
    brokers: tuple[int, ...]
    before: float
    now: float
    share: float


def _moved(it: _Suspect, suspects: Sequence[_Suspect], all_of: Neighbourhood) -> _Moved | _NotAccused:
    told = {broker: line for broker, line in it.lines.items() if not np.isnan(line[: all_of.first]).all()}
    if not told:
        return _NotAccused("what it took before is not known", is_open=True)
    span = _rise(np.sum([_filled(line) for line in told.values()], axis=0), all_of.first)
    if span is None:
        return _NotAccused("it takes no more than before")
    rises = {broker: _risen(line, span) for broker, line in told.items()}
    whole = sum(max(0.0, rise) for rise in rises.values())
    brokers = tuple(sorted(broker for broker, rise in rises.items() if rise > 0 and rise >= TENTH * whole))
    part = slice(span.begin, span.end)
    before, now = (sum(_mean(it.lines[broker][when]) for broker in brokers) for when in (slice(span.begin), part))
    given = sum(_given(all_of, broker, kind, part) for broker in brokers for kind in ("group", "writer"))
    if now < APART * before or now - before < TENTH * given:
        return _NotAccused("it takes hardly more than before", now)
    return _Moved(span, brokers, before, now, _share(it, suspects, brokers, span))


def _judged(
    it: _Suspect,
    moved: _Moved,
    elsewhere: Sequence[int],
    suspects: Sequence[_Suspect],
    all_of: Neighbourhood,
    held: HeldUp,
) -> BlamedCause | _NotAccused:
    span, brokers, now, share = moved.span, moved.brokers, moved.now, moved.share
    victims, served = held.victims(it.group, brokers, elsewhere, span)
    if not victims:
        return _NotAccused("no group on its brokers began to wait when it began", now)
    if share < PART:
        return _NotAccused(f"it is {percent(share)} of the rise on its brokers", now)
    others, there = held.elsewhere(elsewhere, span)
    if others and there / others > MOST * len(victims) / max(1, served):
        return _NotAccused("groups on other brokers are held up as much", now)
    strains = tuple(
        found for broker in brokers for found in strains_of(all_of, broker, span.begin, span.end, peers=elsewhere)
    )
    if not strains and all(is_calm(all_of, broker, span.begin, span.end, peers=elsewhere) for broker in brokers):
        return _NotAccused("its brokers show no strain", now)
    if share <= MOST:
        return _NotAccused(f"it is {percent(share)} of the rise on its brokers, and others rise, too", now, True)
    cap, done, unread = _cap(it, suspects, all_of, brokers, span)
    if it.shared:
        cap, done = None, None  # it would hit the other groups
    ages = all_of.behind.get(it.name) if it.kind == "group" else None
    return BlamedCause(
        offender=Mover(
            kind=it.kind,
            name=it.name,
            clients=it.clients,
            shared_clients=it.shared,
            brokers=brokers,
            since=float(all_of.times[span.begin]),
            until=float(all_of.times[span.end - 1]) if span.ends else None,
            bytes_per_second_before=moved.before,
            bytes_per_second=now,
            share_of_rise=share,
            measured_by=it.measured_by,
            behind_seconds=mean_of(ages[span.begin : span.end]) if ages is not None else None,
            unread_bytes=unread,
        ),
        victims=victims,
        strains=strains,
        groups_served=served,
        groups_elsewhere=others,
        held_up_elsewhere=there,
        cap_bytes_per_second=cap,
        done_seconds_at_cap=done,
    )


def _rise(line: FloatArray, first: int) -> Span | None:
    """The largest span in which a line is nearer to its height in the window than to what is usual before; None if it does not rise.

    One that rose before the window is usual there already: then its lowest level counts, if it had never been so high before.
    """
    if first < _TREND or len(line) - first < _FEW:
        return None
    usual = float(np.median(line[:first]))
    height = float(np.mean(np.sort(line[first:])[-_TREND:]))
    if rose_before := height < APART * usual:
        usual = float(np.mean(np.sort(line[:first])[:_TREND]))
    if height < APART * usual or height <= 0:
        return None
    above = line > (usual + height) / 2
    places = np.flatnonzero(above)
    parts = np.split(places, np.flatnonzero(np.diff(places) > _FEW + 1) + 1)
    spans = [(int(it[0]), int(it[-1]) + 1) for it in parts if len(it)]
    begin, end = max(spans, key=lambda it: float(line[it[0] : it[1]].sum()), default=(0, 0))
    if end - begin < _FEW or begin < _FEW or (rose_before and above[:begin].any()):
        return None
    return Span(begin, end, end < len(line) - _FEW)


def _filled(line: FloatArray) -> FloatArray:
    """A line that goes on where it is not known: a page that is not there is neither a beginning nor an end."""
    known = np.flatnonzero(~np.isnan(line))
    return np.asarray(np.interp(np.arange(len(line)), known, line[known]), np.float64)


def _mean(line: FloatArray) -> float:
    """Mean of what is known of a reader's line; nothing if nothing is."""
    return mean_of(line) or 0.0


def _risen(line: FloatArray, span: Span) -> float:
    return _mean(line[span.begin : span.end]) - _mean(line[: span.begin])


def _given(all_of: Neighbourhood, broker: int, kind: str, part: slice) -> float:
    """Bytes/s that a broker gives to all consumers, or takes from all producers, in a part of the grid; 0 if it does not tell."""
    line = all_of.servers.get(broker, {}).get(("broker_traffic", _TRAFFIC[kind]))
    return 0.0 if line is None else _mean(line[part])


def _share(it: _Suspect, suspects: Sequence[_Suspect], brokers: Sequence[int], span: Span) -> float:
    """A suspect's part of all that is moved more than before on its brokers."""
    mine = sum(_risen(it.lines[broker], span) for broker in brokers)
    whole = sum(max(0.0, _risen(line, span)) for broker in brokers for line in _same_way(it.kind, suspects, broker))
    return mine / whole if whole > 0 else 0.0


def _same_way(kind: str, suspects: Sequence[_Suspect], broker: int) -> list[FloatArray]:
    """What all that read, or all that write, move there."""
    return [it.lines[broker] for it in suspects if (it.kind == "writer") == (kind == "writer") and broker in it.lines]


def _cap(
    it: _Suspect, suspects: Sequence[_Suspect], all_of: Neighbourhood, brokers: Sequence[int], span: Span
) -> tuple[float | None, float | None, float | None]:
    """(Bytes/s for each client id on each broker, seconds to the end of its logs at that, bytes that it has to read).

    What a broker gives while it is at its limit, with a reserve, less what the others took before. Where that leaves nothing, a tenth
    of what it takes now.
    """
    rest = [one for one in suspects if one is not it]
    part = slice(span.begin, span.end)
    moves = {broker: _mean(it.lines[broker][part]) for broker in brokers}
    rooms = []
    for broker, mine in moves.items():
        others = _same_way(it.kind, rest, broker)
        told = _given(all_of, broker, it.kind, part)
        given = max(told, mine + sum(_mean(line[part]) for line in others))
        needed = sum(_mean(line[: span.begin]) for line in others)
        rooms.append(min(max(UTILISATION * given - needed, TENTH * mine), MOST * mine))
    room = min(rooms)
    unread = None
    if it.kind == "group":
        own = [all_of.groups[it.name, broker] for broker in brokers if (it.name, broker) in all_of.groups]
        pace = sum(_mean(one.reads[part]) for one in own)
        waits = sum(_mean(one.lag[-_FEW:]) for one in own)
        unread = waits * sum(moves.values()) / pace if pace > 0 else None
    done = unread / (room * len(brokers)) if unread is not None and room > 0 else None
    return room / max(1, len(it.clients)), done, unread
