"""Requests to the console that no page of its own sends: raw bytes at a real HTTP side."""

import asyncio
import contextlib
import json
from collections import Counter

import pytest
from fakes.admin_token import ADMIN_TOKEN
from fakes.console_site import ELSEWHERE, READ_TOKEN, ConsoleSite, a_peer

from serving.http.admin_access import FAILURES_MAX
from serving.http.console.relay import STREAMS_MAX
from serving.http.console.sessions import SESSIONS_MAX

WAIT_S = 30
FRAMES = "frame-ancestors 'none'"


@pytest.fixture
async def local():
    async with ConsoleSite() as site:
        yield site


@pytest.fixture
async def public():
    async with ConsoleSite(read_token=READ_TOKEN, http_bind_address=ELSEWHERE) as site:
        yield site


async def sent(site, text):
    """Send bytes and return status, headers and body of the answer."""
    reader, writer = await asyncio.open_connection("127.0.0.1", site.server.port)
    try:
        writer.write(text if isinstance(text, bytes) else text.encode("latin-1"))
        async with asyncio.timeout(WAIT_S):
            head, _, body = (await reader.read()).partition(b"\r\n\r\n")
    finally:
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()
    first, *lines = head.decode("latin-1").split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    return int(first.split()[1]), headers, body


def request(method, target, *lines, version="HTTP/1.1", body=""):
    lines = [*lines, "Connection: close", *([f"Content-Length: {len(body)}"] if body else [])]
    return f"{method} {target} {version}\r\n" + "".join(f"{line}\r\n" for line in lines) + "\r\n" + body


# Which host


@pytest.mark.parametrize("version", ["HTTP/1.0", "HTTP/1.1"])
async def test_request_without_a_host_gets_nothing(local, version):
    for target in ("/ui/", "/ui/session", "/ui/peer/namesrv/0/v1/clusters"):
        assert (await sent(local, request("GET", target, version=version)))[0] in {400, 421}


@pytest.mark.parametrize(
    ("target", "status"),
    [
        ("http://evil.example.org/ui/session", 421),
        ("http://localhost:1/ui/session", 421),
        ("http://user@localhost/ui/session", 421),
        ("https://localhost/ui/session", 200),
        ("http://localhost/ui/session", 200),
    ],
)
async def test_target_that_is_a_whole_url_names_the_host_as_well(local, target, status):
    assert (await sent(local, request("GET", target, "Host: localhost")))[0] == status
    assert (await sent(local, request("GET", target, "Host: evil.example.org")))[0] == 421


@pytest.mark.parametrize("method", ["CONNECT", "OPTIONS", "TRACE", "PATCH", "X-EVIL"])
async def test_other_methods_do_nothing(local, method):
    for target in ("/ui/", "/ui/session", "/ui/peers", "/ui/peer/namesrv/0/v1/clusters", "*", "localhost:443"):
        status, headers, _ = await sent(local, request(method, target, "Host: localhost"))
        assert status in {400, 404, 405}
        assert "access-control-allow-origin" not in headers


async def test_what_proxies_add_changes_nobody(public):
    """Anybody may write these headers: they decide nothing."""
    claims = (
        "X-Forwarded-For: 127.0.0.1",
        "X-Forwarded-Host: localhost",
        "X-Forwarded-Proto: https",
        "X-Real-IP: 127.0.0.1",
        "Forwarded: for=127.0.0.1;host=localhost",
        "X-HTTP-Method-Override: GET",
        "X-Original-URL: /ui/",
    )
    host = f"Host: {public.host}"
    assert (await sent(public, request("GET", "/ui/peers", host, *claims)))[0] == 401
    assert (await sent(public, request("GET", "/ui/peers", "Host: evil.example.org", *claims)))[0] == 421


async def test_header_that_smuggles_a_second_request_is_refused(local):
    both = request("POST", "/ui/session", "Host: localhost", "Content-Length: 5", "Transfer-Encoding: chunked")
    assert (await sent(local, both + "0\r\n\r\nGET /ui/ HTTP/1.1\r\n\r\n"))[0] == 400
    twice = request("POST", "/ui/session", "Host: localhost", "Content-Length: 5", "Content-Length: 6")
    assert (await sent(local, twice + "xxxxxx"))[0] == 400


# Which page


@pytest.mark.parametrize(
    "content_type", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", ""]
)
async def test_form_of_another_page_opens_no_session(local, content_type):
    """Forms can send these types to any site without being permitted to."""
    body = json.dumps({"token": ADMIN_TOKEN})
    own = (f"Host: {local.host}", f"Origin: http://{local.host}")
    types = [f"Content-Type: {content_type}"] if content_type else []
    status, headers, _ = await sent(local, request("POST", "/ui/session", *own, *types, body=body))
    assert (status, "set-cookie" in headers) == (415, False)
    status, _, _ = await sent(local, request("POST", "/ui/session", f"Host: {local.host}", *types, body=body))
    assert status == 403


@pytest.mark.parametrize(
    "lines",
    [
        ("Origin: http://localhost", "Origin: http://evil.example.org"),
        ("Origin: http://localhost, http://evil.example.org",),
        ("Origin: http://localhost@evil.example.org",),
        ("Origin: http://evil.example.org/localhost",),
        ("Origin: file://localhost",),
        ("Origin: http://localhost:80",),
        ("Origin:",),
        ("Origin: http://localhost", "Sec-Fetch-Site: same-origin", "Sec-Fetch-Site: cross-site"),
        ("Origin: http://localhost", "Sec-Fetch-Site: "),
        ("Origin: http://localhost", "Sec-Fetch-Site: Same-Origin"),
    ],
)
async def test_origin_that_is_not_exactly_this_host_changes_nothing(local, lines):
    body = json.dumps({"token": ADMIN_TOKEN})
    text = request("POST", "/ui/session", "Host: localhost", "Content-Type: application/json", *lines, body=body)
    status, headers, _ = await sent(local, text)
    assert (status, "set-cookie" in headers) == (403, False)


# What every answer has


async def test_every_answer_forbids_frames_and_guesses(public):
    """Also refusals, what there is not, and the data beside the console."""
    host = f"Host: {public.host}"
    expected = {
        request("GET", "/ui/", host): 200,
        request("HEAD", "/ui/", host): 200,
        request("GET", "/ui", host): 308,
        request("GET", "/ui/session", host): 200,
        request("GET", "/ui/peers", host): 401,
        request("GET", "/ui/peers", "Host: evil.example.org"): 421,
        request("GET", "/ui/peers", host, "Sec-Fetch-Site: cross-site"): 403,
        request("GET", "/ui/nothing", host): 404,
        request("GET", "/ui/static/x/main.js", host): 404,
        request("PUT", "/ui/peers", host): 405,
        request("POST", "/ui/session", host): 403,
        request("GET", "/v1/clusters", host): 200,
        request("GET", "/v1/clusters?x=1", host): 400,
        request("GET", "/metrics", host): 200,
        request("GET", "/nothing", host): 404,
    }
    for text, wanted in expected.items():
        status, headers, _ = await sent(public, text)
        assert status == wanted, text
        assert FRAMES in headers["content-security-policy"], text
        assert "unsafe" not in headers["content-security-policy"], text
        assert headers["x-content-type-options"] == "nosniff", text
        assert "cache-control" in headers, text


async def test_relayed_answers_and_streams_forbid_scripts_and_frames():
    from aiohttp import web  # noqa: PLC0415  # the peer is one of aiohttp

    async def hostile(peer_request):
        own = {
            "Content-Security-Policy": "default-src *",
            "Set-Cookie": "a=b",
            "X-Evil": "1",
            "Refresh": "0;url=//evil",
        }
        if "events" in peer_request.path:
            return web.Response(text="data: <script>\n\n", content_type="text/event-stream", headers=own)
        return web.Response(text='{"a":"<script>"}', content_type="application/json", headers=own)

    async with a_peer(hostile) as url, ConsoleSite(console_peers=f"namesrv={url}") as site:
        for path, accept in (("a", "application/json"), ("events", "text/event-stream")):
            lines = (f"Host: {site.host}", f"Accept: {accept}")
            status, headers, _ = await sent(site, request("GET", f"/ui/peer/namesrv/1/v1/{path}", *lines))
            assert status == 200
            assert headers["content-security-policy"] == "default-src 'none'; frame-ancestors 'none'; sandbox"
            assert (headers["x-content-type-options"], headers["cache-control"]) == ("nosniff", "no-store")
            assert not {"set-cookie", "x-evil", "refresh"} & headers.keys()
        assert headers["x-accel-buffering"] == "no"


# How much


@pytest.mark.parametrize(
    "cookie",
    ["x" * 100_000, "a=b; " * 1600, 'a="' + "\\" * 8000, ";" * 8000, "=;=;=", "\x01\x02", "rmq-console-namesrv-1=\xff"],
)
async def test_odd_and_huge_cookies_open_nothing(public, cookie):
    status, _, _ = await sent(public, request("GET", "/ui/peers", f"Host: {public.host}", f"Cookie: {cookie}"))
    assert status in {400, 401}
    assert (await public.get("/ui/session"))[0] == 200


async def test_ten_thousand_sign_ins_leave_few_sessions(public, monkeypatch):
    """Whoever has the token may sign in as often as he likes; the newest sessions stay."""
    cookies = []
    for _ in range(SESSIONS_MAX * 3):
        _, headers, _ = await public.sign_in(READ_TOKEN)
        cookies.append(headers["Set-Cookie"].partition(";")[0])
        public.session.cookie_jar.clear()
    opened = [
        (await public.request("GET", "/ui/peers", headers={"Cookie": each}))[0] == 200
        for each in (cookies[0], cookies[-SESSIONS_MAX - 1], cookies[-SESSIONS_MAX], cookies[-1])
    ]
    assert opened == [False, False, True, True]


async def test_sign_in_that_comes_slowly_holds_nobody_up(public, monkeypatch):
    monkeypatch.setattr("serving.http.request_bodies.BODY_S", 0.2)
    text = request(
        "POST",
        "/ui/session",
        f"Host: {public.host}",
        f"Origin: http://{public.host}",
        "Content-Type: application/json",
        "Content-Length: 100",
    )
    slow = [asyncio.ensure_future(sent(public, text + "{")) for _ in range(50)]
    assert (await public.get("/ui/session"))[0] == 200
    # One host has so many tries under way, whatever it does with their bodies.
    statuses = Counter(status for status, _, _ in await asyncio.gather(*slow))
    assert statuses == {408: FAILURES_MAX, 429: 50 - FAILURES_MAX}


async def test_more_streams_than_allowed_are_refused_and_do_not_hold_requests_up():
    from aiohttp import web  # noqa: PLC0415  # the peer is one of aiohttp

    async def endless(peer_request):
        if "events" not in peer_request.path:
            return web.json_response({})
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(peer_request)
        await response.write(b": begin\n\n")
        await asyncio.sleep(WAIT_S)
        return response

    async with a_peer(endless) as url, ConsoleSite(console_peers=f"namesrv={url}") as site:
        lines = (f"Host: {site.host}", "Accept: text/event-stream")
        text = request("GET", "/ui/peer/namesrv/1/v1/events", *lines).encode()
        writers = []
        try:
            for _ in range(STREAMS_MAX):
                reader, writer = await asyncio.open_connection("127.0.0.1", site.server.port)
                writers.append(writer)
                writer.write(text)
                async with asyncio.timeout(WAIT_S):
                    await reader.readuntil(b": begin")
            assert (await sent(site, text))[0] == 429
            assert (await site.get("/ui/peer/namesrv/1/v1/a"))[0] == 200
        finally:
            for each in writers:
                each.transport.abort()
