"""Parsers of which a small input could build much: hostile inputs that are well-formed. Their memory has a budget by the byte."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from random import Random
from typing import Any

from tests.fuzz.mutators import json_text, of_bytes, of_json
from tests.fuzz.target import Case, Target
from workbench.errors import SourceUnreachableError, WorkbenchError
from workbench.kafka.group_answers import parse_streams
from workbench.kafka.wire import WireAnswer, WireError, array, text

_PIECES = (
    "://",
    ":",
    "@",
    "a",
    " ",
    '"',
    "'",
    "\\",
    "password=",
    "token",
    "=",
    "Bearer ",
    "authorization:",
    "\n",
    "http://u:p@h",
)


def _int32(number: int) -> bytes:
    return struct.pack(">i", number)


def _streams(random: Random) -> Case:
    """A Streams group whose tasks have numbers, and whose topology has topics: each number in each topic."""
    topics, numbers, tasks = (random.choice((0, 1, 10, 100, 600)) for _ in range(3))
    empty = array([])
    topology = array([text("0") + array([text("t")] * topics) + empty * 3 + b"\0"])
    task = text("0") + array([_int32(1)] * numbers) + b"\0"
    assignment = array([task] * min(tasks, 20)) + empty * 2 + b"\0"
    member = text("m") + _int32(0) + b"\0\0" + text("c") + text("h") + _int32(0) + text("p") + b"\xff" + empty * 3
    member += assignment + empty * 3 + b"\0" + b"\0\0"
    group = b"\0\0\0" + text("g") + text("Stable") + _int32(0) + _int32(0) + b"\1" + _int32(1) + topology + b"\0"
    return _int32(0) + array([group + array([member]) + _int32(0) + b"\0"])


def _read_streams(case: Case, _folder: Path) -> object:
    try:
        return len(parse_streams(WireAnswer(case), 1, "streams"))
    except WireError as error:
        raise SourceUnreachableError(str(error)) from None


def _foreign_text(random: Random) -> Case:
    """A few pieces again and again: what a search that starts at each of them reads to the end is quadratic."""
    unit = "".join(random.choice(_PIECES) * random.choice((1, 1, 1, 50)) for _ in range(random.randint(1, 5)))
    most = random.choice((100, 10_000, 100_000))
    return (unit * (most // len(unit) + 1))[:most].encode()


def _masked(case: Case, _folder: Path) -> object:
    from workbench.masking import masked_document

    shown = masked_document({"text": case.decode()})
    return WorkbenchError(case.decode()), shown


def _patterns(random: Random) -> Case:
    """A pattern of a recording and a name that nearly fits it."""
    pieces = random.choices(("*", "*", "a", "?", "b", "*a", "**"), k=random.choice((3, 30, 300)))
    return {"pattern": "".join(pieces).encode(), "name": b"a" * random.choice((0, 10, 249, 5000))}


def _match(case: Mapping[str, bytes], _folder: Path) -> object:
    from workbench.settings_of_groups import Expectations, GroupExpectation, matches

    pattern, name = case["pattern"].decode(), case["name"].decode()
    found = Expectations({pattern: GroupExpectation(batch="every 6h", time_lag_objective=timedelta(minutes=5))})
    return matches(pattern, name), found.of(name).lines, found.objective_sql(0.0), list(found.regexes())


_ALERT = {
    "labels": {"alertname": "A", "consumergroup": "a"},
    "startsAt": "2026-11-21T02:58:00Z",
    "endsAt": "",
    "status": "firing",
}
_FORMS: tuple[Any, ...] = (
    {"version": "4", "alerts": [_ALERT], "truncatedAlerts": 3},
    [{**_ALERT, "status": {"state": "active"}}],
    {"status": "success", "data": {"alerts": [{**_ALERT, "state": "pending", "activeAt": "2026-11-21T02:58:00Z"}]}},
    {
        "ruleName": "A",
        "state": "alerting",
        "tags": {"a": "b"},
        "evalMatches": [{"metric": "m", "tags": {"group": "a"}}],
    },
)


def _many_tags(random: Random) -> bytes:
    """Grafana's old form: each of the matches has all of the shared tags."""
    tags, matches = random.choice((0, 10, 3000)), random.choice((1, 100, 3000))
    form = {"ruleName": "A", "state": "alerting", "tags": {f"t{at}": "x" for at in range(tags)}}
    return json_text({**form, "evalMatches": [{}] * matches})


def _alerts(random: Random) -> Case:
    form = random.choice(_FORMS)
    if random.random() < 0.1:
        return _many_tags(random)
    if random.random() < 0.7:
        return of_json(random, json_text(form))
    many = random.choice(("[]", "{}", json.dumps(_ALERT), '{"labels": {}}', "5"))
    return f"[{','.join([many] * random.choice((1, 100, 2000)))}]".encode()


def _read_alerts(case: Case, _folder: Path) -> object:
    from workbench.alerts import Names, left_out, parse_message, told

    names = Names(group=("svc",), matches={"prod": {"cluster": "=~a|b"}}, members={"prod": {"c": "g"}})
    found = parse_message(case.decode(errors="replace"), names=names)
    return left_out(found), told(found.alerts)


def _answers(random: Random) -> Case:
    said = of_json(random, b'{"status": "error", "errorType": "execution", "error": "too many samples"}')
    page = b"<html><title>502</title>" + b"<" * random.choice((0, 10, 20_000))
    return {
        "status": str(random.choice((200, 200, 200, 302, 401, 403, 404, 407, 422, 429, 500, 503, 504))).encode(),
        "kind": random.choice((b"application/json", b"application/json", b"text/html; charset=x", b"")),
        "body": random.choice((said, page, b"no org id", b'{"status":"success","data":[]}')),
    }


def _refused(case: Mapping[str, bytes], _folder: Path) -> object:
    import requests

    from workbench.collect.prometheus_errors import refusal

    response = requests.Response()
    response.status_code, response._content = int(case["status"]), case["body"]
    response.headers["Content-Type"] = case["kind"].decode()
    if (error := refusal(response, "h:9090")) is not None:
        raise error
    return None


def _notes(random: Random) -> Case:
    """Metadata of a commit: many ranges, near each other or far apart, and what is none."""
    size, gap = random.choice((1, 10, 1000)), random.choice((0, 1, 2, 10**12))
    ranges = [
        f"{at * (size + gap)}-{at * (size + gap) + size - 1}" for at in range(random.choice((0, 1, 32, 33, 20_000)))
    ]
    words = ["skipped=" + ",".join(ranges), "topic-id=c:t", "later=7"]
    random.shuffle(words)
    text = " ".join(words[: random.randint(0, 3)]).encode()
    return of_bytes(random, text) if random.random() < 0.6 else text


def _noted(case: Case, _folder: Path) -> object:
    from workbench.commit_note import format_note, parse_note

    found = parse_note(case.decode(errors="replace"))
    return format_note(found), found.proves_reading, found.skipped_within(0, 2**63)


def targets() -> list[Target]:
    """All of this module. Budgets: some objects of 50 to 100 bytes for each byte that was sent, and no more."""
    return [
        Target(name="streams_tasks", make=_streams, call=_read_streams, share=1, most_per_byte=1000),
        Target(name="masking", make=_foreign_text, call=_masked, share=2, most_per_byte=200),
        Target(name="patterns", make=_patterns, call=_match, share=1, most_per_byte=3000),
        Target(name="alert_forms", make=_alerts, call=_read_alerts, share=2, most_per_byte=600),
        Target(name="commit_note", make=_notes, call=_noted, share=1, most_per_byte=100),
        Target(name="prometheus_refusals", make=_answers, call=_refused, share=1, most_per_byte=100),
    ]
