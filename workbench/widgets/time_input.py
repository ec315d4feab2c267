"""Input of a time: a text, a picker that fills it in, and beside them what was understood, in the zone of the screen and in UTC."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime
from html import escape
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import ipywidgets as w

from workbench.errors import WindowError
from workbench.humanize import one_line
from workbench.widgets.controls import hooked, text
from workbench.widgets.panel_browser_part import Address
from workbench.window import parse_instant

# A browser's picker takes years of six digits, which no datetime can hold; with this it takes four.
_LAST = datetime(8999, 12, 31)  # noqa: DTZ001 - the picker is naive


class TimeField(w.Box):  # type: ignore[misc]
    """One time. What counts is the text: "1 hour ago", "03:00", or a timestamp; empty: not given.

    The picker shows the zone of the screen. It is the naive one, because the kernel reads what ipywidgets' zoned picker sends as if it
    were in the kernel's own zone (8.1). Until the browser has named its zone, only texts that need none are understood.

    Args:
        after: the field of the start, of one that is an end.

    Attributes:
        line, picker, told: the text input, the picker, and the words beside them.
    """

    def __init__(
        self,
        value: str,
        description: str,
        placeholder: str,
        hook: str,
        *,
        address: Address,
        after: TimeField | None = None,
        **options: Any,
    ) -> None:
        self._address, self._after = address, after
        self._shown: datetime | None = None  # what the picker was given here, by the text
        self.line = text(value, description, placeholder, f"{hook}-text", **options)
        self.line.continuous_update = True
        self.picker = hooked(w.NaiveDatetimePicker(description="or pick", max=_LAST), f"{hook}-picker")
        self.told = hooked(w.HTML(""), f"{hook}-told")
        super().__init__([self.line, self.picker, self.told])
        self.add_class("wb-time")
        self.add_class(hook)
        self._understand()
        self.line.observe(lambda _change: self._understand(), names="value")
        self.picker.observe(self._picked, names="value")
        address.observe(lambda _change: self._understand(), names="zone")
        if after is not None:
            after.line.observe(lambda _change: self._understand(), names="value")

    @property
    def value(self) -> str:
        """The text."""
        return str(self.line.value)

    @value.setter
    def value(self, given: str) -> None:
        self.line.value = given

    @property
    def placeholder(self) -> str:
        """What an empty text means."""
        return str(self.line.placeholder)

    @placeholder.setter
    def placeholder(self, given: str) -> None:
        self.line.placeholder = given

    @property
    def asked(self) -> str:
        """The text for a command, which knows no screen: what was typed without a zone is given the screen's."""
        typed, zone = self.value.strip(), self._zone
        try:
            parse_instant(typed)
        except WindowError:
            with suppress(WindowError):
                return parse_instant(typed, zone=zone).astimezone(zone).isoformat()
        return typed

    @property
    def _zone(self) -> ZoneInfo | None:
        try:
            return ZoneInfo(self._address.zone) if self._address.zone else None
        except (ZoneInfoNotFoundError, ValueError, OSError):  # a browser may say anything
            return None

    def _understand(self) -> None:
        """Say what the text means, or what is wrong with it."""
        zone, typed = self._zone, self.value.strip()
        self.picker.disabled = zone is None
        if not typed:
            self.picker.value = self._shown = None
            self.told.value = ""
            return
        try:
            at = parse_instant(typed, zone=zone)
            self._check_order(at)
        except WindowError as error:
            words = escape(one_line(f"{error.message} {error.hint or ''}"))
            self.told.value = f'<div class="wb"><p class="wrong" role="alert">{words}</p></div>'
            return
        self.told.value = f'<div class="wb"><p class="soft" role="status">{escape(in_both(at, zone))}</p></div>'
        if zone is not None:
            self._shown = at.astimezone(zone).replace(tzinfo=None, microsecond=0)
            self.picker.value = self._shown

    def _check_order(self, end: datetime) -> None:
        """Refuse an end that is not after its start, if that can be read."""
        start = None
        if self._after is not None and self._after.value.strip():
            with suppress(WindowError):  # it says itself what is wrong with it
                start = parse_instant(self._after.value, zone=self._zone)
        if start is not None and end <= start:
            raise WindowError(
                f"{in_both(end, self._zone)} is not after the start, {in_both(start, self._zone)}.",
                hint="Is the zone of each right?",
            )

    def _picked(self, change: Any) -> None:
        """Fill in what was picked; what the text has put there is not written in other words: "3h ago" is later by now."""
        zone, picked = self._zone, change["new"]
        if zone is None or picked is None or picked == self._shown:
            return
        with suppress(OverflowError):  # in the first and last hours of the calendar
            self.value = picked.replace(tzinfo=zone).isoformat(timespec="seconds")


def in_both(at: datetime, zone: ZoneInfo | None) -> str:
    """A time in a zone and in UTC: "2026-11-21 03:00:00+08:00 Asia/Shanghai = 2026-11-20 19:00:00 UTC"."""
    utc = f"{at.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"
    if zone is None:
        return utc
    local = at.astimezone(zone)
    if not local.utcoffset():
        return f"{utc}, as on this screen"
    return f"{local.isoformat(sep=' ', timespec='seconds')} {zone.key} = {utc}"
