"""Workbench: from "consumer lag is high" to why, with evidence; and safe replay by timestamp into a new group.

Importing this package is cheap and starts no JVM. The steps of the data's path are sub-packages, in this order:
`collect` → `features` → `triage` → `report`; `replay`, `runtime` and `lab` stand beside them (see ARCHITECTURE.md).
"""

from workbench.moved import follow

__version__ = "0.2.0"

__all__ = ["__version__"]

follow()
