"""RocketMQ as a queue of this program: it is judged by its metrics, and whatever would have to ask it says so."""

from __future__ import annotations

from workbench.queues.systems import NotThere, System

SYSTEM: System = NotThere()
