"""Settings of a user's own breaker: how gateways divide their records between two Kafka clusters."""

from __future__ import annotations

from datetime import timedelta

from pydantic import Field

from workbench.settings_base import LONGEST, Duration, Strict


class BreakerSettings(Strict):
    """The breaker of a cluster's gateways, as their own settings have it: what is judged here is judged by its rule."""

    normal: str = Field(default="normal", description="Destination of the gateways' records in good times.")
    failover: str = Field(
        default="failover",
        description="Destination of what the breaker keeps from the normal one; empty: there is none.",
    )
    window: Duration = Field(
        default=timedelta(seconds=10),
        ge=timedelta(seconds=1),
        le=LONGEST,
        description="The time over which the breaker counts failures: ten buckets of a second.",
    )
    opens_at: float = Field(
        default=0.5,
        gt=0,
        le=1,
        description="Share of failed sends at which it opens. 0.5: Hystrix' errorThresholdPercentage.",
    )
    least_sends: int = Field(
        default=20,
        ge=1,
        description="With fewer sends it judges nothing. 20: Hystrix' requestVolumeThreshold.",
    )
    largest_share: float | None = Field(
        default=None,
        gt=0,
        le=1,
        description="Largest share of the records that goes to failover; none: it is not judged whether it stays there.",
    )
    pinned_for: Duration = Field(
        default=timedelta(minutes=5),
        gt=timedelta(0),
        le=LONGEST,
        description="At its largest share for so long, the breaker does not regulate any more.",
    )
    flapping_within: Duration = Field(
        default=timedelta(minutes=10),
        gt=timedelta(0),
        le=LONGEST,
        description="Three changes between closed and open within this time are flapping.",
    )
