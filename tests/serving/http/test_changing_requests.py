"""HTTP requests that change something, at a real server with endpoints of its own: who may send them, which bodies."""

import asyncio
import contextlib
import json
import re

import msgspec
import pytest
from fakes.admin_token import ADMIN_TOKEN
from fakes.http_site import HttpSite
from other_server import OTHER
from server_paths import CONTROLLER_ENDPOINTS, NAMESRV_ENDPOINTS, OFFSET_MANAGER_ENDPOINTS

from serving.http import openapi, request_bodies
from serving.http.admin_access import FAILURES_MAX
from serving.http.paths import BODY_BYTES_MAX, Parameter, delete, endpoints_of, get, post, put
from serving.http.views import NotFound, StateConflict, UnprocessableBody, ViewRequest


class Counts(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    read_queues: int
    write_queues: int


class NewTopic(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    topic: str
    counts: Counts


class Topic(msgspec.Struct, frozen=True, rename="camel"):
    topic: str
    read_queues: int


_TOPIC = (Parameter("topic", "Name of the topic."),)


class Topics:
    def __init__(self):
        self.read_queues = {}

    @get("/topics/{topic}", parts=_TOPIC, refusals=(404,))
    def of(self, request: ViewRequest) -> Topic:
        if (topic := request.path["topic"]) not in self.read_queues:
            raise NotFound(f"There is no topic {topic}.")
        return Topic(topic, self.read_queues[topic])

    @post("/topics", status=201, refusals=(409,))
    async def create(self, body: NewTopic) -> Topic:
        if body.topic in self.read_queues:
            raise StateConflict(f"There is a topic {body.topic} already.")
        if body.counts.write_queues > body.counts.read_queues:
            raise UnprocessableBody("counts.writeQueues must be at most counts.readQueues.")
        self.read_queues[body.topic] = body.counts.read_queues
        return Topic(body.topic, body.counts.read_queues)

    @put("/topics/{topic}", parts=_TOPIC, body_bytes_max=100, refusals=(404,))
    def update(self, request: ViewRequest, body: Counts) -> Topic:
        self.of(request)
        self.read_queues[request.path["topic"]] = body.read_queues
        return self.of(request)

    @delete("/topics/{topic}", parts=_TOPIC, refusals=(404,), status=202)
    def delete(self, request: ViewRequest) -> Topic:
        deleted = self.of(request)
        del self.read_queues[deleted.topic]
        return deleted

    @post("/failing")
    def fail(self) -> Topic:
        raise KeyError("inner detail")


TABLE = endpoints_of(Topics())

ORDERS = {"topic": "Orders", "counts": {"readQueues": 8, "writeQueues": 4}}


class ChangingServer(HttpSite):
    """It requests with the token, unless it is told otherwise."""

    def __init__(self, token=ADMIN_TOKEN, table=None):
        super().__init__(OTHER, Topics(), token=token)
        self.table = table
        (self.topics,) = self.views

    async def request(self, method, path, *, token=ADMIN_TOKEN, **kwargs):
        return await super().request(method, path, token=token, **kwargs)

    async def sentence(self, method, path, **kwargs):
        """Return status and sentence of a refusal."""
        status, _, body = await self.request(method, path, **kwargs)
        return status, body["error"]["message"]

    def events(self, name):
        return [line for line in self.lines.decoded() if line["event"] == name]


@pytest.fixture
async def server():
    async with ChangingServer() as server:
        yield server


# Methods


async def test_methods_of_one_path_are_answered_each_by_its_endpoint(server):
    status, _, body = await server.request("POST", "/topics", json=ORDERS)
    assert (status, body) == (201, {"topic": "Orders", "readQueues": 8})
    status, _, body = await server.request("PUT", "/topics/Orders", json={"readQueues": 16, "writeQueues": 4})
    assert (status, body) == (200, {"topic": "Orders", "readQueues": 16})
    assert (await server.request("GET", "/topics/Orders", token=None))[::2] == (200, body)
    assert (await server.request("HEAD", "/topics/Orders", token=None))[0] == 200
    assert (await server.request("DELETE", "/topics/Orders"))[::2] == (202, body)
    assert await server.sentence("DELETE", "/topics/Orders") == (404, "There is no topic Orders.")


@pytest.mark.parametrize(
    ("method", "path", "allowed", "sentence"),
    [
        ("POST", "/topics/Orders", "DELETE, GET, HEAD, PUT", "/topics/Orders takes DELETE, GET, HEAD and PUT only."),
        ("GET", "/topics", "POST", "/topics takes POST only."),
        ("HEAD", "/topics", "POST", None),
        ("PATCH", "/topics", "POST", "/topics takes POST only."),
    ],
)
async def test_other_methods_are_refused_with_those_that_the_path_has(server, method, path, allowed, sentence):
    status, headers, body = await server.request(method, path)
    assert (status, headers["Allow"]) == (405, allowed)
    assert body is None or body["error"]["message"] == sentence


async def test_refusals_of_a_view_come_with_their_status(server):
    await server.request("POST", "/topics", json=ORDERS)
    assert await server.sentence("POST", "/topics", json=ORDERS) == (409, "There is a topic Orders already.")
    more = {"topic": "T", "counts": {"readQueues": 1, "writeQueues": 2}}
    assert await server.sentence("POST", "/topics", json=more) == (
        422,
        "counts.writeQueues must be at most counts.readQueues.",
    )


async def test_changing_requests_are_counted_by_method_and_path(server):
    await server.request("POST", "/topics", json=ORDERS)
    await server.request("PATCH", "/topics")
    await server.request("OPTIONS", "/topics")
    assert {labels: count for labels, count in server.counters.http_requests.counts().items() if count} == {
        ("POST", "/topics", "2xx"): 1,
        ("other", "unmatched", "4xx"): 2,
    }


# The token


@pytest.mark.parametrize(
    "authorization",
    [
        None,
        "Bearer",
        "Bearer ",
        f"Basic {ADMIN_TOKEN}",
        ADMIN_TOKEN,
        f"Bearer {ADMIN_TOKEN}x",
        f"Bearer {ADMIN_TOKEN[:-1]}",
        f"Bearer {ADMIN_TOKEN.lower()}",
        f"Bearer {ADMIN_TOKEN} {ADMIN_TOKEN}",
        "Bearer é\udcff",
    ],
)
async def test_request_without_the_token_changes_nothing(server, authorization):
    headers = {} if authorization is None else {"Authorization": authorization}
    status, answered, body = await server.request("POST", "/topics", token=None, headers=headers, json=ORDERS)
    assert (status, answered["WWW-Authenticate"], body["error"]["code"]) == (401, "Bearer", "unauthorized")
    assert "httpAdminTokenFile" in body["error"]["message"]
    assert ADMIN_TOKEN not in body["error"]["message"]
    assert server.topics.read_queues == {}


async def test_two_tokens_are_none(server):
    pairs = [("Authorization", f"Bearer {ADMIN_TOKEN}"), ("Authorization", "Bearer another")]
    async with server.session.post("/topics", headers=pairs, json=ORDERS) as response:
        assert response.status == 401


@pytest.mark.parametrize("scheme", ["bearer", "BEARER", " Bearer "])
async def test_scheme_of_the_token_has_no_case(server, scheme):
    headers = {"Authorization": f"{scheme} {ADMIN_TOKEN}"}
    assert (await server.request("POST", "/topics", token=None, headers=headers, json=ORDERS))[0] == 201


async def test_without_a_token_of_its_own_a_server_changes_nothing_and_names_the_option():
    async with ChangingServer(token="") as server:
        for token in (None, "", ADMIN_TOKEN):
            status, headers, body = await server.request("POST", "/topics", token=token, json=ORDERS)
            assert (status, body["error"]["code"], "WWW-Authenticate" in headers) == (403, "forbidden", False)
            assert "set httpAdminTokenFile" in body["error"]["message"]
        assert server.topics.read_queues == {}
        assert (await server.request("GET", "/topics/Orders", token=None))[0] == 404


async def test_another_token_counts_at_once_and_the_one_before_no_more(server):
    server.token.replace("another-token-of-1")
    assert (await server.request("POST", "/topics", json=ORDERS))[0] == 401
    assert (await server.request("POST", "/topics", token="another-token-of-1", json=ORDERS))[0] == 201


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "https://{host}.evil.example", "{host}"])
async def test_page_of_another_site_changes_nothing_even_with_the_token(server, origin):
    host = f"127.0.0.1:{server.server.port}"
    status, _, body = await server.request("POST", "/topics", headers={"Origin": origin.format(host=host)}, json=ORDERS)
    assert (status, body["error"]["code"]) == (403, "forbidden")
    assert "Origin" in body["error"]["message"]


@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_page_of_the_same_host_changes_something_with_the_token_only(server, scheme):
    headers = {"Origin": f"{scheme}://127.0.0.1:{server.server.port}"}
    assert (await server.request("POST", "/topics", token=None, headers=headers, json=ORDERS))[0] == 401
    assert (await server.request("POST", "/topics", headers=headers, json=ORDERS))[0] == 201


async def test_denied_requests_are_logged_and_counted_without_what_they_showed(server):
    await server.request("POST", "/topics", token=None, json=ORDERS)
    await server.request("PUT", "/topics/Orders", token="wrong-token-that-is-secret", json={})
    await server.request("POST", "/topics", headers={"Origin": "null"}, json=ORDERS)
    lines = server.events("http_admin_denied")
    assert [(line["level"], line["method"], line["path"], line["reason"]) for line in lines] == [
        ("warning", "POST", "/topics", "no_token"),
        ("warning", "PUT", "/topics/Orders", "wrong_token"),
        ("warning", "POST", "/topics", "other_origin"),
    ]
    assert all(line["peer"].startswith("127.0.0.1:") for line in lines)
    assert "wrong-token" not in str(server.lines)
    assert server.counters.http_admin_requests_denied.counts() == {
        ("off",): 0,
        ("other_origin",): 1,
        ("no_token",): 1,
        ("wrong_token",): 1,
    }


async def test_lines_about_denied_requests_of_one_peer_are_limited(server):
    for _ in range(20):
        await server.request("POST", "/topics", json=ORDERS, headers={"Origin": "http://other.example"})
    assert len(server.events("http_admin_denied")) == 5
    assert server.counters.http_admin_requests_denied.counts()[("other_origin",)] == 20


async def test_wrong_tokens_are_soon_not_looked_at_any_more(server):
    statuses = []
    for number in range(20):
        statuses.append((await server.request("POST", "/topics", token=f"guess-{number}", json=ORDERS))[0])
        # Neither a request without a token nor one of another site gives a try back.
        await server.request("POST", "/topics", token=None, json=ORDERS)
        await server.request("POST", "/topics", token=None, headers={"Origin": "null"}, json=ORDERS)
    assert statuses == [401] * FAILURES_MAX + [429] * (20 - FAILURES_MAX)
    assert (await server.request("POST", "/topics", json=ORDERS))[0] == 429
    assert server.counters.http_admin_requests_denied.counts()[("wrong_token",)] == FAILURES_MAX
    assert len(server.events("token_tries_limited")) == 5


async def test_accepted_requests_are_audited_whatever_the_log_level_is(server):
    server.logs.set_level("error")
    await server.request("POST", "/topics", json=ORDERS)
    await server.request("POST", "/topics", json=ORDERS)
    await server.request("GET", "/topics/Orders")
    (line,) = server.events("http_admin_request_accepted")
    assert (line["audit"], line["method"], line["path"], line["status"]) == (True, "POST", "/topics", 201)
    assert line["peer"].startswith("127.0.0.1:")
    assert ADMIN_TOKEN not in str(server.lines)


async def test_fault_of_a_changing_request_is_logged_as_one_and_not_audited(server):
    status, _, body = await server.request("POST", "/failing")
    assert (status, body["error"]["code"]) == (500, "internal")
    assert [line["event"] for line in server.lines.decoded()] == ["http_request_failed"]


# Bodies


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"nme": 1}, "Object contains unknown field `nme`"),
        ({"counts": {"readQueues": 1, "writeQueues": 1, "perm": 6}}, "unknown field `perm` - at `$.counts`"),
        ({"counts": {"readQueues": "8", "writeQueues": 1}}, "Expected `int`, got `str` - at `$.counts.readQueues`"),
        ({"counts": {"readQueues": 8.5, "writeQueues": 1}}, "Expected `int`, got `float` - at `$.counts.readQueues`"),
        ({"counts": {"readQueues": 8}}, "missing required field `writeQueues` - at `$.counts`"),
        ({"topic": None}, "Expected `str`, got `null` - at `$.topic`"),
    ],
)
async def test_field_that_does_not_fit_is_named_with_its_path(server, change, problem):
    status, sentence = await server.sentence("POST", "/topics", json=ORDERS | change)
    assert status == 422
    assert problem in sentence


@pytest.mark.parametrize("body", [b"", b"{", b'{"topic"', b'"\xff"', b"{'a': 1}", b"NaN", b"[" * 60_000])
async def test_body_that_is_no_json_is_refused(server, body):
    headers = {"Content-Type": "application/json"}
    status, sentence = await server.sentence("POST", "/topics", headers=headers, data=body)
    assert status in (400, 422)
    assert sentence.endswith(".")
    assert server.topics.read_queues == {}


async def test_name_of_an_unknown_field_is_shortened(server):
    _, sentence = await server.sentence("POST", "/topics", json=ORDERS | {"x" * 5000: 1})
    assert len(sentence) < 300


@pytest.mark.parametrize(
    "headers",
    [
        {"Content-Type": "text/plain"},
        {"Content-Type": "application/x-www-form-urlencoded"},
        {"Content-Type": "application/json", "Content-Encoding": "gzip"},
    ],
)
async def test_body_of_another_type_is_refused(server, headers):
    status, sentence = await server.sentence("POST", "/topics", headers=headers, data=json.dumps(ORDERS))
    assert (status, sentence.endswith(".")) == (415, True)


async def test_body_without_a_type_is_refused(server):
    status, sentence = await server.sentence(
        "POST", "/topics", skip_auto_headers=["Content-Type"], data=json.dumps(ORDERS).encode()
    )
    assert (status, sentence) == (415, "Content-Type must be application/json.")


async def test_type_may_name_its_charset(server):
    headers = {"Content-Type": "application/json; charset=utf-8"}
    assert (await server.request("POST", "/topics", headers=headers, data=json.dumps(ORDERS)))[0] == 201


async def chunked(*parts):
    for part in parts:
        yield part


def padded(length):
    text = json.dumps(ORDERS).encode()
    return text + b" " * (length - len(text))


@pytest.mark.parametrize("wrap", [bytes, lambda body: chunked(body[:9], body[9:])], ids=["whole", "chunked"])
async def test_body_beyond_the_limit_is_refused(server, wrap):
    headers = {"Content-Type": "application/json"}
    status, sentence = await server.sentence("POST", "/topics", headers=headers, data=wrap(padded(BODY_BYTES_MAX + 1)))
    assert (status, sentence) == (413, "The body is longer than 65536 bytes.")
    assert (await server.request("POST", "/topics", headers=headers, data=wrap(padded(BODY_BYTES_MAX))))[0] == 201


async def test_endpoint_may_have_a_limit_of_its_own(server):
    body = {"readQueues": 1, "writeQueues": 1}
    server.topics.read_queues["Orders"] = 8
    headers = {"Content-Type": "application/json"}
    status, sentence = await server.sentence("PUT", "/topics/Orders", headers=headers, data=json.dumps(body).ljust(101))
    assert (status, sentence) == (413, "The body is longer than 100 bytes.")
    assert (await server.request("PUT", "/topics/Orders", headers=headers, data=json.dumps(body).ljust(100)))[0] == 200


async def test_body_that_does_not_come_is_refused_after_a_while(server, monkeypatch):
    monkeypatch.setattr(request_bodies, "BODY_S", 0.1)
    reader, writer = await asyncio.open_connection("127.0.0.1", server.server.port)
    head = f"POST /topics HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer {ADMIN_TOKEN}\r\n"
    writer.write(head.encode() + b"Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{")
    answer = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 30)
    assert answer.startswith(b"HTTP/1.1 408 ")
    writer.close()
    with contextlib.suppress(ConnectionError):
        await writer.wait_closed()


async def test_endpoint_without_a_body_refuses_one(server):
    server.topics.read_queues["Orders"] = 8
    assert await server.sentence("DELETE", "/topics/Orders", json={}) == (400, "DELETE /topics/{topic} takes no body.")


async def test_parameter_that_the_endpoint_does_not_take_is_refused(server):
    status, sentence = await server.sentence("POST", "/topics?dryRun=true", json=ORDERS)
    assert (status, sentence) == (400, "/topics has no parameter dryRun; it takes none.")


async def test_body_of_a_denied_request_is_not_read(server):
    status, _, _ = await server.request("POST", "/topics", token=None, data=b"x" * (BODY_BYTES_MAX + 1))
    assert status == 401


# Declarations


@pytest.mark.parametrize(
    "table",
    [
        TABLE,
        NAMESRV_ENDPOINTS,
        CONTROLLER_ENDPOINTS,
        OFFSET_MANAGER_ENDPOINTS,
    ],
    ids=["test", "namesrv", "controller", "offset manager"],
)
@pytest.mark.parametrize("token", [ADMIN_TOKEN, ""], ids=["on", "off"])
async def test_no_endpoint_of_any_server_changes_something_without_the_token(table, token):
    async with ChangingServer(token, table) as server:
        for path in {each.path for each in table}:
            declared = {each.method for each in table if each.path == path}
            for method in ("POST", "PUT", "DELETE", "PATCH"):
                status, _, _ = await server.request(method, re.sub(r"\{\w+\}", "x", path), token=None, json={})
                assert status == ((401 if token else 403) if method in declared else 405), (method, path)


# OpenAPI


async def described(server):
    return (await server.request("GET", openapi.PATH, token=None))[2]


async def test_methods_bodies_security_and_refusals_are_described(server):
    document = await described(server)
    assert set(document["paths"]["/topics/{topic}"]) == {"get", "put", "delete"}
    create = document["paths"]["/topics"]["post"]
    assert create["operationId"] == "post_topics"
    assert create["security"] == [{"adminToken": []}]
    assert document["components"]["securitySchemes"]["adminToken"]["scheme"] == "bearer"
    assert create["requestBody"]["required"]
    reference = create["requestBody"]["content"]["application/json"]["schema"]["$ref"]
    shape = document["components"]["schemas"][reference.rpartition("/")[2]]
    assert (shape["required"], shape["additionalProperties"]) == (["topic", "counts"], False)
    assert set(create["responses"]) == {"201", "400", "401", "403", "408", "409", "413", "415", "422", "500"}
    delete = document["paths"]["/topics/{topic}"]["delete"]
    assert set(delete["responses"]) == {"202", "400", "401", "403", "404", "500"}
    assert "requestBody" not in delete
    assert "405" in document["info"]["description"]


async def test_operations_that_read_need_no_security(server):
    assert "security" not in (await described(server))["paths"]["/topics/{topic}"]["get"]


async def test_operations_of_one_path_have_names_of_their_own(server):
    operations = [each for path in (await described(server))["paths"].values() for each in path.values()]
    assert len({each["operationId"] for each in operations}) == len(operations) == len(TABLE) + 1


async def test_server_that_changes_nothing_describes_no_token():
    async with ChangingServer(table=TABLE[:1]) as server:
        document = await described(server)
    assert "securitySchemes" not in document["components"]
    assert document["info"]["description"].startswith("Read-only views")
