"""What `/v1/role-callbacks` shows of the changes that were not delivered."""

import pytest
from fakes.admin_token import ADMIN_TOKEN
from fakes.called_back import FAILED, Receiver, RecordedCallbacks
from fakes.in_process_controller import InProcessController

from controller.callbacks.delivered import DeliveredMasters
from controller.callbacks.service import RoleCallbacks

ADMIN = {"Authorization": f"Bearer {ADMIN_TOKEN}"}


@pytest.fixture
def receiver():
    receiver = Receiver()
    receiver.outcome = lambda _: FAILED
    return receiver


@pytest.fixture
async def controller(tmp_path, receiver):
    target = "/usr/local/bin/move-address --fast"
    async with InProcessController(tmp_path, on_role_change=target) as controller:
        controller.callbacks = RoleCallbacks(
            group=controller.group,
            sets=controller.store,
            delivered=DeliveredMasters(controller.backend),
            caller=receiver,
            clock=controller.clock,
            config=lambda: controller.settings.config,
            emit=RecordedCallbacks().emit,
            is_named=lambda _: True,
            explain=lambda _: "",
            start=controller._start,
        )
        yield await controller.serve_http()


async def test_nothing_is_undelivered_of_a_controller_that_calls_nobody(tmp_path):
    async with InProcessController(tmp_path) as controller:
        await controller.serve_http()
        status, body = await controller.get("/v1/role-callbacks")
    assert (status, body) == (200, {"target": "none", "undelivered": [], "total": 0, "nextCursor": None})


async def test_undelivered_changes_are_shown_by_name_with_the_last_error(controller):
    await controller.a_set(1, 2)
    await controller.a_set(1, name="broker-b")
    began_ms = controller.clock.unix_ms()
    await controller.callbacks.look()
    await controller.done()
    controller.clock.pass_ms(1_000)
    status, body = await controller.get("/v1/role-callbacks")
    assert status == 200
    assert (body["target"], body["total"], body["nextCursor"]) == ("program", 2, None)
    assert [each["brokerName"] for each in body["undelivered"]] == ["broker-a", "broker-b"]
    assert body["undelivered"][0] == {
        "cluster": "C",
        "brokerName": "broker-a",
        "masterEpoch": 1,
        "oldMaster": None,
        "newMaster": {"brokerId": 1, "address": "10.0.0.11:30911"},
        "sinceUnixMs": began_ms,
        "running": False,
        "failures": 1,
        "error": "status 1",
    }
    _, page = await controller.get("/v1/role-callbacks?limit=1")
    assert (len(page["undelivered"]), page["total"]) == (1, 2)
    _, page = await controller.get(f"/v1/role-callbacks?limit=1&cursor={page['nextCursor']}&prefix=broker")
    assert [each["brokerName"] for each in page["undelivered"]] == ["broker-b"]
    _, metrics = await controller.get("/metrics")
    assert "rocketmq_controller_role_callbacks_undelivered 2.0" in metrics
    since = next(
        line for line in metrics.splitlines() if line.startswith("rocketmq_controller_role_callback_undelivered_")
    )
    assert float(since.split()[1]) == pytest.approx(began_ms / 1000)


async def test_follower_names_the_leader_instead(controller):
    controller.group.follows(None)
    status, body = await controller.get("/v1/role-callbacks")
    assert status == 409
    assert body["error"]["message"].startswith("Only the leading controller knows")


async def redelivered(controller, body=None):
    return await controller.get("/v1/role-callbacks/redeliver", "POST", json=body or {}, headers=ADMIN)


async def test_operator_has_sets_called_once_more(controller, receiver):
    await controller.a_set(1)
    status, body = await redelivered(controller)
    assert (status, body["error"]["message"]) == (503, "The delivered changes are being loaded: try again in a second.")
    receiver.outcome = Receiver().outcome
    await controller.callbacks.look()
    await controller.done()
    status, body = await redelivered(controller, {"prefix": "broker"})
    assert (status, body) == (200, {"brokerSets": 1})
    await controller.callbacks.look()
    await controller.done()
    assert [each.change.master_epoch for each in receiver.calls] == [1, 1]
    status, _ = await controller.get("/v1/role-callbacks/redeliver", "POST", json={})
    assert status == 401


async def test_nothing_is_called_once_more_by_a_controller_that_calls_nobody(tmp_path):
    async with InProcessController(tmp_path) as controller:
        await controller.serve_http()
        status, body = await redelivered(controller)
    assert (status, body["error"]["message"]) == (409, "Nothing is called: onRoleChange is blank.")
