"""`workbench serve`: alerts in, verdicts out, pages and a database. `workbench mcp`: the same for agents, read-only.

    limits, access → app (API) and pages → store
    worker: store → judge (workbench.api) → grouping → store → messages → send

An alert is acknowledged after it is on disk. What is to be sent is written in the same transaction as what it reports.
"""

from __future__ import annotations

__all__: list[str] = []
