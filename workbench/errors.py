"""Errors of this package, each with its exit code and a hint.

    WorkbenchError                    1  internal error
    ├── OutputError                   1  the output cannot be written: a full disk, a folder without permission
    ├── UsageError                    2  a wrong parameter, file or name
    │   ├── ConfigError                  the settings file, or a field of it
    │   ├── WindowError                  a time window that is naive, reversed or unreadable
    │   ├── UnknownClusterError          no such cluster in the settings
    │   ├── UnknownGroupError            the cluster is there, the consumer group or topic is not
    │   └── NotACaptureError             a folder without a readable capture.json
    ├── EvidenceError                 4  data for a verdict are missing
    │   ├── NoSeriesError                the source answered, with nothing in the window
    │   ├── MixedSourcesError            series of two clusters, or of two sources that contradict each other
    │   └── DamagedCaptureError          a capture whose files do not match their checksums
    │       └── SlotReplacedError        a slot of a store that was replaced or removed while it was read
    ├── SourceUnreachableError        5  Prometheus or Kafka refuses, hangs or answers with an error
    │   ├── NoAnswerError                a request without an answer: whether it took effect is not known
    │   └── SetupError                   a part of the lab or of this installation that is missing or does not start
    ├── GuardError                    6  refused, because continuing could lose or skip data
    ├── DeadlineError                 7  not finished in time
    └── KernelDiedError               8  the kernel of a scheduled notebook died

Exit code 3 (findings above the threshold) is a result, not an error.
A message is one sentence that names the cluster, group, file or field; a hint says what to do. Passwords and tokens are masked.
"""

from __future__ import annotations

from enum import IntEnum

from workbench import humanize
from workbench.masking import masked_ends


class ExitCode(IntEnum):
    """Exit codes of every command."""

    OK = 0
    INTERNAL = 1
    USAGE = 2
    FINDINGS = 3
    EVIDENCE = 4
    SOURCE = 5
    GUARD = 6
    DEADLINE = 7
    KERNEL = 8


class WorkbenchError(Exception):
    """Base class of all errors of this package: one sentence, an optional hint, an exit code."""

    exit_code = ExitCode.INTERNAL

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        self.message = _shown(message)
        self.hint = _shown(hint) if hint is not None else None
        super().__init__(self.message)


def _shown(text: str) -> str:
    return humanize.message(masked_ends(text, humanize.MAX_MESSAGE))


class OutputError(WorkbenchError):
    """The output cannot be written."""


class UsageError(WorkbenchError):
    """A wrong parameter, file or name."""

    exit_code = ExitCode.USAGE


class ConfigError(UsageError):
    """The settings file, or one field of it, cannot be used."""


class WindowError(UsageError):
    """A time or a time window that is naive, reversed or unreadable."""


class UnknownClusterError(UsageError):
    """The settings have no such cluster."""


class UnknownGroupError(UsageError):
    """The cluster answers, but has no such consumer group or topic."""


class NotACaptureError(UsageError):
    """The folder is not a readable capture."""


class EvidenceError(WorkbenchError):
    """Data for a verdict are missing."""

    exit_code = ExitCode.EVIDENCE


class NoSeriesError(EvidenceError):
    """The source answered, but has no data for this selection in this window."""


class MixedSourcesError(EvidenceError):
    """Two clusters, or two sources that contradict each other, have series of the same names."""


class DamagedCaptureError(EvidenceError):
    """A capture whose files are missing, truncated or changed."""


class SlotReplacedError(DamagedCaptureError):
    """A slot of a store, or a file of it, that another process replaced or removed while it was read."""

    def __init__(self, path: object) -> None:
        super().__init__(
            f"{path} was replaced or removed while it was read.",
            hint="Another process lands or removes slots of this store. Repeat the command.",
        )


class SourceUnreachableError(WorkbenchError):
    """Prometheus, Kafka or a metrics page refuses, hangs or answers with an error."""

    exit_code = ExitCode.SOURCE


class NoAnswerError(SourceUnreachableError):
    """A request without an answer: whether it took effect is not known."""


class SetupError(SourceUnreachableError):
    """A part of the lab could not be downloaded, verified or started, or an extra or a Java is not installed."""


class GuardError(WorkbenchError):
    """Refused, because continuing could lose or skip data."""

    exit_code = ExitCode.GUARD


class DeadlineError(WorkbenchError):
    """Not finished within the time limit."""

    exit_code = ExitCode.DEADLINE


class KernelDiedError(WorkbenchError):
    """The kernel of a notebook died before the notebook finished."""

    exit_code = ExitCode.KERNEL
