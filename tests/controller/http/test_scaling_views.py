"""What a controller answers over HTTP about resizes, and what operators do with them there."""

import asyncio
from urllib.parse import quote

import msgspec
import pytest
from fakes.admin_token import ADMIN_TOKEN
from fakes.in_process_controller import InProcessController
from fakes.scaled_topic import GROUP, TOPIC, ScaledBroker, scaling_site
from resize_builders import CREATED_UNIX_MS, a_resize
from server_paths import CONTROLLER_ENDPOINTS

from controller.http.scaling_views import MayBeStored, refusals
from serving.http import openapi
from serving.http.views import ErrorAnswer
from serving.shapes.scaling import ResizeKind, ResizePhase
from store.documents import DocumentKind
from store.store import ControllerMember, OutcomeUnknown

OTHER = ControllerMember(id="n1", address="10.0.0.2:9878")
#: Those of resizes, and not of the autoscaler.
SCALING = [
    each for each in CONTROLLER_ENDPOINTS if each.path.startswith(("/v1/scaling/operations", "/v1/scaling/plan"))
]
OPERATIONS = "/v1/scaling/operations"
PLAN = "/v1/scaling/plan"
ADMIN = {"Authorization": f"Bearer {ADMIN_TOKEN}"}
GROW = {"topic": TOPIC, "queues": 8}

COMMANDS = [
    ("abort", {"reason": "why"}),
    ("resume", {"reason": "why"}),
    ("waive", {"group": GROUP}),
    ("give-up", {"brokerName": "broker-b", "requestedBy": "ann", "reason": "sold"}),
]


@pytest.fixture
async def broker():
    broker = ScaledBroker()
    # A group of the topic, which has consumed nothing of it.
    broker.offsets[GROUP] = {0: 0}
    return broker


@pytest.fixture
async def site(broker):
    async with scaling_site(broker) as site:
        yield site


@pytest.fixture
async def controller(site, tmp_path):
    async with InProcessController(tmp_path, namesrv_addr=";".join(site.addresses)) as controller:
        yield await controller.serve_http()


async def post(controller, path, body, **kwargs):
    return await controller.get(path, "POST", json=body, headers=ADMIN, **kwargs)


def message(answer):
    status, body = answer
    return status, msgspec.convert(body, ErrorAnswer).error.message


async def store(controller, operation):
    await controller.scaling.operations.add(operation)
    return f"{OPERATIONS}/{quote(operation.id, safe='')}"


def body_of(endpoint):
    of_command = dict(COMMANDS).get(endpoint.path.rpartition("/")[2], {"reason": ""})
    return GROW if endpoint.path in {PLAN, OPERATIONS} else of_command


def named(endpoint):
    return f"{endpoint.method} {endpoint.path}"


# OpenAPI


@pytest.mark.parametrize("endpoint", SCALING, ids=named)
async def test_openapi_describes_exactly_the_refusals_that_occur(controller, endpoint):
    _, described = await controller.get(openapi.PATH)
    expected = set(described["paths"][endpoint.path][endpoint.method.lower()]["responses"]) - {"200", "201", "500"}
    path, body = endpoint.path.replace("{id}", "nope"), body_of(endpoint)
    seen = {str((await send(controller, endpoint, f"{path}?odd=1", body))[0])}
    if "{id}" in path or "nope" in path:
        seen.add(str((await send(controller, endpoint, path, body))[0]))
    if endpoint.changes:
        seen |= {str(each) for each in await refusals_of_changes(controller, endpoint, path, body)}
    controller.group.follows(OTHER)
    seen.add(str((await send(controller, endpoint, path, body))[0]))
    if "503" in expected:
        # It leads, and has not loaded the operations.
        controller.group.leads(None)
        controller.group.ready(controller.group.term)
        seen.add(str((await send(controller, endpoint, path, body))[0]))
    # That a body takes too long or is too long is tested where bodies are read; an unknown outcome below.
    assert seen == expected - {"408", "413", "504"}
    assert ("504" in expected) == (endpoint.changes and "503" in expected)


def test_change_that_may_be_stored_is_not_answered_as_one_that_was_not_done():
    sentence = "The outcome is unknown: etcd did not answer"
    with pytest.raises(MayBeStored, match=sentence) as refused, refusals():
        raise OutcomeUnknown("etcd did not answer")
    assert (refused.value.status, refused.value.code) == (504, "outcome_unknown")


async def send(controller, endpoint, path, body):
    return await (post(controller, path, body) if endpoint.changes else controller.get(path))


async def refusals_of_changes(controller, endpoint, path, body):
    texts = {"headers": ADMIN | {"Content-Type": "text/plain"}, "data": b"{}"}
    calls = (
        {"json": body},
        {"json": body, "headers": ADMIN | {"Origin": "http://a.example"}},
        texts,
        {"json": {"odd": 1}, "headers": ADMIN},
    )
    return [(await controller.get(path, "POST", **each))[0] for each in calls]


# Plans and starts


async def test_plan_shows_what_would_change_and_changes_nothing(broker, controller):
    broker.offsets[GROUP] = {0: 3}
    status, plan = await post(controller, PLAN, GROW)
    assert (status, plan["kind"], plan["problems"]) == (200, "grow", [])
    assert plan["sets"] == [
        {
            "brokerName": "broker-a",
            "cluster": "DefaultCluster",
            "master": broker.address,
            "read": 4,
            "write": 4,
            "target": 8,
        }
    ]
    assert [each["group"] for each in plan["groups"]] == [GROUP]
    assert (broker.written, (await controller.get(OPERATIONS))[1]["total"]) == ([], 0)


@pytest.mark.parametrize(
    ("request_", "problem"),
    [
        (GROW | {"queues": 4}, "TopicTest has 4 queues on every broker set already"),
        (GROW | {"queues": 0}, "0 queues are too few: a topic needs at least 1 on each broker set"),
        (GROW | {"queues": 2000}, "2000 queues are above the limit of 1024 on each broker set"),
        (GROW | {"topic": "Nope"}, "no NameServer knows the topic Nope: create it, or start the brokers that have it"),
        (GROW | {"topic": "TBW102"}, "TBW102 is a system topic: brokers rely on its number of queues"),
        (
            GROW | {"waits": {"verifyMs": 0}},
            "verifyMs of 0 is shorter than 1000: no broker could answer in time",
        ),
    ],
)
async def test_plan_with_problems_is_answered_and_its_start_refused_with_the_same_sentences(
    controller, request_, problem
):
    status, plan = await post(controller, PLAN, request_)
    assert status == 200
    assert problem in plan["problems"]
    status, sentence = message(await post(controller, OPERATIONS, request_))
    assert status == 422
    assert sentence == "; ".join(plan["problems"]) + "."
    assert (await controller.get(OPERATIONS))[1]["total"] == 0


async def test_started_resize_is_listed_and_found(controller):
    status, started = await post(controller, OPERATIONS, GROW | {"reason": "too slow", "requestedBy": "ops"})
    assert (status, started["phase"], started["reason"], started["requestedBy"]) == (201, "PLANNED", "too slow", "ops")
    assert await controller.get(f"{OPERATIONS}/{started['id']}") == (200, started)
    _, listing = await controller.get(f"{OPERATIONS}?prefix=Topic")
    assert (listing["operations"], listing["total"], listing["problems"]) == ([started], 1, {})
    assert (await controller.get(f"{OPERATIONS}?prefix=Other"))[1]["operations"] == []


async def test_scaling_that_is_off_says_how_to_switch_it_on(tmp_path):
    async with InProcessController(tmp_path) as controller:
        await controller.serve_http()
        off = (409, "Queue scaling is off: set namesrvAddr to the addresses of all NameServers.")
        assert message(await post(controller, PLAN, GROW)) == off
        assert message(await post(controller, OPERATIONS, GROW)) == off
        assert (await controller.get(OPERATIONS))[0] == 200


# Commands


async def test_what_a_resize_waited_for_before_its_present_phase_is_not_shown(broker, controller):
    path = await store(controller, a_resize(topic="Other", phase=ResizePhase.CONFLICT, problem="somebody"))
    await controller.scaling.look()
    async with asyncio.timeout(10):
        while not (await controller.get(path))[1]["waitsFor"]:
            await asyncio.sleep(0.01)
    _, resumed = await post(controller, f"{path}/resume", {"reason": ""})
    assert (resumed["phase"], resumed["waitsFor"], resumed["observedUnixMs"]) == ("WRITE_DOWN", [], None)


async def test_waived_group_is_shown(controller):
    path = await store(controller, a_resize(phase=ResizePhase.DRAIN))
    status, waived = await post(controller, f"{path}/waive", {"group": GROUP})
    assert (status, waived["options"]["waivedGroups"]) == (200, [GROUP])
    status, sentence = message(await post(controller, f"{path}/waive", {"group": GROUP}))
    assert (status, sentence) == (409, f"{GROUP} is already waived.")


async def test_who_gave_up_a_set_and_why_is_shown(controller):
    (one,) = a_resize().sets
    sets = (one, msgspec.structs.replace(one, broker_name="broker-b"))
    path = await store(controller, a_resize(phase=ResizePhase.DRAIN, sets=sets))
    body = {"brokerName": "broker-b", "requestedBy": "ann", "reason": "sold"}
    status, going = await post(controller, f"{path}/give-up", body)
    assert (status, [each["brokerName"] for each in going["sets"]]) == (200, ["broker-a"])
    assert going["steps"][-1]["evidence"] == ["broker-b was given up by ann: sold"]
    status, sentence = message(await post(controller, f"{path}/give-up", body))
    assert (status, sentence) == (409, "resize-1 has no set broker-b, but these: broker-a.")


async def test_dry_run_of_a_command_shows_what_would_become_of_the_resize_or_why_it_is_refused(controller):
    path = await store(controller, a_resize(phase=ResizePhase.DRAIN))
    before = await controller.get(path)
    status, shown = await post(controller, f"{path}/abort", {"reason": "a mistake", "dryRun": True})
    assert (status, shown["phase"], shown["problem"]) == (200, "ROLLBACK", "aborted by the operator: a mistake")
    for command, body in COMMANDS[1:]:
        refused = await post(controller, f"{path}/{command}", body | {"dryRun": True})
        assert command == "waive" or refused[0] == 409, refused
    assert await controller.get(path) == before


# Who may do it


@pytest.mark.parametrize("endpoint", SCALING, ids=named)
async def test_follower_names_the_leader(controller, endpoint):
    await store(controller, a_resize())
    controller.group.follows(OTHER)
    path = endpoint.path.replace("{id}", "resize-1")
    answer = await send(controller, endpoint, path, body_of(endpoint))
    status, sentence = message(answer)
    assert (status, answer[1]["error"]["code"]) == (409, "not_leader")
    assert sentence.startswith("Only the leading controller knows and changes operations: ")
    assert "n1 at 10.0.0.2:9878" in sentence


# Bodies


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"topic": TOPIC}, "queues"),
        (GROW | {"queues": "8"}, "$.queues"),
        (GROW | {"queues": 8.5}, "$.queues"),
        (GROW | {"topic": ""}, "$.topic"),
        (GROW | {"topic": "a b"}, "$.topic"),
        (GROW | {"topic": "a" * 128}, "$.topic"),
        (GROW | {"ordered": "odd"}, "$.ordered"),
        (GROW | {"waits": {"drainMs": -1}}, "$.waits.drainMs"),
        (GROW | {"waits": {"drainMs": 604_800_001}}, "$.waits.drainMs"),
        (GROW | {"waits": {"drainMs": 10**30}}, "$.waits.drainMs"),
        (GROW | {"waits": {"oddMs": 1}}, "oddMs"),
        (GROW | {"options": {"waivedGroups": ["g"] * 101}}, "$.options.waivedGroups"),
        (GROW | {"options": {"waivedGroups": ["a b"]}}, "$.options.waivedGroups"),
        (GROW | {"reason": "a" * 501}, "$.reason"),
        (GROW | {"reason": "two\nlines"}, "$.reason"),
        (GROW | {"requestedBy": "a" * 501}, "$.requestedBy"),
        (GROW | {"odd": 1}, "odd"),
    ],
)
@pytest.mark.parametrize("path", [PLAN, OPERATIONS])
async def test_body_that_does_not_fit_names_the_field(broker, controller, path, body, field):
    status, sentence = message(await post(controller, path, body))
    assert status == 422
    assert field in sentence
    assert broker.seen == []


@pytest.mark.parametrize(
    ("command", "body", "field"),
    [
        ("abort", {"reason": "a" * 501}, "$.reason"),
        ("abort", {"odd": 1}, "odd"),
        ("resume", {"reason": 1}, "$.reason"),
        ("waive", {}, "group"),
        ("waive", {"group": ""}, "$.group"),
        ("waive", {"group": "a b"}, "$.group"),
    ],
)
async def test_command_that_does_not_fit_names_the_field(controller, command, body, field):
    path = await store(controller, a_resize(phase=ResizePhase.DRAIN))
    status, sentence = message(await post(controller, f"{path}/{command}", body))
    assert status == 422
    assert field in sentence


# Names in paths


@pytest.mark.parametrize("name", ["%RETRY%g", "a/b", "ä€𝄞", "a b?c=d#e", "..", "100%", "a+b", '"quoted"'])
async def test_operation_is_found_by_any_id(controller, name):
    operation = a_resize(id=f"{name}.{CREATED_UNIX_MS}", topic="Other")
    path = await store(controller, operation)
    status, body = await controller.get(path)
    assert (status, body.get("id")) == (200, operation.id)
    status, body = await post(controller, f"{path}/abort", {"reason": ""})
    assert (status, body.get("phase")) == (200, "ABORTED")


# Listings


async def test_ended_operations_follow_those_under_way_the_newest_first(controller):
    for number in (1, 3, 2):
        await controller.scaling.operations.end(
            a_resize(id=f"ended-{number}", created_unix_ms=CREATED_UNIX_MS + number, phase=ResizePhase.DONE)
        )
    await store(controller, a_resize(id="b", topic="b"))
    await store(controller, a_resize(id="a", topic="a", kind=ResizeKind.GROW))
    _, listing = await controller.get(OPERATIONS)
    assert [each["id"] for each in listing["operations"]] == ["a", "b", "ended-3", "ended-2", "ended-1"]
    _, listing = await controller.get(f"{OPERATIONS}?limit=2")
    assert ([each["id"] for each in listing["operations"]], listing["total"]) == (["a", "b"], 5)


async def test_operation_that_cannot_be_read_is_a_problem_of_the_listing(controller):
    await controller.backend.commit_document(DocumentKind.SCALING_OPERATION, "orders", b"[]", 0)
    controller.group.follows(OTHER)
    controller.group.leads(None)
    controller.group.ready(controller.group.term)
    await controller.scaling.look()
    await store(controller, a_resize())
    status, listing = await controller.get(OPERATIONS)
    assert (status, listing["total"]) == (200, 1)
    assert listing["problems"]["orders"].startswith("the operation stored as orders cannot be read: ")
