"""Numbers and names for people: humanised to three digits, and safe to print."""

from __future__ import annotations

import difflib
import math
import re
import shlex
from collections.abc import Sequence
from datetime import UTC, datetime

# C0, DEL and C1 control a terminal; the others reverse the direction of text or are invisible; a lone surrogate cannot be encoded.
_CONTROL = re.compile(
    "[\x00-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f"
    "\ufeff\uffa0\ufff0-\ufffb\ud800-\udfff\U000e0000-\U000e0fff]"
)
_CHAT = str.maketrans(
    {"<": "‹", ">": "›", "@": "＠", "`": "ˋ"}
)  # characters that chats interpret as a mention, a command or code
_NEAR = 0.55  # "triag" and "staus" are near "triage" and "status"; "xyz" is near nothing
_MAX_NAME = 249  # the longest name that Kafka gives a topic: what must be typed or compared is never cut
MAX_MESSAGE = 1500  # one screen; the middle is cut out, because names come first and reasons last


def printable(text: object) -> str:
    """Make text from a broker or an alert safe for a terminal: control and direction characters are shown as escapes."""
    shown = _CONTROL.sub(lambda match: match[0].encode("unicode_escape").decode(), str(text))
    return shown if len(shown) <= _MAX_NAME else shown[: _MAX_NAME - 1] + "…"


def one_line(text: str) -> str:
    """Make a message safe for a terminal, on one line, of any length."""
    return _CONTROL.sub(lambda match: " " if match[0] in "\r\n\t" else match[0].encode("unicode_escape").decode(), text)


def lines(text: str) -> str:
    """Make a text of several lines safe for a terminal; line breaks and tabs are kept."""
    return _CONTROL.sub(
        lambda match: match[0] if match[0] in "\n\t" else match[0].encode("unicode_escape").decode(), text
    )


def for_chat(text: str) -> str:
    """Make one line safe for a chat, without mentions or links: special characters are replaced by look-alikes."""
    return one_line(text).translate(_CHAT).replace("://", "[:]//").replace("](", "] (")


def message(text: str) -> str:
    """Make an error text safe and short: a file or a server may have put anything into it."""
    shown = _CONTROL.sub(lambda it: it[0] if it[0] == "\n" else it[0].encode("unicode_escape").decode(), text)
    shown = shown.encode(errors="backslashreplace").decode()  # a lone surrogate cannot be encoded
    half = MAX_MESSAGE // 2
    return shown if len(shown) <= MAX_MESSAGE else f"{shown[:half]} … {shown[-half:]}"


def is_text(value: str) -> bool:
    """Whether it can be encoded as UTF-8: JSON and a shell's words can have a lone surrogate, Arrow and Kafka cannot."""
    if value.isascii():
        return True
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def shell_word(text: str) -> str:
    """Quote a text as one word of a shell command, on one line."""
    if _CONTROL.search(text):
        escaped = text.replace("\\", "\\\\").replace("'", "\\'")
        return "$'" + _CONTROL.sub(_shell_escape, escaped) + "'"
    return shlex.quote(text)


def _shell_escape(match: re.Match[str]) -> str:
    return "".join(f"\\x{byte:02x}" for byte in match[0].encode(errors="surrogatepass"))


def duration(seconds: float | None) -> str:
    """`0.0004` → "0.4 ms", `0.412` → "412 ms", `8.24` → "8.2 s", `1120` → "18 min 40 s", `18600` → "5 h 10 min"."""
    if seconds is None or not math.isfinite(seconds):
        return "unknown"
    if seconds < 0:
        return f"-{duration(-seconds)}"
    if seconds == 0:
        return "0 s"
    if seconds < 0.9995:
        return f"{significant(seconds * 1000)} ms"
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    for size, unit, smaller, smaller_unit in ((86_400, "d", 3600, "h"), (3600, "h", 60, "min"), (60, "min", 1, "s")):
        if whole >= size:
            rest = whole % size // smaller
            return f"{whole // size:,} {unit}" + (f" {rest} {smaller_unit}" if rest else "")
    return f"{whole} s"


def count(number: float | None) -> str:
    """`1_240_000` → "1.24 M", `950` → "950", `12_345` → "12.3 k"."""
    if number is None or not math.isfinite(number):
        return "unknown"
    for size, unit in ((1e12, "T"), (1e9, "G"), (1e6, "M")):
        if abs(number) >= size:
            return f"{significant(number / size)} {unit}"
    if abs(number) >= 10_000:
        return f"{significant(number / 1e3)} k"
    return f"{number:,.0f}" if float(number).is_integer() or abs(number) >= 100 else significant(number)


def significant(number: float) -> str:
    """At most three digits: 41.23 → "41.2", 0.0123 → "0.012"."""
    if number == 0:
        return "0"
    digits = max(0, 2 - math.floor(math.log10(abs(number))))
    shown = f"{number:,.{min(digits, 3)}f}"
    return shown.rstrip("0").rstrip(".") if "." in shown else shown


def rate(per_second: float | None) -> str:
    """ "130/s"."""
    return "unknown" if per_second is None else f"{count(per_second)}/s"


def percent(share: float | None) -> str:
    """`0.964` → "96 %"."""
    return "unknown" if share is None else f"{share * 100:.0f} %"


def times(factor: float | None) -> str:
    """`31.2` → "31 ×", `1.52` → "1.5 ×"."""
    if factor is None:
        return "unknown"
    return f"{factor:,.0f} ×" if factor >= 9.5 else f"{factor:.1f} ×"


def quantity(value: float | None, unit: str) -> str:
    """A value with its unit as triage gives it: `0.231, "s"` → "231 ms", `0.94, "of capacity"` → "94 %", `3, "members"` → "3"."""
    if value is None:
        return "unknown"
    kind = unit.split(" ", 1)[0]
    if kind == "s":
        return duration(value)
    if kind == "of":
        return percent(value)
    if kind == "×":
        return times(value)
    return count(value)


def unit_words(unit: str) -> str:
    """What `quantity` leaves of a unit: "s since the last sample" → "since the last sample", "s" → ""."""
    kind, _, rest = unit.partition(" ")
    return unit if kind not in ("s", "×") else rest


def plural(number: int, noun: str, plural_noun: str | None = None) -> str:
    """`1, "partition"` → "1 partition"; `3` → "3 partitions"."""
    return f"{number:,} {noun if number == 1 else plural_noun or noun + 's'}"


def groups_on_topics(number: int) -> str:
    """`3` → "3 groups on topics": what is judged, in Kafka's words."""
    return plural(number, "group on topic", "groups on topics")


def counted(number: float | None, noun: str, plural_noun: str | None = None) -> str:
    """`1, "message"` → "1 message"; `12_345` → "12.3 k messages", None → "unknown messages"."""
    return f"{count(number)} {noun if number == 1 else plural_noun or noun + 's'}"


def between(low: int, high: int) -> str:
    """Two bounds, or the number that both are."""
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


def listed(items: Sequence[object], *, most: int = 6) -> str:
    """ "1, 4 and 7"; long lists end in "and 12 more"."""
    shown = [printable(item) for item in items[:most]]
    if len(items) > most:
        return ", ".join(shown) + f" and {len(items) - most} more"
    return " and ".join([", ".join(shown[:-1]), shown[-1]]) if len(shown) > 1 else "".join(shown)


def with_missing(said: str, missing: Sequence[str]) -> str:
    """A sentence on what is not there, with what is known to be missing; "the answer is incomplete" may be why."""
    told = listed(list(dict.fromkeys(missing)), most=3).rstrip(".")
    return f"{said} Incomplete: {told}." if told else said


def numbered(noun: str, items: Sequence[object]) -> str:
    """ "partition 3"; "partitions 3 and 4"."""
    return f"{noun if len(items) == 1 else noun + 's'} {listed(items)}"


def size(number: float | None) -> str:
    """`1_240_000` → "1.24 MB"."""
    if number is None:
        return "unknown"
    for scale, unit in ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if number >= scale:
            return f"{number / scale:.3g} {unit}"
    return f"{number:.0f} B"


def moment(timestamp_ms: int | None) -> str:
    """Format a record's timestamp in UTC, with milliseconds and without the year."""
    if timestamp_ms is None:
        return "-"
    try:
        return datetime.fromtimestamp(timestamp_ms / 1000, UTC).strftime("%m-%d %H:%M:%S.%f")[:-3] + "Z"
    except (OverflowError, ValueError, OSError):  # a producer may write any timestamp
        return f"{timestamp_ms} ms"


def clock(at: datetime | float, *, now: datetime | None = None) -> str:
    """A time, or seconds since the epoch, in UTC, with its date unless that is today's: "13:17:50 UTC", "2026-11-21 13:17:50 UTC"."""
    at = at.astimezone(UTC) if isinstance(at, datetime) else datetime.fromtimestamp(at, UTC)
    today = (now or datetime.now(UTC)).astimezone(UTC).date()
    return f"{at:%H:%M:%S} UTC" if at.date() == today else f"{at:%Y-%m-%d %H:%M:%S} UTC"


def iso_instant(timestamp_ms: float | None) -> str | None:
    """Format a timestamp for JSON: ISO 8601 in UTC, with milliseconds; None if there is none, or none that a calendar has."""
    if timestamp_ms is None or timestamp_ms < 0:
        return None
    try:
        return datetime.fromtimestamp(timestamp_ms / 1000, UTC).isoformat(timespec="milliseconds")
    except (OverflowError, ValueError, OSError):  # a producer may write any timestamp
        return None


def first_line(error: BaseException) -> str:
    """First line of an error's text, or else the name of its class."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def near(name: str, known: Sequence[str], *, most: int = 3) -> list[str]:
    """Known names that look like a mistyped one, best first."""
    by_case = {it.casefold(): it for it in known if it != name}
    return [by_case[it] for it in difflib.get_close_matches(name.casefold(), list(by_case), n=most, cutoff=_NEAR)]


def did_you_mean(name: str, known: Sequence[str]) -> str:
    """ " Did you mean `triage`?", with a leading blank; empty if nothing is near."""
    names = near(name, known)
    return f" Did you mean {' or '.join(f'`{printable(it)}`' for it in names)}?" if names else ""
