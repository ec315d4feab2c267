"""The reference consumer framework: usable by itself, and the source with the most signals for triage.

from workbench.runtime import Event, Runtime, RuntimeConfig, processor

@processor("refund")
def refund(event: Event) -> None: ...

Runtime(RuntimeConfig(bootstrap="localhost:9092", group="payments", topics=["orders"]), [refund]).run()
"""

from workbench.runtime.app import Runtime, RuntimeState, running
from workbench.runtime.config import ProcessorConfig, RuntimeConfig
from workbench.runtime.event import Dead, Done, Event, Failed, Outcome, Record, Retry, Skip, decode_by_header
from workbench.runtime.processor_registry import decoder, processor
from workbench.runtime.rest_sink import RestSink

__all__ = [
    "Dead",
    "Done",
    "Event",
    "Failed",
    "Outcome",
    "ProcessorConfig",
    "Record",
    "RestSink",
    "Retry",
    "Runtime",
    "RuntimeConfig",
    "RuntimeState",
    "Skip",
    "decode_by_header",
    "decoder",
    "processor",
    "running",
]
