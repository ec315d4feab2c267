"""A draft of a profile, and the file that a person checks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import cast

import yaml

from workbench.humanize import one_line, shell_word
from workbench.profiles.draft_labels import plain_label
from workbench.profiles.usual_metric_names import OF_TARGET


@dataclass(frozen=True, slots=True, kw_only=True)
class Drafted:
    """A signal of the draft.

    Attributes:
        rule: as in a profile.
        others: further metrics that may be it, best first.
    """

    rule: Mapping[str, object]
    others: tuple[str, ...] = ()

    @property
    def labels(self) -> dict[str, str]:
        """Canonical label to the exporter's."""
        return cast("dict[str, str]", self.rule["labels"])


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """A profile in the making.

    Attributes:
        name: of the profile.
        signals: what was found.
        missing: signals for which there is no candidate, with the reason.
        member_is: content of the label that tells members apart.
        left: metrics that look like lag or offsets and are not in it, with the reason.
        jobs: scrape jobs whose consumers have other metrics than those of the draft.
        services: the same within its job: a metric of each, and what tells its targets.
    """

    name: str
    signals: Mapping[str, Drafted]
    missing: Mapping[str, str] = field(default_factory=dict)
    member_is: str = "member"
    left: Mapping[str, str] = field(default_factory=dict)
    jobs: tuple[str, ...] = ()
    services: Mapping[str, str] = field(default_factory=dict)

    def to_yaml(self) -> str:
        """The file, with what else could be meant, and what is missing, in comments."""
        lines = ["# A draft: check every line, then `workbench profiles check`.", f"title: {self.name}"]
        if self.member_is != "member":
            lines.append(f"member_is: {self.member_is}")
        places = {it.labels.get("member", "") for it in self.signals.values() if "group" not in it.labels}
        # Where some series of a process name its group, the others are in it, too.
        places -= {it.labels.get("member", "") for it in self.signals.values() if "group" in it.labels}
        for place in sorted(it for it in places if plain_label(it) in OF_TARGET):
            lines.append(
                f"# No group in these series: name that of each {place} in workbench.toml, members = {{'VALUE' = 'GROUP'}}."
            )
        lines.append("signals:" if self.signals else "signals: {}")
        for signal, drafted in self.signals.items():
            rule = yaml.safe_dump(dict(drafted.rule), default_flow_style=True, sort_keys=False, width=1000).strip()
            lines.append(f"  {signal}: {rule}")
            if drafted.others:
                lines.append(f"    # or: {one_line(', '.join(drafted.others))}")
        jobs = ", ".join(self.jobs)
        said = [f"Other consumers, with other metrics: jobs {jobs}. Draft each with --job."] if jobs else []
        for metric, match in self.services.items():
            said.append(
                f"Other consumers in this job tell {metric}, and are not in this draft. Draft theirs with --match {shell_word(match)}"
            )
        said += [f"{signal}: {reason}" for signal, reason in self.missing.items()]
        said += [f"Not used: {metric}: {reason}" for metric, reason in self.left.items()]
        lines += [f"# {one_line(it)}" for it in said]
        return "\n".join(lines) + "\n"
