"""What programs that follow masters are answered over HTTP: everything, what has changed, or nothing for a while."""

import asyncio
import socket

import msgspec
import pytest
from controller_builders import a_set
from fakes.in_process_controller import CLUSTER, SET, at

from controller.failover.election_log import ElectionLog
from controller.http.master_views import MasterViews
from controller.sets.stored_set import StoredSet
from serving.http.views import ViewRequest
from serving.shapes.controller import MasterListing
from store import set_changes
from store.store import ControllerMember, VersionedEntry

OTHER = ControllerMember(id="n1", address="10.0.0.2:9878")


@pytest.fixture
async def controller(controller):
    return await controller.serve_http()


def keep(controller, name, revision=1, **values):
    entry = StoredSet(broker_set=a_set(broker_name=name, **values))
    controller.store.entry_changed(name, VersionedEntry(entry, revision))


async def masters(controller, after=None, wait_ms=None):
    given = {"after": after, "waitMs": wait_ms}
    query = "&".join(f"{key}={value}" for key, value in given.items() if value is not None)
    status, body = await controller.get(f"/v1/masters?{query}")
    assert status == 200, body
    return body


async def refusal(controller, query=""):
    status, body = await controller.get(f"/v1/masters{query}")
    return status, body["error"]["message"]


async def begun(controller, wait_ms=30_000):
    """Begin to wait for the next change; returns once the controller waits."""
    revision = (await masters(controller))["revision"]
    count = controller.store.changes.waits
    task = asyncio.create_task(controller.get(f"/v1/masters?after={revision}&waitMs={wait_ms}"))
    await until(lambda: controller.store.changes.waits > count)
    return task


async def until(holds):
    async with asyncio.timeout(10):
        while not holds():
            await asyncio.sleep(0.005)


# What is answered


async def test_all_masters_are_shown_with_epochs_members_and_who_is_in_sync(controller):
    await controller.a_set(1, 2, 3, in_sync=[1, 2])
    body = await masters(controller)
    assert (body["complete"], body["controllerGroup"]) == (True, controller.group.name)
    assert (body["removed"], body["unreadable"]) == ([], [])
    assert body["brokerSets"] == [
        {
            "brokerName": SET,
            "cluster": CLUSTER,
            "masterBrokerId": 1,
            "masterAddress": at(1),
            "masterEpoch": 1,
            "electedUnixMs": controller.clock.unix_ms(),
            "electedUnclean": False,
            "syncStateSetEpoch": 2,
            "members": [
                {"brokerId": 1, "address": at(1), "inSync": True},
                {"brokerId": 2, "address": at(2), "inSync": True},
                {"brokerId": 3, "address": at(3), "inSync": False},
            ],
        }
    ]


async def test_time_of_an_election_is_shown_as_long_as_its_epoch_lasts(controller):
    await controller.a_set(1, 2)
    elected_unix_ms = controller.clock.unix_ms()
    await controller.pass_ms(500)
    (shown,) = (await masters(controller))["brokerSets"]
    assert shown["electedUnixMs"] == elected_unix_ms
    keep(controller, SET, 99, master=2, master_epoch=7)
    (shown,) = (await masters(controller))["brokerSets"]
    assert (shown["electedUnixMs"], shown["electedUnclean"]) == (None, None)


async def test_later_answer_has_only_the_sets_that_have_changed(controller):
    for name in ("a", "b", "c"):
        keep(controller, name)
    after = (await masters(controller))["revision"]
    keep(controller, "b", 2, master_epoch=6)
    controller.store.entry_changed("c", VersionedEntry(StoredSet(), 2))
    body = await masters(controller, after)
    assert not body["complete"]
    assert [(each["brokerName"], each["masterEpoch"]) for each in body["brokerSets"]] == [("b", 6)]
    assert body["removed"] == ["c"]
    assert (await masters(controller, body["revision"]))["brokerSets"] == []


async def test_set_that_cannot_be_read_is_not_shown_as_removed(controller):
    keep(controller, SET)
    after = (await masters(controller))["revision"]
    controller.store.entry_changed(SET, VersionedEntry(revision=2, problem="cannot be read"))
    part, whole = await masters(controller, after), await masters(controller)
    for body in (part, whole):
        assert (body["brokerSets"], body["removed"], body["unreadable"]) == ([], [], [SET])
    controller.store.entry_changed("other", VersionedEntry(revision=1, problem="cannot be read"))
    assert (await masters(controller, part["revision"]))["unreadable"] == ["other"]
    assert (await masters(controller))["unreadable"] == [SET, "other"]


async def test_everything_is_answered_at_once_to_a_revision_of_another_leader(controller):
    keep(controller, SET)
    body = await masters(controller, "0123456789abcdef:7", 30_000)
    assert body["complete"]
    assert len(body["brokerSets"]) == 1


async def test_set_that_changes_while_all_are_written_comes_with_the_next_answer(controller):
    names = [f"broker-{number}" for number in range(250)]
    for name in names:
        keep(controller, name)
    listings = MasterViews(controller.store, controller.group, ElectionLog("10.0.0.99:9878"))
    tasks = [asyncio.create_task(listings.masters(ViewRequest())) for _ in range(2)]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    keep(controller, "broker-0", 2, master_epoch=6)
    first, second = (msgspec.json.decode(each, type=MasterListing) for each in await asyncio.gather(*tasks))
    epochs = [{each.broker_name: each.master_epoch for each in listing.broker_sets} for listing in (first, second)]
    assert epochs == [dict.fromkeys(names, 5), dict.fromkeys(names, 5) | {"broker-0": 6}]
    (changed,) = (await masters(controller, first.revision))["brokerSets"]
    assert (changed["brokerName"], changed["masterEpoch"]) == ("broker-0", 6)


# Waits


async def test_change_is_answered_at_once(controller):
    await controller.a_set(1, 2)
    task = await begun(controller)
    await controller.elect(2, designate=True)
    status, body = await asyncio.wait_for(task, 5)
    assert status == 200
    assert not body["complete"]
    assert [(each["masterBrokerId"], each["masterEpoch"]) for each in body["brokerSets"]] == [(2, 2)]


async def test_wait_without_a_change_is_answered_with_nothing(controller):
    keep(controller, SET)
    after = (await masters(controller))["revision"]
    body = await masters(controller, after, 20)
    assert body == {
        "controllerGroup": controller.group.name,
        "revision": after,
        "complete": False,
        "brokerSets": [],
        "removed": [],
        "unreadable": [],
    }


async def test_lead_that_ends_ends_all_waits_with_a_refusal(controller):
    task = await begun(controller)
    controller.group.follows(OTHER)
    controller.store.changes.end_waits()
    status, body = await asyncio.wait_for(task, 5)
    assert status == 409
    assert "n1 at 10.0.0.2:9878" in body["error"]["message"]


async def test_process_that_ends_ends_all_waits_and_begins_no_other(controller):
    task = await begun(controller)
    controller.store.changes.close()
    status, _ = await asyncio.wait_for(task, 5)
    assert status == 503
    assert await refusal(controller) == (503, "This controller is stopping.")


async def test_client_that_is_gone_leaves_no_wait_behind(controller):
    revision = (await masters(controller))["revision"]
    with socket.create_connection(("127.0.0.1", controller.server.port)) as client:
        client.sendall(f"GET /v1/masters?after={revision}&waitMs=30000 HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        await until(lambda: controller.store.changes.waits == 1)
    await until(lambda: controller.store.changes.waits == 0)
    assert (await masters(controller))["complete"]
    assert controller.events("http_request_failed") == []


@pytest.mark.parametrize(("limit", "whose"), [("WAITS_MAX", ""), ("CLIENT_WAITS_MAX", " of 127.0.0.1")])
async def test_more_waits_than_there_are_places_are_refused_and_others_answered(controller, monkeypatch, limit, whose):
    monkeypatch.setattr(set_changes, limit, 1)
    task = await begun(controller)
    revision = (await masters(controller))["revision"]
    status, sentence = await refusal(controller, f"?after={revision}&waitMs=1000")
    assert (status, sentence) == (
        503,
        f"As many requests{whose} wait as may, 1: try again in a second, or with waitMs=0.",
    )
    assert (await masters(controller, revision))["brokerSets"] == []
    keep(controller, SET)
    assert (await asyncio.wait_for(task, 5))[0] == 200


# Refusals


async def test_follower_names_the_leader(controller):
    controller.group.follows(OTHER)
    status, sentence = await refusal(controller)
    assert status == 409
    assert sentence == "Only the leading controller knows the masters: the leader is n1 at 10.0.0.2:9878."


@pytest.mark.parametrize("text", ["", "-1", "1.5", "30001", "many", "9" * 5_000])
async def test_wait_that_is_no_number_up_to_the_longest_is_refused(controller, text):
    status, sentence = await refusal(controller, f"?waitMs={text}")
    assert (status, sentence[:51]) == (400, "waitMs must be a whole number from 0 to 30000, not ")
