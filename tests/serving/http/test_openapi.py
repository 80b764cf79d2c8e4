"""The description of the HTTP paths, against the server that it describes."""

import re

import msgspec
import pytest
from clusters import register
from fakes.site import Site
from server_paths import CONTROLLER_ENDPOINTS, NAMESRV_ENDPOINTS, OFFSET_MANAGER_ENDPOINTS

from controller.config import CONTROLLER
from namesrv.core.route_fetches import KEEP_MS_MIN, WatchedTopic, first_version
from namesrv.settings.config import NAMESRV
from namesrv.settings.kv_config import KvConfig
from offsets.config import OFFSET_MANAGER
from serving.http import openapi
from serving.http.views import ErrorAnswer
from serving.metrics.health import Serving


@pytest.fixture
async def site():
    async with Site() as site:
        site.health.serving = Serving.READY
        register(site.state, "broker-a")
        register(site.state, "broker-a", 1)
        register(site.state, "broker-b", zone_name="z1")
        site.settings.kv = KvConfig().with_value("ns", "k", "v")
        present = first_version(site.state.route_of("TopicTest", None), site.clock.unix_ms())
        site.state.route_fetches.begin("TopicTest", WatchedTopic("w", present, site.clock.now_ms(), KEEP_MS_MIN))
        yield site


SERVERS = [
    (NAMESRV, NAMESRV_ENDPOINTS),
    (CONTROLLER, CONTROLLER_ENDPOINTS),
    (OFFSET_MANAGER, OFFSET_MANAGER_ENDPOINTS),
]
READ = [endpoint for endpoint in NAMESRV_ENDPOINTS if not endpoint.changes]
QUERIES = {
    "/v1/routes/watch": "?topic=TopicTest",
    "/v1/history/route": "?topic=TopicTest",
    "/v1/history/route-changes": "?topic=TopicTest",
    "/v1/history/broker": "?broker=broker-a",
}
#: Of requests that wait for one another, or take long: test_history_reader.py has them.
RARE = {path: {"429", "503"} for path in QUERIES if path.startswith("/v1/history/")}
PARTS = {"name": "broker-a", "topic": "TopicTest", "namespace": "ns", "unit": "unit1"}


def filled(path):
    return re.sub(r"\{(\w+)\}", lambda match: PARTS[match[1]], path)


async def test_every_route_of_the_server_is_described_and_no_other(site):
    _, described = await site.get(openapi.PATH)
    assert set(described["paths"]) == {resource.canonical for resource in site.app().router.resources()}
    assert (described["openapi"], described["info"]["version"]) == ("3.1.0", "0.1.0")


@pytest.fixture(params=SERVERS, ids=lambda server: server[0].name)
def described(request):
    """The description of each server, as clients get it."""
    return msgspec.json.decode(msgspec.json.encode(openapi.document(*request.param)))


def test_every_reference_leads_to_a_schema(described):
    references = re.findall(r'"\$ref":"#/components/schemas/([\w.]+)"', msgspec.json.encode(described).decode())
    assert set(references) == set(described["components"]["schemas"])


def test_every_operation_has_a_name_of_its_own_and_declares_the_parts_of_its_path(described):
    operations = [(path, each) for path, methods in described["paths"].items() for each in methods.values()]
    assert len({operation["operationId"] for _, operation in operations}) == len(operations)
    for path, operation in operations:
        declared = {each["name"] for each in operation["parameters"] if each["in"] == "path"}
        assert declared == set(re.findall(r"\{(\w+)\}", path))


@pytest.mark.parametrize("endpoint", READ, ids=lambda endpoint: endpoint.path)
async def test_an_answer_has_the_described_type_and_shape(site, endpoint):
    status, headers, body = await site.request("GET", filled(endpoint.path) + QUERIES.get(endpoint.path, ""))
    assert (status, headers["Content-Type"]) == (200, endpoint.content_type)
    if endpoint.shape is None:
        assert isinstance(body, str)
        return
    shape = msgspec.defstruct("Whole", [("answer", endpoint.shape)])
    read = msgspec.json.decode(msgspec.json.encode({"answer": body}), type=shape).answer
    # Nothing came that the shape does not have.
    assert msgspec.json.decode(msgspec.json.encode(read)) == body


@pytest.mark.parametrize("endpoint", READ, ids=lambda endpoint: endpoint.path)
async def test_every_refusal_that_is_described_can_happen(site, endpoint):
    _, described = await site.get(openapi.PATH)
    statuses = set(described["paths"][endpoint.path]["get"]["responses"]) - {"200", "500"}
    seen = set()
    for status, path, headers in (
        ("400", filled(endpoint.path) + "?odd=1", {"Host": "a;b"}),
        ("404", re.sub(r"\{\w+\}", "nope", endpoint.path), {}),
        ("503", filled(endpoint.path), {}),
    ):
        site.health.serving = Serving.DRAINING if status == "503" else Serving.READY
        answered, body = await site.get(path, headers=headers)
        if answered != 200:
            seen.add(str(answered))
            assert msgspec.convert(body, ErrorAnswer).error.message.endswith(".")
    assert seen == statuses - RARE.get(endpoint.path, set())
