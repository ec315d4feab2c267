"""What each topic of a bundle carries now, by the admin's REST API: bytes per second in and out."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Annotated
from urllib.parse import quote

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from workbench.errors import SourceUnreachableError
from workbench.limited_reads import first_problem
from workbench.pulsar.admin import AT_ONCE, PulsarAdmin
from workbench.pulsar.bundle_split import FULL, Bundle, TopicLoad


class _Positions(BaseModel):
    model_config = ConfigDict(hide_input_in_errors=True, extra="ignore", strict=True)

    topicHashPositions: dict[str, Annotated[int, Field(ge=0, le=FULL)]]  # noqa: N815 - the admin's name


class _Throughput(BaseModel):
    model_config = ConfigDict(hide_input_in_errors=True, extra="ignore", strict=True, allow_inf_nan=False)

    msgThroughputIn: float = Field(ge=0)  # noqa: N815
    msgThroughputOut: float = Field(ge=0)  # noqa: N815


def read_bundle(admin: PulsarAdmin, namespace: str, bundle: Bundle) -> list[TopicLoad]:
    """The bundle's topics with their throughput, which brokers compute anew every `statsUpdateFrequencyInSecs` (60 s by default).

    The load of a topic that does not tell it is None.

    Raises:
        SourceUnreachableError: if the topics of the bundle are not told.
    """
    path = f"namespaces/{quote(namespace)}/{bundle}/topicHashPositions"
    try:
        positions = _Positions.model_validate(admin.get(path)).topicHashPositions
    except ValidationError as error:
        reason = first_problem(error, whole="the answer")
        raise SourceUnreachableError(
            f"The admin answers to {path} with something that is no list of hashes: {reason}."
        ) from None

    def load(topic: str) -> float | None:
        kind, _, name = topic.partition("://")
        tenant, _, rest = name.partition("/")
        space, _, local = rest.partition("/")
        asked = "/".join(quote(it, safe="") for it in (kind, tenant, space, local))
        try:
            found = _Throughput.model_validate(admin.get(f"{asked}/stats"))
        except (SourceUnreachableError, ValidationError):
            return None
        return found.msgThroughputIn + found.msgThroughputOut

    with ThreadPoolExecutor(AT_ONCE) as pool:
        return [
            TopicLoad(topic=name, position=at, load=it)
            for (name, at), it in zip(positions.items(), pool.map(load, positions), strict=True)
        ]
