"""Where policies come from, and that a mistake leaves those before in force."""

import json
import os

import pytest
from fakes.scaled_topic import TOPIC
from fakes.watched_site import POLICY, watched_site

from controller.scaling.watching.policy_source import PolicySource
from store.documents import DocumentKind

FILE = '[[policy]]\ntopic = "{topic}"\nmin = 4\nmax = {most}\n'


@pytest.fixture
async def site(tmp_path):
    async with watched_site(tmp_path) as site:
        yield site


@pytest.fixture
def file(tmp_path):
    return tmp_path / "queues.toml"


def source_of(controller, file):
    return PolicySource(str(file), controller.scaling.documents, controller.telemetry.emit)


async def look(source):
    """Look twice: a file that has changed counts once it was the same for a second."""
    await source.read_file()
    await source.read_file()


def topics(source):
    return [each.topic for each in source.table.policies]


async def test_changed_file_is_read_again_and_the_same_one_is_not(controller, file):
    source = source_of(controller, file)
    file.write_text(FILE.format(topic="Orders", most=8))
    await source.read_file()
    await source.read_file()
    assert topics(source) == ["Orders"]
    file.write_text(FILE.format(topic="Payments", most=8))
    await look(source)
    assert topics(source) == ["Payments"]
    loaded = controller.events("scaling_policies_loaded")
    assert [(each["source"], each["policies"], each["automatic"]) for each in loaded] == [(str(file), 1, 0)] * 2


async def test_mistake_is_logged_once_with_its_line_and_the_policies_before_stay(controller, file):
    source = source_of(controller, file)
    file.write_text(FILE.format(topic="Orders", most=8))
    await source.read_file()
    file.write_text(FILE.format(topic="Payments", most=2000))
    await source.read_file()
    await source.read_file()
    (refused,) = controller.events("scaling_policies_refused")
    assert refused["level"] == "error"
    assert refused["problems"] == [
        "line 4, policy 1: max: 2000 is not allowed, but a whole number of queues from 1 to 1024 is"
    ]
    assert topics(source) == ["Orders"]
    assert source.problem.startswith("line 4, policy 1: max")
    file.write_text(FILE.format(topic="Payments", most=20))
    await look(source)
    assert (topics(source), source.problem) == (["Payments"], "")


@pytest.mark.parametrize(
    ("content", "problem"),
    [(None, "cannot be read: No such file"), (b"\xff\xfe", "is no UTF-8 text"), (b"=", "not TOML")],
)
async def test_start_with_an_unreadable_file_has_no_policies(controller, file, content, problem):
    if content is not None:
        file.write_bytes(content)
    source = source_of(controller, file)
    await source.read_file()
    await source.read_file()
    assert topics(source) == []
    assert problem in source.problem
    assert len(controller.events("scaling_policies_refused")) == 1


async def test_file_that_is_half_written_at_one_look_is_not_taken(controller, file):
    source = source_of(controller, file)
    file.write_text(FILE.format(topic="Orders", most=8))
    await source.read_file()
    for half in ("", FILE.format(topic="Ord", most=8)):
        file.write_text(half)
        await source.read_file()
    assert topics(source) == ["Orders"]
    file.write_text(FILE.format(topic="Payments", most=8))
    await look(source)
    assert (topics(source), source.problem) == (["Payments"], "")
    assert len(controller.events("scaling_policies_loaded")) == 2


async def test_pipe_in_place_of_the_file_holds_nothing_up(controller, file):
    os.mkfifo(file)
    source = source_of(controller, file)
    await source.read_file()
    assert source.problem == f"{file} cannot be read: it is no file"


async def test_home_of_nobody_is_a_problem_of_the_file(controller):
    source = source_of(controller, "~nobody-of-that-name/queues.toml")
    await source.read_file()
    assert "cannot be read: Could not determine home directory" in source.problem


async def test_file_that_comes_back_unchanged_is_taken(controller, file):
    source = source_of(controller, file)
    file.write_text(FILE.format(topic="Orders", most=8))
    await source.read_file()
    content = file.read_bytes()
    file.unlink()
    await source.read_file()
    assert topics(source) == ["Orders"]
    file.write_bytes(content)
    await source.read_file()
    assert source.problem == ""


# HTTP


async def test_policies_put_over_http_are_shown_with_all_properties_and_stored(site):
    await site.put(POLICY)
    status, body = await site.request("GET", "policies")
    assert (status, body["source"], body["problem"]) == (200, "http", "")
    assert body["policies"] == [
        {
            "topic": TOPIC,
            "min": 4,
            "max": 64,
            "step": 2.0,
            "cooldownMs": 60_000,
            "windowMs": 15_000,
            "behindMs": 5_000,
            "queueWrites": None,
            "brokerWrites": None,
            "mode": "propose",
        }
    ]
    (name,) = site.controller.scaling.documents.names(DocumentKind.SCALING_POLICY)
    stored = site.controller.scaling.documents.get(DocumentKind.SCALING_POLICY, name)
    assert json.loads(stored) == {"policy": [POLICY]}


async def test_policies_of_http_are_those_of_the_next_leader(site):
    await site.put(POLICY)
    other = site.controller.new_autoscaler()
    other.policies.look_at_store()
    assert topics(other.policies) == [TOPIC]


@pytest.mark.parametrize(
    ("policies", "message"),
    [
        (
            [POLICY, POLICY | {"topic": "b", "max": 2}],
            "policy 2: min: min is 4 and max 2; min may not be larger than max.",
        ),
        ([POLICY | {"cooldwn": "1m"}], "policy 1: cooldwn: is no property of a policy"),
        ([POLICY, POLICY], f"policy 2: topic: '{TOPIC}' is that of policy 1 too"),
        ([3], "$.policy[0]"),
    ],
)
async def test_mistake_over_http_is_named_and_changes_nothing(site, policies, message):
    await site.put(POLICY)
    status, body = await site.request("PUT", "policies", {"policy": policies})
    assert status == 422
    assert message in body["error"]["message"]
    assert topics(site.autoscaler.policies) == [TOPIC]


async def test_policies_are_not_put_without_the_admin_token(site):
    status, _ = await site.controller.get("/v1/scaling/policies", "PUT", json={"policy": []})
    assert status == 401


async def test_policies_of_a_file_are_not_put_over_http(tmp_path, file):
    file.write_text(FILE.format(topic="Orders", most=8))
    async with watched_site(tmp_path, file) as site:
        await site.autoscaler.policies.read_file()
        status, body = await site.request("PUT", "policies", {"policy": []})
        assert status == 409
        assert f"policies come from {file} (scalingPolicyFile): change that file" in body["error"]["message"]
        status, body = await site.request("GET", "policies")
        assert (body["source"], [each["topic"] for each in body["policies"]]) == (str(file), ["Orders"])


async def test_stored_policies_that_a_newer_release_wrote_are_refused_once(site):
    text = json.dumps({"policy": [POLICY | {"speed": 3}]}).encode()
    await site.controller.scaling.documents.change(DocumentKind.SCALING_POLICY, "policies", lambda _: text)
    site.autoscaler.policies.look_at_store()
    site.autoscaler.policies.look_at_store()
    (refused,) = site.controller.events("scaling_policies_refused")
    assert "policy 1: speed: is no property of a policy" in refused["problems"][0]
    assert topics(site.autoscaler.policies) == []
