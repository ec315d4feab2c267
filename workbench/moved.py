"""Where inner modules and names of 0.1.0 are now. Programs that import them by their old names go on, with a warning, until 0.3.0.

The public interface is `workbench.api` and `workbench.runtime`; these names never were a part of it, and people have scripts.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import ModuleType
from typing import Any

MODULES = {
    "api.progress": "api.run_progress",
    "chronicle.ages": "history.ages",
    "chronicle.derived": "history.derived",
    "chronicle.episode": "history.episode",
    "chronicle.handled": "history.handled",
    "chronicle.members": "history.members",
    "chronicle.offsets": "history.offsets",
    "chronicle.partition": "history.partition",
    "chronicle.read": "history.read",
    "chronicle.series": "history.series",
    "chronicle.skips": "history.skips",
    "chronicle.turns": "history.turns",
    "collect.kafka": "kafka.cluster",
    "collect.kafka_ages": "kafka.ages",
    "collect.kafka_answers": "kafka.answers",
    "collect.kafka_assigned": "kafka.assigned",
    "collect.kafka_brokers": "kafka.brokers",
    "collect.kafka_commits": "kafka.commits",
    "collect.kafka_connection": "kafka.connection",
    "collect.kafka_errors": "kafka.errors",
    "collect.kafka_groups": "kafka.groups",
    "collect.kafka_kinds": "queues.kinds",
    "collect.kafka_leaders": "kafka.leaders",
    "collect.kafka_limits": "kafka.limits",
    "collect.kafka_login": "kafka.login",
    "collect.kafka_offset_fetch": "kafka.offset_fetch",
    "collect.kafka_offsets": "kafka.offsets",
    "collect.kafka_others": "kafka.others",
    "collect.kafka_quotas": "kafka.quotas",
    "collect.kafka_reading": "kafka.reading",
    "collect.kafka_records": "kafka.records",
    "collect.kafka_stable": "kafka.stable",
    "collect.kafka_views": "queues.views",
    "collect.kafka_wire": "kafka.wire",
    "lab.fleet": "lab.lab_fleet",
    "redrive.gateway": "redrive.ports",
    "redrive.kafka": "redrive.cluster",
    "redrive.kafka_letters": "kafka.redrive.letter_reader",
    "redrive.kafka_progress": "kafka.redrive.read_progress",
    "redrive.kafka_sink": "kafka.redrive.sink",
    "replay.connect": "queues.systems",
    "replay.gateway": "queues.gateway",
    "replay.journal": "plans.journal",
    "replay.kafka_audience": "kafka.audience",
    "replay.kafka_commits": "kafka.group_commits",
    "replay.kafka_gateway": "kafka.gateway",
    "replay.kafka_lookup": "kafka.lookup",
    "replay.kafka_times": "kafka.times",
    "replay.late": "logs.late",
    "replay.position": "queues.position",
    "replay.records": "logs.records",
    "replay.through": "logs.through",
    "replay.times": "logs.times",
    "replay.window_end": "logs.window_end",
    "report.runs.engine": "report.runs.papermill_engine",
    "report.runs.numbers": "report.runs.run_numbers",
    "runtime.dead_letters": "kafka.runtime.dead_letters",
    "runtime.kafka_source": "kafka.runtime.source",
    "runtime.kafka_starts": "kafka.runtime.starts",
    "runtime.offsets": "kafka.runtime.log_ends",
    "runtime.statistics": "kafka.runtime.statistics",
    "serve.metrics": "serve.own_metrics",
    "serve.schema": "serve.tables",
    "sweep.order": "sweep.table_order",
    "triage.facts.events": "triage.facts.log_events",
    "triage.judge": "triage.walk",
    "widgets.letters": "widgets.letters_board",
}
# Names that are elsewhere, or called otherwise: (module of today, name of then) to the name of today.
NAMES = {
    ("collect.events", "Event"): "collect.events.ClusterEvent",
    ("history.series", "Limits"): "history.series.Bounds",
    ("history.series", "Line"): "history.series.Track",
    ("history.series", "Story"): "history.series.PartitionHistory",
    ("kafka.offset_fetch", "Limits"): "kafka.offset_fetch.FetchLimits",
    ("kafka.reading", "Reading"): "kafka.reading.ClusterReading",
    ("kafka.wire", "Answer"): "kafka.wire.WireAnswer",
    ("queues.gateway", "Found"): "queues.gateway.FirstRecord",
    ("queues.systems", "SHORT_HASH"): "plans.document.SHORT_HASH",
    ("queues.systems", "is_hash"): "plans.document.is_hash",
    ("redrive.cluster", "RedriveKafka"): "kafka.redrive.letter_queue.cluster_of",
    ("redrive.flow", "Flow"): "redrive.flow.LetterFlow",
    ("redrive.ledger", "Ended"): "redrive.ledger.EndedPlan",
    ("redrive.marks", "Progress"): "redrive.marks.PlanProgress",
    ("redrive.pace", "Pace"): "redrive.pace.SendPace",
    ("replay.apply", "Options"): "replay.apply.ApplyOptions",
    ("replay.confirm", "of_letters"): "redrive.confirmation.of_letters",
    ("replay.cutover", "Gate"): "replay.cutover.SwitchGate",
    ("replay.guard", "Limits"): "replay.guard.ReplayLimits",
    ("replay.planfile", "Strict"): "plans.document.StrictDocument",
    ("replay.planfile", "write_file"): "plans.document.write_file",
    ("sweep.store", "Store"): "sweep.store.FleetStore",
}
_PACKAGE = __name__.rpartition(".")[0]
_WITH_NAMES = {module for module, _ in NAMES}
_OLD_PACKAGES = {"chronicle"}  # that are gone, and whose modules are asked for


def _warn(old: str, new: str) -> None:
    warnings.warn(
        f"{_PACKAGE}.{old} is {_PACKAGE}.{new} now; the old name goes with 0.3.0.", DeprecationWarning, stacklevel=3
    )


class _Elsewhere(Loader):
    """Gives the module of today, the very same object."""

    def __init__(self, old: str) -> None:
        self._old = old
        self._spec: ModuleSpec | None = None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """Import it under its name of today."""
        del spec
        _warn(self._old, MODULES[self._old])
        module = import_module(f"{_PACKAGE}.{MODULES[self._old]}")
        self._spec = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        """It has run; the import has taken its specification for the old name's."""
        module.__spec__ = self._spec


class _WithOldNames(SourceFileLoader):
    """Runs a module, and lets it answer to names of before."""

    def exec_module(self, module: ModuleType) -> None:
        """Run it."""
        super().exec_module(module)
        inner = module.__name__.removeprefix(f"{_PACKAGE}.")

        def by_old_name(name: str) -> Any:
            target = NAMES.get((inner, name))
            if target is None:
                raise AttributeError(f"module {module.__name__!r} has no attribute {name!r}")
            _warn(f"{inner}.{name}", target)
            room, _, today = target.rpartition(".")
            return getattr(import_module(f"{_PACKAGE}.{room}"), today)

        module.__dict__["__getattr__"] = by_old_name


class _Finder(MetaPathFinder):
    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Modules of before, and those that have names of before."""
        package, _, inner = fullname.partition(".")
        if package != _PACKAGE:
            return None
        if inner in MODULES:
            return ModuleSpec(fullname, _Elsewhere(inner))
        if inner in _OLD_PACKAGES:
            return ModuleSpec(fullname, None, is_package=True)
        if inner in _WITH_NAMES:
            found = PathFinder.find_spec(fullname, path, target)
            if found is not None and type(found.loader) is SourceFileLoader:
                found.loader = _WithOldNames(found.loader.name, found.loader.path)
            return found
        return None


def follow() -> None:
    """Have imports find them."""
    if not any(isinstance(it, _Finder) for it in sys.meta_path):
        sys.meta_path.insert(0, _Finder())
