"""What the console passes on to other servers: real ones that answer as they like."""

import asyncio
import contextlib
import io

import pytest
from aiohttp import web
from fakes.admin_token import ADMIN_TOKEN
from fakes.console_site import READ_TOKEN, ConsoleSite, a_peer

from serving.http.console import relay


class Recorder:
    """Answers `{}`, and keeps what came."""

    def __init__(self, **answer):
        self.requests = []
        self.answer = {"text": "{}", "content_type": "application/json"} | answer

    async def __call__(self, request):
        self.requests.append((request.method, request.raw_path, dict(request.headers), await request.text()))
        return web.Response(**self.answer)


@contextlib.asynccontextmanager
async def a_console(handler, **settings):
    async with a_peer(handler) as url, ConsoleSite(console_peers=f"controller={url}", **settings) as site:
        yield site


CONTROLLER = "/ui/peer/controller/0/v1"


async def test_path_and_query_arrive_as_they_were_sent():
    recorder = Recorder()
    async with a_console(recorder) as site:
        assert await site.get(f"{CONTROLLER}/broker-sets/%25RETRY%25a%2Fb?limit=5&cursor=%3D%26") == (200, {})
    ((method, path, headers, _),) = recorder.requests
    assert (method, path) == ("GET", "/v1/broker-sets/%25RETRY%25a%2Fb?limit=5&cursor=%3D%26")
    assert not {"Authorization", "Cookie", "Origin", "Referer", "X-Own"} & headers.keys()


async def test_a_read_carries_no_token_even_with_a_session():
    recorder = Recorder()
    async with a_console(recorder) as site:
        await site.sign_in(ADMIN_TOKEN)
        await site.request("GET", f"{CONTROLLER}/x", headers={"Authorization": "Bearer of-the-user", "X-Own": "1"})
    ((_, _, headers, _),) = recorder.requests
    assert not {"Authorization", "Cookie", "X-Own"} & headers.keys()


async def test_a_change_carries_the_token_of_its_session_and_is_logged():
    recorder = Recorder(status=201)
    async with a_console(recorder) as site:
        await site.sign_in(ADMIN_TOKEN)
        status, _, _ = await site.change("POST", f"{CONTROLLER}/scaling/operations", json={"topic": "T"})
        assert status == 201
        (line,) = site.events("http_admin_request_accepted")
        assert (line["method"], line["path"], line["status"]) == ("POST", f"{CONTROLLER}/scaling/operations", 201)
    ((method, path, headers, body),) = recorder.requests
    assert (method, path, body) == ("POST", "/v1/scaling/operations", '{"topic": "T"}')
    assert headers["Authorization"] == f"Bearer {ADMIN_TOKEN}"
    assert "Cookie" not in headers


async def test_a_change_without_the_admin_token_reaches_no_server():
    recorder = Recorder()
    async with a_console(recorder, read_token=READ_TOKEN) as site:
        await site.sign_in(READ_TOKEN)
        for method in ("POST", "PUT", "DELETE"):
            assert (await site.change(method, f"{CONTROLLER}/x"))[0] == 401
    assert recorder.requests == []


@pytest.mark.parametrize(
    "path",
    [
        "/ui/peer/controller/0/metrics",
        "/ui/peer/controller/0/v1",
        "/ui/peer/controller/0/v1/%2e%2e/metrics",
        "/ui/peer/controller/0/v1/..%2Fmetrics",
        "/ui/peer/controller/0/v1/..%5cmetrics",
        "/ui/peer/controller/0/v1%2f..%2fmetrics/x",
        "/ui/peer/controller/0/v2/x",
        "/ui/peer/controller/1/v1/x",
        "/ui/peer/controller/99999999999/v1/x",
        "/ui/peer/etcd/0/v1/x",
        "/ui/peer/controller/0/v1/@evil.example.org/../../x",
    ],
)
async def test_no_path_leads_out_of_the_api_of_a_named_server(path):
    recorder = Recorder()
    async with a_console(recorder) as site:
        assert (await site.get(path))[0] in {400, 404}
    assert recorder.requests == []


async def test_redirects_are_not_followed():
    recorder = Recorder()
    async with a_peer(recorder) as elsewhere:

        async def redirect(_):
            raise web.HTTPFound(f"{elsewhere}/v1/x")

        async with a_console(redirect) as site:
            status, body = await site.get(f"{CONTROLLER}/x")
    assert (status, body["error"]["code"]) == (502, "bad_gateway")
    assert recorder.requests == []


async def test_pages_and_scripts_of_other_servers_are_not_passed_on():
    async with a_console(Recorder(text="<script>alert(1)</script>", content_type="text/html")) as site:
        status, headers, body = await site.request("GET", f"{CONTROLLER}/x")
    assert (status, headers["Content-Type"]) == (502, "application/json")
    assert "alert" not in str(body)


async def test_headers_of_other_servers_stop_at_the_relay():
    answer = {"Set-Cookie": "a=b", "Access-Control-Allow-Origin": "*", "Retry-After": "7", "Link": "</x>"}
    async with a_console(Recorder(headers=answer, status=503)) as site:
        status, headers, _ = await site.request("GET", f"{CONTROLLER}/x")
    assert (status, headers["Retry-After"]) == (503, "7")
    assert not {"Set-Cookie", "Access-Control-Allow-Origin", "Link"} & headers.keys()
    assert headers["Content-Security-Policy"].startswith("default-src 'none'")


@pytest.mark.parametrize("has_length", [True, False])
async def test_answer_that_is_too_long_is_refused(monkeypatch, has_length):
    monkeypatch.setattr(relay, "ANSWER_BYTES_MAX", 1000)

    async def long(request):
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        if has_length:
            response.content_length = 2000
        await response.prepare(request)
        with contextlib.suppress(ConnectionError):
            await response.write(b"1" * 2000)
        return response

    async with a_console(long) as site:
        status, body = await site.get(f"{CONTROLLER}/x")
    assert status == 502
    assert "longer than 1000 bytes" in body["error"]["message"]


async def test_body_that_is_too_long_or_no_json_is_refused():
    recorder = Recorder()
    async with a_console(recorder) as site:
        await site.sign_in(ADMIN_TOKEN)
        assert (await site.change("POST", f"{CONTROLLER}/x", data=b"text"))[0] == 415
        longer = io.BytesIO(b"1" * (relay.BODY_BYTES_MAX + 1))
        json = {"Content-Type": "application/json"}
        assert (await site.change("POST", f"{CONTROLLER}/x", data=longer, headers=json))[0] == 413
    assert recorder.requests == []


async def test_server_that_hangs_is_answered_for_in_time(monkeypatch):
    monkeypatch.setattr(relay, "ANSWER_S", 0.2)

    async def hang(_):
        await asyncio.sleep(60)

    async with a_console(hang) as site:
        status, body = await asyncio.wait_for(site.get(f"{CONTROLLER}/x"), 5)
    assert (status, body["error"]["code"]) == (504, "gateway_timeout")


async def test_change_that_takes_longer_than_a_read_may_is_waited_for(monkeypatch):
    monkeypatch.setattr(relay, "ANSWER_S", 0.2)

    async def work(_):
        await asyncio.sleep(0.5)
        return web.json_response({"done": True})

    async with a_console(work) as site:
        assert (await site.get(f"{CONTROLLER}/x"))[0] == 504
        await site.sign_in(ADMIN_TOKEN)
        status, _, body = await site.change("POST", f"{CONTROLLER}/x", json={})
    assert (status, body) == (200, {"done": True})


@pytest.mark.parametrize("path", ["history/route?topic=a", "history/broker?broker=a", "offsets/lag?group=g"])
async def test_read_of_the_past_or_of_a_lag_is_waited_for_longer_than_others(monkeypatch, path):
    monkeypatch.setattr(relay, "ANSWER_S", 0.2)

    async def work(_):
        await asyncio.sleep(0.5)
        return web.json_response({})

    async with a_console(work) as site:
        assert await site.get(f"{CONTROLLER}/{path}") == (200, {})
        assert (await site.get(f"{CONTROLLER}/offsets/groups"))[0] == 504


async def test_slow_reads_at_one_time_are_limited_and_take_no_place_of_others(monkeypatch):
    monkeypatch.setattr(relay, "SLOW_READS_MAX", 2)
    begun, release = asyncio.Semaphore(0), asyncio.Event()

    async def wait(request):
        if "history" in request.path:
            begun.release()
            await release.wait()
        return web.json_response({})

    async with a_console(wait) as site:
        past = f"{CONTROLLER}/history/route?topic=a"
        waiting = [asyncio.create_task(site.get(past)) for _ in range(2)]
        for _ in waiting:
            await begun.acquire()
        status, body = await site.get(past)
        assert status == 429
        assert "passes 2 reads of the history" in body["error"]["message"]
        assert (await site.get(f"{CONTROLLER}/x"))[0] == 200
        release.set()
        assert [status for status, _ in await asyncio.gather(*waiting)] == [200, 200]


async def test_requests_at_one_time_are_limited(monkeypatch):
    monkeypatch.setattr(relay, "REQUESTS_MAX", 2)
    begun, release = asyncio.Semaphore(0), asyncio.Event()

    async def wait(_):
        begun.release()
        await release.wait()
        return web.json_response({})

    async with a_console(wait) as site:
        waiting = [asyncio.create_task(site.get(f"{CONTROLLER}/x")) for _ in range(2)]
        for _ in waiting:
            await begun.acquire()
        assert (await site.get(f"{CONTROLLER}/x"))[0] == 429
        release.set()
        assert [status for status, _ in await asyncio.gather(*waiting)] == [200, 200]
        assert (await site.get(f"{CONTROLLER}/x"))[0] == 200


async def test_events_are_passed_on_as_they_come_and_end_with_their_reader():
    ended = asyncio.Event()
    seen = []

    async def events(request):
        seen.append(request.headers.get("Last-Event-ID"))
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        try:
            await response.write(b"data: 1\n\n")
            while True:
                await asyncio.sleep(0.05)
                await response.write(b": still there\n\n")
        finally:
            ended.set()

    async with a_console(events) as site:
        headers = {"Accept": "text/event-stream", "Last-Event-ID": "41"}
        async with site.session.get(f"{site.url}{CONTROLLER}/routes/watch", headers=headers) as answer:
            assert answer.content_type == "text/event-stream"
            assert await answer.content.readuntil(b"\n\n") == b"data: 1\n\n"
            assert not ended.is_set()
        await asyncio.wait_for(ended.wait(), 5)
    assert seen == ["41"]


# Which servers there are


async def test_servers_are_listed_with_their_reachability():
    async with a_peer(Recorder()) as url, a_peer(Recorder(status=503)) as unwell:
        peers = f"controller={url};offsets={unwell};namesrv=http://127.0.0.1:1"
        async with ConsoleSite(console_peers=peers) as site:
            status, body = await site.get("/ui/peers")
    assert status == 200
    found = {(each["kind"], each["number"]): each for each in body["items"]}
    assert list(found) == [("namesrv", 0), ("controller", 0), ("offsets", 0), ("namesrv", 1)]
    assert found["namesrv", 0]["isSelf"]
    assert (found["controller", 0]["reachable"], found["controller", 0]["problem"]) == (True, "")
    assert found["offsets", 0]["problem"] == "It answers 503 at /livez."
    assert not found["namesrv", 1]["reachable"]
    assert found["namesrv", 1]["roundTripMs"] is None


async def test_server_that_is_not_reached_is_said_to_be():
    async with ConsoleSite(console_peers="controller=http://127.0.0.1:1") as site:
        status, body = await site.get(f"{CONTROLLER}/controllers")
    assert (status, body["error"]["code"]) == (502, "bad_gateway")
    assert "127.0.0.1:1" in body["error"]["message"]
