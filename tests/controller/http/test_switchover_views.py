"""What a controller answers over HTTP about switchovers and rolling restarts, and what operators request there."""

import msgspec
import pytest
from fakes.admin_token import ADMIN_TOKEN
from fakes.in_process_controller import SET, InProcessController, at
from server_paths import SWITCHOVER_ENDPOINTS

from controller.failure_detection.heartbeats import BrokerKey
from controller.failure_detection.log_ends import LogEnd
from controller.roles.verdict import RoleAnswer, RoleVerdict
from controller.switchover.rolling_restarts import BROKERS_MAX, RUNNING_MAX
from serving.http import openapi
from serving.http.paths import BODY_BYTES_MAX
from serving.http.views import ErrorAnswer
from store.store import ControllerMember

OTHER = ControllerMember(id="n1", address="10.0.0.2:9878")
ADMIN = {"Authorization": f"Bearer {ADMIN_TOKEN}"}
OF_SET = f"/v1/broker-sets/{SET}"
SWITCHOVER, RESTART = f"{OF_SET}/switchover", f"{OF_SET}/rolling-restart"


@pytest.fixture
async def controller(tmp_path):
    """A set of three; nothing ends by itself, as the clock stands still."""
    async with InProcessController(tmp_path) as controller:
        await controller.a_set(1, 2, 3)
        await controller.heartbeat(1, 2, 3)
        # A backlog, so that a switchover waits.
        controller.log_ends = {1: LogEnd(1, 2**40, is_master=True), 2: LogEnd(1, 0), 3: LogEnd(1, 0)}
        controller.roles.checkers.record(BrokerKey(SET, 1), "10.9.0.1", RoleAnswer(RoleVerdict.SERVES, 1))
        controller.boots = {at(i): i for i in (1, 2, 3)}
        yield await controller.serve_http()
        controller.group.follows(OTHER)


def named(endpoint):
    return f"{endpoint.method} {endpoint.path}"


async def send(controller, endpoint, path=None, **changed):
    values = {"headers": ADMIN, "json": {}} if endpoint.changes else {}
    return await controller.get(path or endpoint.path.replace("{name}", SET), endpoint.method, **(values | changed))


async def post(controller, path, body):
    return await controller.get(path, "POST", headers=ADMIN, json=body)


def message(answer):
    status, body = answer
    return status, msgspec.convert(body, ErrorAnswer).error.message


async def begin_all(controller):
    for path in (SWITCHOVER, RESTART):
        status, body = await post(controller, path, {})
        assert status == 202, body


def load_later(controller):
    """Let it lead before documents are loaded."""
    controller.group.leads(None)
    controller.group.ready(controller.group.term)


# OpenAPI


@pytest.mark.parametrize("endpoint", SWITCHOVER_ENDPOINTS, ids=named)
async def test_openapi_describes_exactly_the_refusals_that_occur(controller, endpoint):
    _, described = await controller.get(openapi.PATH)
    responses = described["paths"][endpoint.path][endpoint.method.lower()]["responses"]
    expected = set(responses) - {"200", "202", "500"}
    path = endpoint.path.replace("{name}", SET)
    answers = [await send(controller, endpoint, f"{path}?odd=1")]
    if "{name}" in endpoint.path:
        answers.append(await send(controller, endpoint, endpoint.path.replace("{name}", "broker-z")))
    if endpoint.changes:
        await begin_all(controller)
        if endpoint.path.endswith("abort"):
            await send(controller, endpoint, path)
        answers.append(await send(controller, endpoint, path))
        answers += [
            await send(controller, endpoint, path, **each)
            for each in (
                {"headers": {}},
                {"headers": ADMIN | {"Origin": "http://a.example"}},
                {"headers": ADMIN | {"Content-Type": "text/plain"}, "json": None, "data": b"{}"},
                {"json": {"odd": 1}},
                {"json": {"reason": "x" * (BODY_BYTES_MAX + 1)}},
            )
        ]
    if {"409", "503"} & expected:
        controller.group.follows(OTHER)
        answers.append(await send(controller, endpoint, path))
        load_later(controller)
        answers.append(await send(controller, endpoint, path))
    # That a body takes too long is tested where bodies are read.
    refused = {str(status) for status, _ in answers if status >= 400}
    assert refused == expected - {"408"}


# Switchovers


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"brokerId": 0}, "$.brokerId"),
        ({"brokerId": "2"}, "$.brokerId"),
        ({"brokerId": 2**31}, "$.brokerId"),
        ({"backlogBytesMax": -1}, "$.backlogBytesMax"),
        ({"catchUpMsMax": 600_001}, "$.catchUpMsMax"),
        ({"holdMsMax": 99}, "$.holdMsMax"),
        ({"holdMsMax": 5_001}, "$.holdMsMax"),
        ({"holdMsMax": 1.5}, "$.holdMsMax"),
        ({"acceptLoss": "yes"}, "$.acceptLoss"),
        ({"reason": "two\nlines"}, "$.reason"),
        ({"reason": "a" * 501}, "$.reason"),
        ({"broker": 2}, "broker"),
        ([], "array"),
    ],
)
async def test_request_that_does_not_fit_names_the_field(controller, body, field):
    status, sentence = message(await post(controller, SWITCHOVER, body))
    assert (status, field in sentence) == (422, True), sentence
    assert list(controller.switchovers) == []


@pytest.mark.parametrize(
    ("path", "body", "status", "sentence"),
    [
        (SWITCHOVER, {"brokerId": 7}, 409, "broker-a has no broker 7; it has [1, 2, 3]."),
        (SWITCHOVER, {"brokerId": 1}, 409, "broker 1 is the master of broker-a already."),
        ("/v1/broker-sets/broker-z/switchover", {}, 404, "there is no broker set broker-z."),
    ],
)
async def test_switchover_that_cannot_be_is_refused_with_the_reason(controller, path, body, status, sentence):
    assert message(await post(controller, path, body)) == (status, sentence)


async def test_switchover_under_way_is_shown_with_its_steps(controller):
    status, begun = await post(controller, SWITCHOVER, {"brokerId": 3, "reason": "new disk", "requestedBy": "ana"})
    assert status == 202
    assert begun.pop("createdUnixMs") == begun.pop("phaseSinceUnixMs") == controller.clock.unix_ms()
    assert begun.pop("id").startswith(f"{SET}.")
    assert begun == {
        "brokerName": SET,
        "cluster": "C",
        "phase": "CATCH_UP",
        "oldMaster": 1,
        "newMaster": 3,
        "oldEpoch": 1,
        "newEpoch": None,
        "isHeld": True,
        "heldMs": None,
        "requestedBy": "ana",
        "reason": "new disk",
        "problem": "",
        "warnings": [],
        "steps": [],
    }
    assert message(await post(controller, SWITCHOVER, {}))[0] == 409
    _, shown = await controller.get(SWITCHOVER)
    assert (shown["newMaster"], shown["phase"]) == (3, "CATCH_UP")


async def test_switchovers_are_those_of_sets_with_the_prefix_the_newest_first(controller):
    await controller.a_set(1, 2, name="other-b")
    await controller.heartbeat(1, 2, name="other-b")
    for name in (SET, "other-b"):
        assert (await post(controller, f"/v1/broker-sets/{name}/switchover", {}))[0] == 202

    async def listed(query):
        _, body = await controller.get(f"/v1/switchovers{query}")
        return [each["brokerName"] for each in body["switchovers"]]

    assert await listed("") == ["other-b", SET]
    assert await listed("?limit=1") == ["other-b"]
    assert await listed("?prefix=broker") == [SET]


async def test_set_without_a_switchover_is_answered_so(controller):
    status, sentence = message(await controller.get(SWITCHOVER))
    assert (status, sentence) == (404, f"This controller has started no switchover of {SET} since its start.")


async def test_follower_names_the_leader(controller):
    controller.group.follows(OTHER)
    for path in (SWITCHOVER, RESTART, f"{RESTART}/abort"):
        status, sentence = message(await post(controller, path, {}))
        assert status == 409
        assert "n1 at 10.0.0.2:9878" in sentence


# Rolling restarts


@pytest.mark.parametrize(
    ("body", "status", "sentence"),
    [
        ({"brokerIds": [0]}, 422, "$.brokerIds[0]"),
        ({"brokerIds": list(range(1, BROKERS_MAX + 2))}, 422, "$.brokerIds"),
        ({"brokerIds": 2}, 422, "$.brokerIds"),
        ({"reason": "a\x00b"}, 422, "$.reason"),
        ({"clusterRestartsMax": 0}, 422, "$.clusterRestartsMax"),
        ({"clusterRestartsMax": RUNNING_MAX + 1}, 422, "$.clusterRestartsMax"),
        ({"odd": 1}, 422, "odd"),
        ({"brokerIds": [9]}, 409, "broker-a has no brokers [9]; it has [1, 2, 3]."),
    ],
)
async def test_restart_that_cannot_be_names_what_is_wrong(controller, body, status, sentence):
    answered, text = message(await post(controller, RESTART, body))
    assert (answered, sentence in text) == (status, True), text
    assert controller.restarts.under_way() == []


async def test_restart_shows_whom_to_restart_now_and_what_it_waits_for(controller):
    _, begun = await post(controller, RESTART, {"reason": "new JDK"})
    assert begun["clusterRestartsMax"] == 1
    assert (begun["phase"], begun["restartNow"], begun["brokerIds"], begun["restarted"]) == (
        "IN_SYNC",
        None,
        [1, 2, 3],
        [],
    )
    controller.restarts.look()
    await controller.done()
    _, named = await controller.get(RESTART)
    assert (named["phase"], named["restartNow"]) == ("RESTART", 2)
    controller.restarts.look()
    await controller.done()
    _, waiting = await controller.get(RESTART)
    assert waiting["waitsFor"] == "the operator to restart broker 2"
    _, aborted = await post(controller, f"{RESTART}/abort", {"reason": "tomorrow"})
    assert (aborted["phase"], aborted["restartNow"], aborted["waitsFor"]) == ("ABORTED", None, "")
    assert aborted["problem"] == "aborted: tomorrow"
    assert [each["phase"] for each in aborted["steps"]] == ["IN_SYNC", "RESTART"]
