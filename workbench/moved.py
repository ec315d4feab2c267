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
    "api.letter_view": "api.redrive_as_html",
    "api.letters": "api.letter_redrives",
    "api.look": "api.triages",
    "api.measure": "api.load_measurements",
    "api.progress": "api.run_progress",
    "api.requests": "api.measurement_requests",
    "api.table": "api.html_table",
    "assets": "shipped_files",
    "chronicle.ages": "history.next_message_age",
    "chronicle.derived": "history.time_lag_by_offsets",
    "chronicle.episode": "history.episode",
    "chronicle.handled": "history.handled_counts",
    "chronicle.members": "history.member_stories",
    "chronicle.offsets": "history.offset_jumps",
    "chronicle.partition": "history.partition_story",
    "chronicle.read": "history.partition_histories",
    "chronicle.series": "history.partition_series",
    "chronicle.skips": "history.commit_skips",
    "chronicle.turns": "history.partition_turns",
    "cli.dlq_show": "cli.dead_letter_output",
    "cli.dlq_watch": "cli.dlq_follow",
    "cli.replay_show": "cli.replay_output",
    "cli.replay_watch": "cli.replay_follow",
    "cli.triage_again": "cli.triage_watch_and_compare",
    "cli.triage_alert": "cli.triage_alert_option",
    "cli.typed": "cli.hinted_commands",
    "collect.agreement": "collect.source_agreement",
    "collect.columnar": "collect.matrix_parser",
    "collect.copies": "collect.duplicate_series",
    "collect.events": "collect.deploys_and_alerts",
    "collect.join": "collect.source_join",
    "collect.kafka": "kafka.cluster_snapshot",
    "collect.kafka_ages": "kafka.unread_ages",
    "collect.kafka_answers": "kafka.group_answers",
    "collect.kafka_assigned": "kafka.assigned_partitions",
    "collect.kafka_brokers": "kafka.brokers_that_answer",
    "collect.kafka_commits": "kafka.read_commits_for_snapshot",
    "collect.kafka_connection": "kafka.connection",
    "collect.kafka_errors": "kafka.librdkafka_errors",
    "collect.kafka_groups": "kafka.groups",
    "collect.kafka_kinds": "queues.group_kinds",
    "collect.kafka_leaders": "kafka.leaders",
    "collect.kafka_limits": "kafka.messages_within_quota",
    "collect.kafka_login": "kafka.wire_tls_and_login",
    "collect.kafka_offset_fetch": "kafka.offset_fetch",
    "collect.kafka_offsets": "kafka.read_offsets_for_snapshot",
    "collect.kafka_others": "kafka.group_listing",
    "collect.kafka_quotas": "kafka.quotas",
    "collect.kafka_reading": "kafka.patient_reads",
    "collect.kafka_records": "kafka.kafka_records_source",
    "collect.kafka_stable": "kafka.last_stable_offsets",
    "collect.kafka_views": "queues.snapshot_views",
    "collect.kafka_wire": "kafka.wire",
    "collect.live": "collect.capture_in_memory",
    "collect.parquet_bounds": "collect.limited_parquet",
    "collect.prometheus": "collect.samples_from_prometheus",
    "collect.record": "collect.recorder",
    "collect.statistics": "collect.librdkafka_statistics",
    "console": "terminal_tables",
    "delivery": "serve_settings",
    "expectations": "settings_of_groups",
    "features.each": "features.condense_by_subscription",
    "features.entities": "features.entity_features",
    "features.group": "features.group_features",
    "features.lag": "features.lag_features",
    "features.measured": "features.subscription_measurements",
    "features.queues": "features.queue_features",
    "features.series": "features.chart_series",
    "features.slots": "features.summary_of_slots",
    "features.subscriptions": "features.subscription_features",
    "features.summary": "features.summary_schema",
    "inputs": "limited_reads",
    "interpolation": "settings_interpolation",
    "lab.advice": "lab.try_advice",
    "lab.compound": "lab.compound_scenarios",
    "lab.data_faults": "lab.healthy_consumer_scenarios",
    "lab.draw": "lab.scenario_circumstances",
    "lab.fleet": "lab.producer_and_consumers",
    "lab.instance": "lab.consumer_instance",
    "lab.jars": "lab.kafka_jars",
    "lab.kafka": "lab.lab_broker",
    "lab.keeper": "lab.lab_keeper",
    "lab.lost_work": "lab.lost_work_scenarios",
    "lab.rebalances": "lab.rebalance_scenarios",
    "lab.run": "lab.run_scenario",
    "lab.spec": "lab.client_spec",
    "lab.standstill": "lab.standstill_scenarios",
    "lab.transaction": "lab.hanging_transaction",
    "lab.upstream": "lab.scenarios_outside_processors",
    "payloads.hide": "payloads.hidden_fields",
    "places": "user_folders",
    "profiles.draft": "profiles.profile_draft",
    "profiles.fit": "profiles.profile_fit",
    "profiles.schema": "profiles.profile_schema",
    "redrive.gateway": "redrive.redrive_ports",
    "redrive.inspect": "redrive.inspect_records",
    "redrive.kafka": "redrive.redrive_cluster",
    "redrive.kafka_letters": "kafka.redrive.letter_reader",
    "redrive.kafka_progress": "kafka.redrive.committed_progress",
    "redrive.kafka_sink": "kafka.redrive.transactional_letter_producer",
    "redrive.keep": "redrive.plan_never_overwritten",
    "redrive.ledger": "redrive.redrive_ledger",
    "redrive.letters": "redrive.letter_headers",
    "redrive.order": "redrive.key_order",
    "redrive.pace": "redrive.rate_cap",
    "redrive.parse_request": "redrive.parse_redrive_request",
    "redrive.picks": "redrive.picked_letter_offsets",
    "redrive.show": "redrive.show_letters",
    "redrive.survey": "redrive.read_letters_for_plan",
    "reference.http": "reference.http_reference",
    "reference.metrics": "reference.metrics_reference",
    "reference.page": "reference.markdown_tables",
    "replay.carry": "replay.unplanned_partitions",
    "replay.check": "replay.verify_evidence",
    "replay.connect": "queues.systems",
    "replay.cutover": "replay.rolling_cutover",
    "replay.fleet": "replay.service_fleet",
    "replay.fleet_kinds": "replay.service_fleet_kinds",
    "replay.gateway": "queues.replay_port",
    "replay.journal": "plans.journal",
    "replay.kafka_audience": "kafka.topic_readers",
    "replay.kafka_commits": "kafka.replay_group_commits",
    "replay.kafka_gateway": "kafka.kafka_gateway",
    "replay.kafka_lookup": "kafka.offset_lookup",
    "replay.kafka_times": "kafka.record_times",
    "replay.keep": "replay.plan_save_path",
    "replay.late": "logs.late_records",
    "replay.parse_request": "replay.parse_replay_request",
    "replay.plan_ranges": "replay.plan_of_given_ranges",
    "replay.position": "queues.position",
    "replay.preflight": "replay.cutover_checks",
    "replay.records": "logs.record_counts",
    "replay.rollback": "replay.rollback_of_apply",
    "replay.through": "logs.window_done",
    "replay.times": "logs.windows_in_unordered_logs",
    "replay.window_end": "logs.window_end",
    "replay.write": "replay.commit_offsets",
    "report.budget": "report.error_budget",
    "report.firstlook": "report.chart_before_triage",
    "report.fragment": "report.finding_fragment",
    "report.handoff": "report.send_report",
    "report.health": "report.health_report",
    "report.html": "report.html_report",
    "report.multiples": "report.small_multiples",
    "report.numbers": "report.chart_as_table",
    "report.result": "report.health_result",
    "report.runs.engine": "report.runs.papermill_engine",
    "report.runs.numbers": "report.runs.run_metrics_file",
    "report.runs.record": "report.runs.run_record",
    "report.runs.retention": "report.runs.run_retention",
    "report.sizing": "report.sizing_advice",
    "report.treepicture": "report.tree_picture",
    "runbooks.book": "runbooks.runbook_file",
    "runbooks.check": "runbooks.check_runbooks",
    "runbooks.dashboard": "runbooks.grafana_dashboard",
    "runbooks.fill": "runbooks.filled_runbook",
    "runbooks.objectives": "runbooks.objective_recording_rules",
    "runbooks.promql": "runbooks.runbook_promql",
    "runbooks.rules": "runbooks.rules_from_runbooks",
    "runbooks.steps": "runbooks.verdict_path",
    "runs": "equal_row_runs",
    "runtime.budget": "runtime.byte_rate_limit",
    "runtime.consumer": "runtime.consumer_thread",
    "runtime.dead_letters": "kafka.runtime.dead_letters",
    "runtime.delay": "runtime.delay_queue",
    "runtime.http": "runtime.runtime_http",
    "runtime.identity": "runtime.recreated_topics",
    "runtime.kafka_source": "kafka.runtime.kafka_source",
    "runtime.kafka_starts": "kafka.runtime.start_positions",
    "runtime.kept_switch": "runtime.group_switch_file",
    "runtime.metrics": "runtime.runtime_metrics",
    "runtime.offsets": "kafka.runtime.log_ends",
    "runtime.partition": "runtime.partition_state",
    "runtime.placing": "runtime.placing_in_queues",
    "runtime.queues": "runtime.keyed_queue",
    "runtime.ranges": "runtime.ranges_to_process",
    "runtime.registry": "runtime.processor_registry",
    "runtime.sentinels": "runtime.guarantee_counters",
    "runtime.statistics": "kafka.runtime.client_statistics",
    "runtime.status": "runtime.admin_answers",
    "runtime.tally": "runtime.thread_counters",
    "runtime.task": "runtime.group_task",
    "runtime.tracker": "runtime.offset_tracker",
    "screen": "safe_output",
    "serve.agents": "serve.mcp_tools",
    "serve.connections": "serve.connection_limits",
    "serve.fleet": "serve.fleet_verdicts",
    "serve.grouping": "serve.incident_grouping",
    "serve.journal": "serve.alert_journal",
    "serve.judged": "serve.kept_verdict",
    "serve.limits": "serve.request_limits",
    "serve.metrics": "serve.own_metrics",
    "serve.reading": "serve.page_queries",
    "serve.schema": "serve.database_migrations",
    "serve.send": "serve.send_message",
    "serve.store": "serve.server_database",
    "serve.words": "serve.alert_messages",
    "spark.archive": "spark.class_archive",
    "spark.columns": "spark.parsed_sql_cache",
    "spark.connect": "spark.spark_connect",
    "spark.sources": "spark.register_sources",
    "sweep.engine": "sweep.sweep_engine",
    "sweep.landing": "sweep.land_samples",
    "sweep.order": "sweep.table_order",
    "sweep.screen": "sweep.closer_look",
    "sweep.store": "sweep.fleet_store",
    "triage.actions": "triage.shared_actions",
    "triage.beside": "triage.second_faults",
    "triage.build": "triage.build_finding",
    "triage.checks": "triage.outcome_checks",
    "triage.compare": "triage.compare_triages",
    "triage.engine": "triage.triage_engine",
    "triage.facts.events": "triage.facts.offset_events",
    "triage.facts.lag": "triage.facts.lag_facts",
    "triage.facts.members": "triage.facts.member_facts",
    "triage.facts.partitions": "triage.facts.stuck_or_hot_partitions",
    "triage.facts.processors": "triage.facts.processor_facts",
    "triage.facts.standing": "triage.facts.standstill",
    "triage.facts.unknown": "triage.facts.unknown_numbers",
    "triage.facts.work": "triage.facts.work_or_arrivals",
    "triage.judge": "triage.tree_walk",
    "triage.leaves": "triage.verdict_leaves",
    "triage.order": "triage.question_order",
    "triage.ranking": "triage.rank_candidate_causes",
    "triage.rows": "triage.measured_from_spark_rows",
    "triage.settle": "triage.owner_links_commands",
    "triage.shortfall": "triage.lag_share_by_cause",
    "triage.subject": "triage.action_subject",
    "triage.verdict": "triage.verdict_names",
    "triage.walk": "triage.tree_walk",
    "triage.warm_up": "triage.archive_warm_up",
    "web": "http_client",
    "widgets.address": "widgets.panel_browser_part",
    "widgets.game": "widgets.game_day_incidents",
    "widgets.letters": "widgets.dead_letter_panel",
    "widgets.work": "widgets.panel_work",
}
# Names that are elsewhere, or called otherwise: (module of today, name of then) to the name of today.
NAMES = {
    ("collect.deploys_and_alerts", "Event"): "collect.deploys_and_alerts.ClusterEvent",
    ("history.partition_series", "Limits"): "history.partition_series.Bounds",
    ("history.partition_series", "Line"): "history.partition_series.Track",
    ("history.partition_series", "Story"): "history.partition_series.PartitionHistory",
    ("kafka.offset_fetch", "Limits"): "kafka.offset_fetch.FetchLimits",
    ("kafka.patient_reads", "Reading"): "kafka.patient_reads.ClusterReading",
    ("kafka.wire", "Answer"): "kafka.wire.WireAnswer",
    ("queues.replay_port", "Found"): "queues.replay_port.FirstRecord",
    ("queues.snapshot_views", "GROUPS_SCHEMA"): "samples.GROUPS_SCHEMA",
    ("queues.systems", "SHORT_HASH"): "plans.strict_document.SHORT_HASH",
    ("queues.systems", "is_hash"): "plans.strict_document.is_hash",
    ("redrive.redrive_cluster", "RedriveKafka"): "kafka.redrive.letter_queue.cluster_of",
    ("redrive.transaction_size", "Flow"): "redrive.transaction_size.LetterFlow",
    ("redrive.redrive_ledger", "Ended"): "redrive.redrive_ledger.EndedPlan",
    ("redrive.commit_marks", "Progress"): "redrive.commit_marks.PlanProgress",
    ("redrive.rate_cap", "Pace"): "redrive.rate_cap.SendPace",
    ("replay.apply", "Options"): "replay.apply.ApplyOptions",
    ("replay.confirm", "of_letters"): "redrive.confirmation.of_letters",
    ("replay.rolling_cutover", "Gate"): "replay.rolling_cutover.SwitchGate",
    ("replay.guard", "Limits"): "replay.guard.ReplayLimits",
    ("replay.planfile", "Strict"): "plans.strict_document.StrictDocument",
    ("replay.planfile", "write_file"): "plans.strict_document.write_file",
    ("serve.kept_verdict", "GivenWayError"): "serve.judge_groups.GivenWayError",
    ("serve.kept_verdict", "Question"): "serve.judge_groups.Question",
    ("serve.kept_verdict", "SparkJudge"): "serve.judge_groups.SparkJudge",
    ("serve.kept_verdict", "reduced"): "serve.judge_groups.reduced",
    ("sweep.fleet_store", "Store"): "sweep.fleet_store.FleetStore",
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
