"""Where instances of consumers that are no runtime show their metrics; see `ConsumerShape`."""

from __future__ import annotations

from workbench.lab.producer_and_consumers import LabFleet


class OnePage:
    """One whose own page has all that it shows."""

    def client_id(self, name: str) -> str:
        """See `ConsumerShape`."""
        return name

    def more_pages(self, _fleet: LabFleet, _name: str) -> list[str]:
        """See `ConsumerShape`."""
        return []


class AgentsPage(OnePage):
    """One with an agent or a reporter in it, which has a page of its own."""

    def more_pages(self, fleet: LabFleet, name: str) -> list[str]:
        """See `ConsumerShape`."""
        return [f"127.0.0.1:{fleet.port(f'{name} agent')}"]
