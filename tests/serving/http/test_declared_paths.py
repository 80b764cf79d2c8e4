"""Paths that are declared on methods: their table, their description, and what a real server answers with them."""

import re
from dataclasses import dataclass, field

import msgspec
import pytest
from fakes.admin_token import ADMIN_TOKEN
from fakes.http_site import HttpSite
from other_server import OTHER
from server_paths import CONTROLLER_ENDPOINTS, NAMESRV_ENDPOINTS, OFFSET_MANAGER_ENDPOINTS

from serving.http import openapi
from serving.http.paths import Parameter, delete, endpoints_of, get, post, put
from serving.http.views import HealthAnswer, NotFound, StateConflict, ViewRequest

_TOPIC = (Parameter("topic", "Its name."),)


class NewTopic(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    topic: str
    read_queues: int


class QueueView(msgspec.Struct, frozen=True, rename="camel"):
    queue_id: int


class TopicView(msgspec.Struct, frozen=True, rename="camel"):
    topic: str
    read_queues: int
    all_queues: list[QueueView] = []


class TopicListing(msgspec.Struct, frozen=True, rename="camel"):
    topics: list[str]


@dataclass(frozen=True)
class Queue:
    queue_id: int


@dataclass(frozen=True)
class Topic:
    """An inner value with more than is shown."""

    topic: str
    read_queues: int
    secret: str = "hidden"
    all_queues: tuple[Queue, ...] = field(default=())


class TopicViews:
    def __init__(self):
        self.topics = {}

    @get("/topics", parameters=(Parameter("prefix", "Only these."),), paged=True)
    def listing(self, request: ViewRequest) -> TopicListing:
        """Topics by name."""
        return TopicListing([name for name in self.topics if name.startswith(request.prefix)])

    @get("/topics/{topic}", answer=TopicView, parts=_TOPIC, refusals=(404,))
    def topic(self, request: ViewRequest) -> Topic:
        """Queues of a topic.

        What follows the first line is for readers of the code.
        """
        try:
            return self.topics[request.path["topic"]]
        except KeyError:
            raise NotFound("There is no such topic.") from None

    @post("/topics", answer=TopicView, status=201, refusals=(409,), body_bytes_max=100)
    async def create(self, body: NewTopic) -> Topic:
        """A new topic."""
        if body.topic in self.topics:
            raise StateConflict("There is one already.")
        queues = tuple(Queue(number) for number in range(body.read_queues))
        self.topics[body.topic] = topic = Topic(body.topic, body.read_queues, all_queues=queues)
        return topic

    @put("/topics/{topic}", answer=TopicView, parts=_TOPIC, refusals=(404,))
    def update(self, request: ViewRequest, body: NewTopic) -> Topic:
        """Other counts."""
        self.topics[request.path["topic"]] = topic = Topic(body.topic, body.read_queues)
        return topic


class TextViews:
    """Other paths, with an object of their own."""

    @get("/text", content_type="text/plain; charset=utf-8")
    def text(self) -> str:
        """Some text."""
        return "text"

    @delete("/text", status=202)
    async def gone(self) -> HealthAnswer:
        """No text."""
        return HealthAnswer("ok")


ORDERS = {"topic": "Orders", "readQueues": 2}
SHOWN = ORDERS | {"allQueues": [{"queueId": 0}, {"queueId": 1}]}


async def test_inner_values_are_answered_in_the_declared_shape_by_sync_and_async_methods():
    async with HttpSite(OTHER, TopicViews(), TextViews(), token=ADMIN_TOKEN) as server:

        async def send(method, path, body=None):
            return (await server.request(method, path, token=ADMIN_TOKEN, json=body))[::2]

        assert await send("POST", "/topics", ORDERS) == (201, SHOWN)
        assert await send("GET", "/topics/Orders") == (200, SHOWN)
        updated = {"topic": "Orders", "readQueues": 9}
        assert await send("PUT", "/topics/Orders", updated) == (200, updated | {"allQueues": []})
        assert await send("GET", "/topics?prefix=Or&limit=1") == (200, {"topics": ["Orders"]})
        assert await send("GET", "/text") == (200, "text")
        assert await send("DELETE", "/text") == (202, {"status": "ok"})


def test_the_description_has_summaries_shapes_bodies_and_refusals():
    document = openapi.document(OTHER, endpoints_of(TopicViews(), TextViews()))
    assert list(document["paths"]) == ["/topics", "/topics/{topic}", "/text", "/v1/openapi.json"]
    create, listing = document["paths"]["/topics"]["post"], document["paths"]["/topics"]["get"]
    assert document["paths"]["/topics/{topic}"]["get"]["summary"] == "Queues of a topic."
    assert create["requestBody"]["content"]["application/json"]["schema"]["$ref"].endswith("/NewTopic")
    assert create["responses"]["201"]["content"]["application/json"]["schema"]["$ref"].endswith("/TopicView")
    assert {"400", "401", "403", "408", "409", "413", "415", "422", "500"} <= set(create["responses"])
    assert [parameter["name"] for parameter in listing["parameters"]] == ["prefix", "limit", "cursor"]


@pytest.mark.parametrize(
    "endpoint",
    [*NAMESRV_ENDPOINTS, *CONTROLLER_ENDPOINTS, *OFFSET_MANAGER_ENDPOINTS],
    ids=lambda endpoint: f"{endpoint.method} {endpoint.path}",
)
def test_each_declaration_of_a_server_holds(endpoint):
    assert sorted(re.findall(r"{(\w+)}", endpoint.path)) == sorted(part.name for part in endpoint.parts)
    assert not (endpoint.changes and (endpoint.waits or endpoint.streams)), "no change is cancelled half-way"
    assert endpoint.changes or endpoint.body is None, "a GET has no body"
    shapes = msgspec.json.schema_components([endpoint.body])[1] if endpoint.body else {}
    lenient = [name for name, each in shapes.items() if each.get("additionalProperties", True) and "properties" in each]
    assert not lenient, "bodies must be declared with forbid_unknown_fields=True"
