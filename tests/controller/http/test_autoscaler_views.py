"""What a controller answers over HTTP about policies, decisions and proposals, and what operators do there."""

import asyncio
import json

import msgspec
import pytest
from fakes.admin_token import ADMIN_TOKEN
from fakes.in_process_controller import InProcessController
from fakes.scaled_topic import TOPIC
from fakes.watched_site import LOOKS_UNTIL_DECIDED, POLICY, watched_site
from server_paths import CONTROLLER_ENDPOINTS

from serving.http import openapi
from serving.http.views import ErrorAnswer
from store.documents import DocumentKind
from store.store import ControllerMember, StoreError

OTHER = ControllerMember(id="n1", address="10.0.0.2:9878")
POLICIES = "/v1/scaling/policies"
DECISIONS = "/v1/scaling/decisions"
PROPOSALS = "/v1/scaling/proposals"
WATCHING = [each for each in CONTROLLER_ENDPOINTS if each.path.startswith((POLICIES, DECISIONS, PROPOSALS))]
ADMIN = {"Authorization": f"Bearer {ADMIN_TOKEN}"}


@pytest.fixture
async def site(tmp_path):
    """A topic whose resize waits for an operator."""
    async with watched_site(tmp_path) as site:
        await site.put(site.mode("approve"))
        await site.look(LOOKS_UNTIL_DECIDED)
        yield site


def named(endpoint):
    return f"{endpoint.method} {endpoint.path}"


def body_of(endpoint):
    return {"policy": [POLICY]} if endpoint.path == POLICIES else {"reason": ""}


def path_of(site, endpoint):
    """The path of an endpoint, about the proposal that waits."""
    waiting = site.autoscaler.proposals()
    return endpoint.path.replace("{id}", waiting[0].id if waiting else "nope")


async def send(site, endpoint, path=None, **changed):
    values = {"headers": ADMIN, "json": body_of(endpoint)} if endpoint.changes else {}
    return await site.controller.get(path or path_of(site, endpoint), endpoint.method, **(values | changed))


def message(answer):
    status, body = answer
    return status, msgspec.convert(body, ErrorAnswer).error.message


def load_operations(site):
    """Let it lead before the operations are loaded."""
    site.controller.group.leads(None)
    site.controller.group.ready(site.controller.group.term)


def topics(site):
    return [each.topic for each in site.autoscaler.policies.table.policies]


# OpenAPI


@pytest.mark.parametrize("endpoint", WATCHING, ids=named)
async def test_openapi_describes_exactly_the_refusals_that_occur(site, endpoint):
    _, described = await site.controller.get(openapi.PATH)
    expected = set(described["paths"][endpoint.path][endpoint.method.lower()]["responses"]) - {"200", "201", "500"}
    path = path_of(site, endpoint)
    answers = [await send(site, endpoint, f"{path}?odd=1")]
    if "{id}" in endpoint.path:
        answers.append(await send(site, endpoint, endpoint.path.replace("{id}", "nope")))
    if endpoint.changes:
        answers += await refusals_of_changes(site, endpoint, path)
    site.controller.group.follows(OTHER)
    answers.append(await send(site, endpoint, path))
    load_operations(site)
    answers.append(await send(site, endpoint, path))
    # That a body takes too long is tested where bodies are read.
    assert {str(status) for status, _ in answers} == expected - {"408", "504"}


async def refusals_of_changes(site, endpoint, path):
    requests = (
        {"headers": {}},
        {"headers": ADMIN | {"Origin": "http://a.example"}},
        {"headers": ADMIN | {"Content-Type": "text/plain"}, "json": None, "data": b"{}"},
        {"json": {"odd": 1}},
        {"json": {"policy": [{"topic": "x" * (endpoint.body_bytes_max + 1)}]}},
    )
    return [await send(site, endpoint, path, **each) for each in requests]


# Queries


async def test_decisions_are_those_of_topics_with_the_prefix_up_to_the_limit(site):
    absent = ["Orders", "Payments", "Topic1", "Topic2"]
    await site.put(POLICY, *(POLICY | {"topic": each} for each in absent))
    await site.look()

    async def listed(query):
        _, listing = await site.controller.get(f"{DECISIONS}?{query}")
        shown, changes = ({each["topic"] for each in listing[name]} for name in ("decisions", "changes"))
        return sorted(shown), sorted(changes), listing["total"]

    assert await listed("") == ([*absent, TOPIC], [*absent, TOPIC], 5)
    assert await listed("prefix=Topic") == (["Topic1", "Topic2", TOPIC], ["Topic1", "Topic2", TOPIC], 3)
    assert await listed("prefix=topic") == ([], [], 0)
    shown, changes, total = await listed("prefix=Topic&limit=1")
    assert (shown, len(changes), total) == (["Topic1"], 1, 3)


# Policies


@pytest.mark.parametrize(
    ("body", "status", "sentence"),
    [
        ({}, 422, "policy"),
        ({"policy": {}}, 422, "$.policy"),
        ({"policy": [3]}, 422, "$.policy[0]"),
        ({"policy": [{}]}, 422, "policy 1: topic: is missing"),
        ({"policy": [POLICY, {"topic": "b", "min": 9, "max": 2}]}, 422, "policy 2: min: min is 9 and max 2"),
        ({"policy": [POLICY | {"step": 1.0000001}]}, 422, "policy 1: step: 1.0000001 is not allowed"),
        ({"policy": [POLICY | {"min": [[[[]]]]}]}, 422, "policy 1: min: a list is not allowed"),
        ({"policy": [POLICY | {"mode": "automatic"}]}, 422, "policy 1: mode: 'automatic' is not allowed"),
        ({"policy": [], "odd": 1}, 422, "odd"),
        ({"policy": [POLICY | {"step": 10**400}]}, 422, "policy 1: step: an integer of 1329 bits is not allowed"),
    ],
)
async def test_policies_with_a_mistake_name_it_and_leave_those_before_in_force(site, body, status, sentence):
    answered, said = message(await site.request("PUT", "policies", body))
    assert (answered, sentence in said) == (status, True), said
    assert topics(site) == [TOPIC]
    (name,) = site.controller.scaling.documents.names(DocumentKind.SCALING_POLICY)
    stored = site.controller.scaling.documents.get(DocumentKind.SCALING_POLICY, name)
    assert json.loads(stored) == {"policy": [site.mode("approve")]}


@pytest.mark.parametrize("value", ["[" * 50_000 + "]" * 50_000, '{"a":' * 20_000 + "1" + "}" * 20_000, "9" * 5_000])
async def test_value_that_nobody_can_read_is_refused(site, value):
    text = f'{{"policy": [{{"topic": "a", "min": {value}}}]}}'
    headers = ADMIN | {"Content-Type": "application/json"}
    status, _ = message(await site.controller.get(POLICIES, "PUT", headers=headers, data=text.encode()))
    assert status in (400, 422)
    assert topics(site) == [TOPIC]


async def test_answer_to_thousands_of_mistakes_is_short(site):
    mistaken = {"topic": "a"} | {f"p{number}": 1 for number in range(20_000)}
    status, said = message(await site.request("PUT", "policies", {"policy": [mistaken]}))
    assert (status, said.endswith("; there are more of them.")) == (422, True)
    assert len(said) < 10_000


async def test_policies_that_cannot_be_stored_are_not_in_force(site, monkeypatch):
    async def fail(*_):
        raise StoreError("the disk is full")

    monkeypatch.setattr(site.controller.backend, "commit_document", fail)
    answer = await site.request("PUT", "policies", {"policy": []})
    assert message(answer) == (503, "the disk is full.")
    assert topics(site) == [TOPIC]


async def test_follower_shows_the_policies_of_its_file(tmp_path):
    file = tmp_path / "queues.toml"
    file.write_text(f'[[policy]]\ntopic = "{TOPIC}"\n')
    async with watched_site(tmp_path, file) as site:
        await site.autoscaler.policies.read_file()
        site.controller.group.follows(OTHER)
        status, body = await site.controller.get(POLICIES)
        assert (status, body["source"], [each["topic"] for each in body["policies"]]) == (200, str(file), [TOPIC])


# Proposals


@pytest.mark.parametrize("command", ["approve", "dismiss"])
async def test_proposal_that_was_decided_is_gone(site, command):
    (proposal,) = site.autoscaler.proposals()
    path = f"{PROPOSALS}/{proposal.id}"
    status, _ = await site.controller.get(f"{path}/{command}", "POST", headers=ADMIN, json={})
    assert status in (200, 201)
    for other in ("approve", "dismiss"):
        answer = await site.controller.get(f"{path}/{other}", "POST", headers=ADMIN, json={})
        assert message(answer)[0] == 404
    assert len(site.operations()) == (1 if command == "approve" else 0)


async def test_two_operators_who_approve_at_once_start_one_resize(site):
    (proposal,) = site.autoscaler.proposals()
    path = f"{PROPOSALS}/{proposal.id}/approve"
    answers = await asyncio.gather(
        *(site.controller.get(path, "POST", headers=ADMIN, json={"reason": each}) for each in ("one", "two"))
    )
    assert sorted(status for status, _ in answers) == [201, 409]
    assert len(site.operations()) == 1


async def test_proposal_for_a_topic_that_was_changed_by_hand_is_not_carried_out(site):
    """A growth from 4 to 8 queues must not take queues away from a topic that has 32 by now."""
    (proposal,) = site.autoscaler.proposals()
    site.broker.topic |= {"readQueueNums": 32, "writeQueueNums": 32}
    answer = await site.controller.get(f"{PROPOSALS}/{proposal.id}/approve", "POST", headers=ADMIN, json={})
    assert message(answer) == (422, f"{TOPIC} has 32 queues by now, and this was decided for 4.")
    assert not site.operations()


async def test_approval_records_what_was_proposed_and_not_the_newest_verdict(site):
    (proposal,) = site.autoscaler.proposals()
    await site.look(written=0, consumed=0)
    assert site.decision().verdict.target is None
    await site.controller.get(f"{PROPOSALS}/{proposal.id}/approve", "POST", headers=ADMIN, json={})
    (approved,) = site.events("scaling_proposal_approved")
    (requested,) = site.events("scaling_resize_requested")
    assert [(each["queues"], each["target"]) for each in (approved, requested)] == [(4, 8), (4, 8)]
    assert approved["proposal"] == proposal.id


# Who may do it


@pytest.mark.parametrize("endpoint", WATCHING, ids=named)
async def test_follower_names_the_leader(site, endpoint):
    path = path_of(site, endpoint)
    site.controller.group.follows(OTHER)
    status, sentence = message(await send(site, endpoint, path))
    assert status == 409
    assert sentence.startswith("Only the leading controller knows and changes operations: ")
    assert "n1 at 10.0.0.2:9878" in sentence


@pytest.mark.parametrize("endpoint", WATCHING, ids=named)
async def test_new_leader_asks_for_a_moment_until_it_has_loaded_what_is_stored(site, endpoint):
    path = path_of(site, endpoint)
    site.controller.group.follows(OTHER)
    load_operations(site)
    assert message(await send(site, endpoint, path)) == (503, "operations are being loaded: try again in a second.")


async def test_controller_without_policies_lists_nothing(tmp_path):
    async with InProcessController(tmp_path) as controller:
        await controller.serve_http()
        assert (await controller.get(POLICIES))[1] == {"source": "http", "policies": [], "problem": ""}
        empty = {"decisions": [], "total": 0, "leftOut": 0, "changes": []}
        assert (await controller.get(DECISIONS))[1] == empty
        assert (await controller.get(PROPOSALS))[1] == {"proposals": []}


# Bodies


@pytest.mark.parametrize("command", ["approve", "dismiss"])
@pytest.mark.parametrize(
    ("body", "field"),
    [({"reason": "a" * 501}, "$.reason"), ({"reason": "two\nlines"}, "$.reason"), ({"odd": 1}, "odd"), ([], "array")],
)
async def test_reason_that_does_not_fit_names_the_field(site, command, body, field):
    (proposal,) = site.autoscaler.proposals()
    answer = await site.controller.get(f"{PROPOSALS}/{proposal.id}/{command}", "POST", headers=ADMIN, json=body)
    status, sentence = message(answer)
    assert (status, field in sentence) == (422, True), sentence
    assert site.autoscaler.proposals() == [proposal]
