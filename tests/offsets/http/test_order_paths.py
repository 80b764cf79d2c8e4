"""Declared groups, holders and overlaps over real HTTP."""

import contextlib

import pytest
from fakes.admin_token import ADMIN_TOKEN
from fakes.clock import FakeClock
from fakes.http_site import HttpSite
from fakes.order_site import order_site
from fakes.orderly_broker import BROKER, GROUP
from orderly_builders import CLUSTER, ORDERLY, a_member, a_queue, answer

from offsets.config import OFFSET_MANAGER
from offsets.http import order as module
from offsets.http.order import OrderViews
from offsets.order.events import OrderlyChanged

HOLDERS = f"/v1/locks/holders?group={GROUP}"


class Served(HttpSite):
    """An order service with its paths."""

    def __init__(self, site, *, follows_brokers=True):
        views = OrderViews(site.order, site.lead, site.clock, follows_brokers=follows_brokers)
        super().__init__(OFFSET_MANAGER, views, token=ADMIN_TOKEN, clock=site.clock)
        self.site = site

    def answer(self, at_ms, *rest, **held):
        """Let a client answer so long after the start."""
        self.record(answer(self.site.holders, self.clock.now_ms() + at_ms, *rest, **held))

    def record(self, changed):
        self.site.polling._compare(changed)

    async def post(self, path, **body):
        return (await self.request("POST", path, token=ADMIN_TOKEN, json={"writer": "alice"} | body))[::2]


@contextlib.asynccontextmanager
async def served(**options):
    async with order_site(FakeClock()) as site, Served(site, **options) as served:
        await site.declared.load()
        yield served


@pytest.fixture
async def manager():
    async with served() as manager:
        yield manager


async def test_groups_are_declared_listed_and_taken_back(manager):
    declared = {"group": "billing", "namespace": "tenant", "cluster": "east"}
    assert await manager.post("/v1/locks/declare-orderly", **declared) == (200, {"changed": True})
    assert await manager.post("/v1/locks/declare-orderly", **declared) == (200, {"changed": False})
    _, listed = await manager.get("/v1/locks/orderly-groups?limit=1")
    assert (listed["total"], listed["groups"]) == (2, [{"cluster": CLUSTER, "group": GROUP}])
    _, listed = await manager.get(f"/v1/locks/orderly-groups?limit=1&cursor={listed['nextCursor']}")
    assert (listed["groups"], listed["nextCursor"]) == ([{"cluster": "east", "group": "tenant%billing"}], None)
    assert await manager.post("/v1/locks/undeclare", group=GROUP) == (200, {"changed": True})
    assert [event.orderly for event in manager.site.told(OrderlyChanged)] == [True, False]


async def test_what_cannot_be_declared_or_stored_is_refused(manager):
    status, body = await manager.post("/v1/locks/declare-orderly", group=" ")
    assert (status, body["error"]["code"]) == (409, "conflict")
    assert (await manager.post("/v1/locks/declare-orderly"))[0] == 422
    manager.site.store.fails = "etcd does not answer"
    status, body = await manager.post("/v1/locks/declare-orderly", group="billing")
    assert (status, "does not answer" in body["error"]["message"]) == (503, True)


async def test_holders_of_a_group_are_listed_with_what_they_hold(manager):
    unix_ms = manager.clock.unix_ms()
    manager.answer(-1000, "c1", 0, 1, took_ms=0)
    manager.answer(0, "c2", took_ms=0)
    manager.site.holders.client(a_member()).replayed_ms = {a_queue(0): manager.clock.now_ms()}
    status, found = await manager.get(HOLDERS)
    first, second = found.pop("holders")
    assert (status, found) == (200, {"isDeclared": True, "kind": "orderly", "members": 2, "nextCursor": None})
    assert (first["clientId"], first["confirmedUnixMs"]) == ("c1", unix_ms - 1000)
    assert [(row["queueId"], row["state"], row["replayedUnixMs"]) for row in first["queues"]] == [
        (0, "held", unix_ms),
        (1, "held", None),
    ]
    assert (second["clientId"], second["queues"]) == ("c2", [])


async def test_holders_come_in_pages_of_clients_with_so_many_queues_at_most(manager, monkeypatch):
    for number in range(5):
        manager.answer(0, f"c{number}", number)
    _, page = await manager.get(f"{HOLDERS}&limit=2")
    assert [row["clientId"] for row in page["holders"]] == ["c0", "c1"]
    monkeypatch.setattr(module, "QUEUES_SHOWN_MAX", 1)
    for client_id in ("c2", "c3"):
        _, page = await manager.get(f"{HOLDERS}&limit=3&cursor={page['nextCursor']}")
        assert [row["clientId"] for row in page["holders"]] == [client_id]


async def test_queues_that_are_given_up_or_whose_lock_ran_out_are_shown_so(manager):
    manager.answer(0, "c1", 0, is_dropped=True)
    manager.answer(0, "c2", 1, pulled_at_ms=31_000)
    _, found = await manager.get(HOLDERS)
    assert [row["queues"][0]["state"] for row in found["holders"]] == ["dropped", "expired"]


async def test_client_that_has_not_answered_is_shown_without_queues_and_of_other_groups_nothing(manager):
    manager.answer(0, "c1", 0)
    manager.site.holders.forget_answer(a_member())
    _, found = await manager.get(HOLDERS)
    assert found["holders"] == [{"clientId": "c1", "confirmedUnixMs": None, "queues": []}]
    _, found = await manager.get("/v1/locks/holders?group=other&cluster=elsewhere")
    assert (found["isDeclared"], found["kind"], found["members"], found["holders"]) == (False, "unknown", 0, [])
    assert (await manager.get("/v1/locks/holders"))[0] == 400


async def test_overlaps_are_listed_with_both_clients(manager):
    unix_ms = manager.clock.unix_ms()
    for at_ms, client_id in ((0, "c1"), (100, "c2"), (200, "c1")):
        manager.answer(at_ms, client_id, 0, 1)
    _, found = await manager.get("/v1/locks/overlaps?limit=1")
    assert found["total"] == 2
    names = {"cluster": CLUSTER, "group": GROUP, "topic": "TopicTest", "brokerName": BROKER, "queueId": 0}
    assert found["overlaps"] == [names | {"clients": ["c1", "c2"], "sinceUnixMs": unix_ms + 110}]
    _, found = await manager.get(f"/v1/locks/overlaps?limit=1&cursor={found['nextCursor']}")
    assert [row["queueId"] for row in found["overlaps"]] == [1]


async def test_only_the_manager_that_leads_and_has_loaded_the_groups_answers(manager):
    manager.site.declared.groups = None
    assert (await manager.get(HOLDERS))[0] == 503
    await manager.site.declared.load()
    manager.site.lead.follows(None)
    for path in (HOLDERS, "/v1/locks/overlaps", "/v1/locks/orderly-groups"):
        status, body = await manager.get(path)
        assert (status, body["error"]["code"]) == (503, "not_leader")
    assert (await manager.post("/v1/locks/undeclare", group=GROUP))[0] == 503
    assert manager.site.declared.groups == {ORDERLY}


async def test_manager_that_follows_nobody_says_so():
    async with served(follows_brokers=False) as manager:
        for path in (HOLDERS, "/v1/locks/overlaps"):
            status, body = await manager.get(path)
            assert (status, "No brokers are followed" in body["error"]["message"]) == (409, True)
        assert (await manager.get("/v1/locks/orderly-groups"))[0] == 200
