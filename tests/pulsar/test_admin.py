"""Requests to the admin: a name stays one part of the path, and a change that fails is not said to be a reading."""

from __future__ import annotations

import math

import pytest

from tests.pulsar.pages import cluster
from tests.servers import Script, scripted
from workbench.errors import SourceUnreachableError
from workbench.pulsar.admin import PulsarAdmin


@pytest.mark.parametrize("name", ["..", ".", ""])
def test_no_name_means_something_else_in_a_url(name: str) -> None:
    """To delete the subscription `..` of a topic would be to delete the topic."""
    with scripted(Script(body=b"{}")) as script:
        admin = PulsarAdmin(cluster(script.url))
        with pytest.raises(SourceUnreachableError, match="means something else"):
            admin.delete_subscription(f"persistent/public/default/orders/subscription/{name}")
        with pytest.raises(SourceUnreachableError, match="means something else"):
            admin.get(f"persistent/public/default/{name}/stats")
        assert script.requests == []


@pytest.mark.parametrize(("status", "hint"), [(412, "connected"), (403, "may it do this"), (500, "admin URL")])
def test_a_change_that_is_refused(status: int, hint: str) -> None:
    """The words are those of a change."""
    with scripted(Script(status=status, body=b"{}")) as script:
        admin = PulsarAdmin(cluster(script.url))
        with pytest.raises(SourceUnreachableError, match=f"does not delete .*status {status}") as raised:
            admin.delete_subscription("persistent/public/default/orders/subscription/billing")
        assert hint in (raised.value.hint or "")
        with pytest.raises(SourceUnreachableError, match="does not make"):
            admin.create_subscription("persistent/public/default/orders/subscription/billing", "latest")
        assert script.methods == ["DELETE", "PUT"]


def test_a_topic_that_no_broker_has_takes_two_redirects() -> None:
    """To the leader, which says whose it becomes, and to that one."""
    with scripted(Script(body=b'"done"')) as owner, scripted(Script(status=307)) as leader, scripted(Script()) as asked:
        leader.headers = {"Location": f"{owner.url}/admin/v2/clusters"}
        asked.status, asked.headers = 307, {"Location": f"{leader.url}/admin/v2/clusters"}
        settings = cluster(asked.url, broker_urls=[leader.url, owner.url])
        assert PulsarAdmin(settings).get("clusters") == "done"


def test_many_requests_may_take_longer_than_one() -> None:
    """Each has its own deadline where the whole must not end half-way."""
    with scripted(Script(body=b"1", delay_seconds=0.15)) as script:
        settings = cluster(script.url).model_copy(update={"timeout_seconds": 0.4})
        admin, whole = PulsarAdmin(settings, seconds=math.inf), PulsarAdmin(settings)
        assert [admin.get("clusters") for _ in range(4)] == [1] * 4
        with pytest.raises(SourceUnreachableError, match="no answer in time"):
            for _ in range(4):
                whole.get("clusters")
