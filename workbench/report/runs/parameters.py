"""Parameters of a report, validated before a kernel starts, and the run id that follows from them."""

from __future__ import annotations

import hashlib
import json
import re
from datetime import UTC, datetime
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from workbench.collect.capture_info import read_info
from workbench.errors import UsageError
from workbench.limited_reads import first_problem
from workbench.queues.systems import SYSTEM_NAMES
from workbench.settings import load_settings
from workbench.window import parse_instant

DEFAULT_PERIOD = "24h"
_SLUG = re.compile(r"[^A-Za-z0-9]+")


class HealthParameters(BaseModel):
    """Parameters of the health report, as its notebook gets them: plain text, for a notebook's parameters keep no other types."""

    model_config = ConfigDict(hide_input_in_errors=True, extra="forbid", frozen=True)

    cluster: str = Field(default="", max_length=200, description="a cluster of workbench.toml")
    capture: str = Field(default="", description="or the folder of a capture")
    since: str = Field(default="", description="start of the period, ISO 8601 with a time zone")
    until: str = Field(default="", description="end of the period, ISO 8601 with a time zone")
    config: str = Field(default="", description="settings file; empty: the default one")
    out: str = Field(default="", description="folder for report.html and result.json; empty: show only")
    previous: str = Field(default="", description="result.json of the previous run, for the trend")
    run_id: str = Field(default="", description="name of this run")

    @field_validator("since", "until")
    @classmethod
    def _instants(cls, value: str) -> str:
        return parse_instant(value).isoformat() if value else value

    @model_validator(mode="after")
    def _one_source(self) -> HealthParameters:
        if bool(self.cluster) == bool(self.capture):
            raise ValueError("give either a cluster or a capture")
        return self


def health_parameters(
    *,
    cluster: str | None = None,
    capture: Path | None = None,
    since: str | None = None,
    until: str | None = None,
    config: Path | None = None,
    now: datetime | None = None,
) -> HealthParameters:
    """Validate everything that needs no source, and determine the period.

    The end of a period that is not named is the last full minute, so that a retry a moment later is the same run.

    Args:
        since: an instant, or a length such as "24h" before the end.

    Raises:
        UsageError: naming the wrong parameter; WindowError and UnknownClusterError are subclasses.
    """
    if (cluster is None) == (capture is None):
        raise UsageError(
            "Give either --cluster or --capture.", hint="A cluster from workbench.toml, or the folder of a capture."
        )
    is_now, moment = False, now or datetime.now(UTC)
    if capture is not None:
        window = read_info(capture).window
        anchor, first = window.end, window.baseline_start
    else:
        settings = load_settings(config)
        config, found = settings.file, settings.cluster(cluster or "")
        is_now = found.is_asked
        if is_now and (since is not None or until is not None):
            raise UsageError(
                f"{found.name!r} is judged as it is now: --since and --until need a history, which is not read of a "
                f"{SYSTEM_NAMES[found.system]}.",
                hint="Leave them out: the report is of the moment at which it runs.",
            )
        if found.prometheus is None and not is_now:
            raise UsageError(
                f"The cluster {found.name!r} has no Prometheus in the settings, and a report needs past measurements.",
                hint="Record it with `workbench watch`, then report on that with --capture.",
            )
        anchor, first = moment.replace(second=0, microsecond=0), None
    end = parse_instant(until, now=anchor) if until else anchor
    if capture is None and end > moment:  # it would stay the report of that period, and the latest one
        raise UsageError(
            f"The period ends at {end:%Y-%m-%d %H:%M:%SZ}, which has not come yet.",
            hint="A report is of what has been.",
        )
    start = _start(since, end, first)
    if start >= end:
        raise UsageError(
            f"The period starts at {start:%Y-%m-%d %H:%M:%SZ}, which is not before its end {end:%Y-%m-%d %H:%M:%SZ}.",
            hint="Swap --since and --until, or widen the period.",
        )
    try:
        return HealthParameters(
            cluster=cluster or "",
            capture=str(capture.resolve()) if capture is not None else "",
            since="" if is_now else start.isoformat(),
            until=end.isoformat(),
            config=str(config.resolve()) if config is not None else "",
        )
    except ValidationError as error:
        problem = first_problem(error, whole="the parameters")
        raise UsageError(f"{problem}.", hint="See: workbench report run health --help") from None


def _start(since: str | None, end: datetime, first: datetime | None) -> datetime:
    if since is None and first is not None:
        return first
    return parse_instant(since or DEFAULT_PERIOD, now=end)


def slug_of(name: str) -> str:
    """A cluster's name as a part of a file's; not the same for every name."""
    return _SLUG.sub("-", name).strip("-").lower()[:40] or "cluster"


def file_stem(name: str) -> str:
    """The beginning of a file's name: no two clusters or audits have the same one, whatever their names hold."""
    slug = slug_of(name)
    if slug != name:  # "prod eu", "prod-eu" and "Prod-EU" are three names
        slug += "-" + hashlib.sha256(name.encode(errors="surrogatepass")).hexdigest()[:8]
    return slug


def run_id(report: str, parameters: HealthParameters) -> str:
    """Name of a run: always the same for the same source and period."""
    source = parameters.cluster
    if parameters.capture:
        info = read_info(Path(parameters.capture))
        source = info.cluster + json.dumps({name: it.sha256 for name, it in sorted(info.files.items())})
        name = info.cluster
    else:
        name = parameters.cluster
    identity = json.dumps([report, source, parameters.since, parameters.until])
    digest = hashlib.sha256(identity.encode()).hexdigest()[:8]
    return f"{report}-{slug_of(name)}-{parse_instant(parameters.until):%Y%m%dT%H%M%SZ}-{digest}"
