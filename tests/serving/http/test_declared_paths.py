"""Paths that are declared on methods: their table, their description, and what a real server answers with them."""

import socket
from dataclasses import dataclass, field

import aiohttp
import msgspec
import pytest
from fakes.admin_token import ADMIN_TOKEN
from fakes.clock import FakeClock
from fakes.lines import Lines
from other_server import OTHER

from serving.http import openapi
from serving.http.admin_access import AdminToken, HttpTokens
from serving.http.endpoints import Parameter
from serving.http.paths import delete, endpoints_of, get, post, put
from serving.http.server import make_app, start_http
from serving.http.views import HealthAnswer, NotFound, StateConflict, ViewRequest
from serving.logging.logs import Logs, json_line
from serving.metrics.server_counters import ServerCounters

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


class Server:
    def __init__(self, *views):
        self.endpoints = endpoints_of(*views)
        logs = Logs(Lines(), json_line(), FakeClock(), {})
        tokens = HttpTokens(AdminToken(ADMIN_TOKEN))
        self.app = make_app(OTHER, self.endpoints, ServerCounters(), logs, tokens)

    async def __aenter__(self):
        self.server = await start_http(self.app, socket.create_server(("127.0.0.1", 0)))
        self.session = aiohttp.ClientSession(f"http://127.0.0.1:{self.server.port}")
        return self

    async def __aexit__(self, *_):
        await self.session.close()
        await self.server.stop()

    async def send(self, method, path, body=None, *, token=ADMIN_TOKEN):
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        async with self.session.request(method, path, json=body, headers=headers) as response:
            is_json = response.content_type == "application/json"
            return response.status, await (response.json() if is_json else response.text())


ORDERS = {"topic": "Orders", "readQueues": 2}
SHOWN = ORDERS | {"allQueues": [{"queueId": 0}, {"queueId": 1}]}


async def test_inner_values_are_answered_in_the_declared_shape_by_sync_and_async_methods():
    async with Server(TopicViews(), TextViews()) as server:
        assert await server.send("POST", "/topics", ORDERS) == (201, SHOWN)
        assert await server.send("GET", "/topics/Orders") == (200, SHOWN)
        updated = {"topic": "Orders", "readQueues": 9}
        assert await server.send("PUT", "/topics/Orders", updated) == (200, updated | {"allQueues": []})
        assert await server.send("GET", "/topics?prefix=Or&limit=1") == (200, {"topics": ["Orders"]})
        assert await server.send("GET", "/text") == (200, "text")
        assert await server.send("DELETE", "/text") == (202, {"status": "ok"})


@pytest.mark.parametrize(
    ("method", "path", "body", "token", "status", "code"),
    [
        ("GET", "/topics/None", None, None, 404, "not_found"),
        ("GET", "/topics/Orders?limit=1", None, None, 400, "bad_request"),
        ("POST", "/topics", ORDERS, None, 401, "unauthorized"),
        ("POST", "/topics", {"topic": "Orders"}, ADMIN_TOKEN, 422, "unprocessable"),
        ("POST", "/topics", ORDERS | {"more": 1}, ADMIN_TOKEN, 422, "unprocessable"),
        ("POST", "/topics", ORDERS | {"topic": "x" * 100}, ADMIN_TOKEN, 413, "too_large"),
        ("DELETE", "/topics", None, ADMIN_TOKEN, 405, "method_not_allowed"),
    ],
)
async def test_what_does_not_fit_is_refused_as_the_table_says(method, path, body, token, status, code):
    async with Server(TopicViews(), TextViews()) as server:
        answered, error = await server.send(method, path, body, token=token)
        assert (answered, error["error"]["code"]) == (status, code)


async def test_a_refusal_of_a_method_is_its_answer():
    async with Server(TopicViews()) as server:
        await server.send("POST", "/topics", ORDERS)
        assert (await server.send("POST", "/topics", ORDERS))[0] == 409


def test_the_description_has_summaries_shapes_bodies_and_refusals():
    document = openapi.document(OTHER, endpoints_of(TopicViews(), TextViews()))
    assert list(document["paths"]) == ["/topics", "/topics/{topic}", "/text", "/v1/openapi.json"]
    create, listing = document["paths"]["/topics"]["post"], document["paths"]["/topics"]["get"]
    assert document["paths"]["/topics/{topic}"]["get"]["summary"] == "Queues of a topic."
    assert create["requestBody"]["content"]["application/json"]["schema"]["$ref"].endswith("/NewTopic")
    assert create["responses"]["201"]["content"]["application/json"]["schema"]["$ref"].endswith("/TopicView")
    assert {"400", "401", "403", "408", "409", "413", "415", "422", "500"} <= set(create["responses"])
    assert [parameter["name"] for parameter in listing["parameters"]] == ["prefix", "limit", "cursor"]


class Unexplained:
    @get("/topics/{topic}")
    def topic(self) -> TopicView:
        """A topic."""


class Odd:
    @get("/topics")
    def topics(self, prefix: str) -> TopicListing:
        """Topics."""


def test_a_declaration_that_cannot_hold_is_refused_when_the_table_is_made():
    with pytest.raises(ValueError, match=r"/topics/{topic} has other parts"):
        endpoints_of(Unexplained())
    with pytest.raises(TypeError, match=r"Odd.topics takes prefix"):
        endpoints_of(Odd())
