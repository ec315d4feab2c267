"""The reference consumer framework of seed document 000: usable on its own, and what the triage tree reads best.

from workbench.runtime import Runtime, RuntimeConfig

def refund(event): ...
Runtime(RuntimeConfig(bootstrap="localhost:9092", group="payments", topics=["orders"]), {"refund": refund}).run()
"""

from workbench.runtime.app import Runtime, running
from workbench.runtime.config import ProcessorConfig, RuntimeConfig
from workbench.runtime.event import Dead, Done, Event, Failed, Outcome, Record, Retry, Skip, decode_by_header

__all__ = [
    "Dead",
    "Done",
    "Event",
    "Failed",
    "Outcome",
    "ProcessorConfig",
    "Record",
    "Retry",
    "Runtime",
    "RuntimeConfig",
    "Skip",
    "decode_by_header",
    "running",
]
