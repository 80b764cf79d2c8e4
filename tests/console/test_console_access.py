"""Who may use the console: at a real HTTP side, on loopback and as if others reached it."""

import asyncio

import pytest
from fakes.admin_token import ADMIN_TOKEN
from fakes.console_site import ELSEWHERE, READ_TOKEN, ConsoleSite

from serving.http.admin_access import FAILURES_MAX, WINDOW_MS
from serving.http.console.sessions import SESSION_MS

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)


@pytest.fixture
async def local():
    async with ConsoleSite() as site:
        yield site


@pytest.fixture
async def public():
    """Others reach it; there is a token to read and one to change."""
    async with ConsoleSite(read_token=READ_TOKEN, http_bind_address=ELSEWHERE) as site:
        yield site


def rights(view):
    return view["mayRead"], view["mayChange"], view["signIn"], view["signedIn"]


# On loopback and elsewhere


async def test_on_loopback_everybody_reads_and_only_the_admin_token_changes(local):
    status, view = await local.get("/ui/session")
    assert (status, rights(view)) == (200, (True, False, "optional", False))
    assert (await local.get("/ui/peers"))[0] == 200
    assert (await local.get("/ui/peer/namesrv/0/v1/clusters"))[0] == 200

    status, _, body = await local.change("POST", "/ui/peer/namesrv/0/v1/clusters")
    assert (status, body["error"]["code"]) == (401, "unauthorized")

    status, _, view = await local.sign_in(ADMIN_TOKEN)
    assert (status, rights(view)) == (200, (True, True, "optional", True))


@pytest.mark.parametrize("path", ["/ui/peers", "/ui/peer/namesrv/0/v1/clusters"])
async def test_elsewhere_nothing_is_read_without_a_session(public, path):
    assert rights((await public.get("/ui/session"))[1]) == (False, False, "needed", False)
    status, body = await public.get(path)
    assert (status, body["error"]) == (401, {"code": "unauthorized", "message": "Sign in to the console first."})
    assert (await public.get("/ui/"))[0] == 200


async def test_read_token_reads_and_changes_nothing(public):
    assert rights((await public.sign_in(READ_TOKEN))[2]) == (True, False, "needed", True)
    assert (await public.get("/ui/peers"))[0] == 200
    status, _, body = await public.change("DELETE", "/ui/peer/namesrv/0/v1/anything")
    assert (status, body["error"]["code"]) == (401, "unauthorized")
    assert [line["reason"] for line in public.events("http_admin_denied")] == ["no_token"]


async def test_a_read_token_is_needed_on_loopback_too():
    async with ConsoleSite(read_token=READ_TOKEN) as site:
        assert (await site.get("/ui/peers"))[0] == 401


async def test_without_any_token_nobody_signs_in():
    async with ConsoleSite(admin_token="", http_bind_address=ELSEWHERE) as site:
        assert rights((await site.get("/ui/session"))[1]) == (False, False, "off", False)
        assert "set httpAdminTokenFile or consoleReadTokenFile" in (await site.get("/ui/peers"))[1]["error"]["message"]
        assert (await site.sign_in("any token at all"))[0] == 403


# Sessions


async def test_cookie_is_out_of_reach_of_scripts_and_other_sites(public):
    _, headers, _ = await public.sign_in(READ_TOKEN)
    name, *attributes = headers["Set-Cookie"].split("; ")
    assert name.startswith(f"rmq-console-namesrv-{public.config.http_port}=")
    assert len(name.partition("=")[2]) == 43
    assert sorted(attributes) == ["HttpOnly", f"Max-Age={SESSION_MS // 1000}", "Path=/", "SameSite=Strict"]
    assert READ_TOKEN not in str(headers)


async def test_cookie_is_for_tls_alone_where_the_page_came_over_tls():
    async with ConsoleSite(console_hosts="console.example.org") as site:
        headers = {"Host": "console.example.org", "Origin": "https://console.example.org"}
        _, headers, _ = await site.change("POST", "/ui/session", json={"token": ADMIN_TOKEN}, headers=headers)
        assert "; Secure" in headers["Set-Cookie"]


async def test_session_ends_after_eight_hours(public):
    await public.sign_in(READ_TOKEN)
    public.clock.pass_ms(SESSION_MS - 1)
    assert (await public.get("/ui/peers"))[0] == 200
    public.clock.pass_ms(1)
    assert (await public.get("/ui/peers"))[0] == 401


async def test_session_ends_when_its_token_is_replaced(public):
    await public.sign_in(ADMIN_TOKEN)
    public.admin_token.replace("another-token-of-admins")
    assert (await public.get("/ui/peers"))[0] == 401


async def test_signing_out_ends_the_session_at_the_server(public):
    await public.sign_in(READ_TOKEN)
    (cookie,) = public.session.cookie_jar
    status, _, view = await public.change("DELETE", "/ui/session")
    assert (status, view["signedIn"]) == (200, False)
    kept = {"Cookie": f"{cookie.key}={cookie.value}"}
    assert (await public.request("GET", "/ui/peers", headers=kept))[0] == 401


async def test_wrong_tokens_are_logged_counted_and_limited(public):
    for number in range(FAILURES_MAX):
        status, _, body = await public.sign_in(f"not the token at all {number}")
        assert (status, body["error"]["code"]) == (401, "unauthorized")
    status, headers, _ = await public.sign_in(READ_TOKEN)
    assert status == 429
    assert 0 < int(headers["Retry-After"]) <= WINDOW_MS // 1000
    assert [line["reason"] for line in public.events("http_admin_denied")] == ["wrong_token"] * FAILURES_MAX
    assert len(public.events("token_tries_limited")) == 1
    assert dict(public.counters.http_admin_requests_denied.counts())[("wrong_token",)] == FAILURES_MAX


async def test_who_signs_in_is_logged_for_audits(public):
    assert (await public.sign_in(READ_TOKEN))[0] == 200
    (line,) = public.events("console_session_opened")
    assert (line["rights"], line["audit"]) == ("read", True)


async def test_token_is_in_no_log_line(public):
    await public.sign_in(READ_TOKEN)
    await public.sign_in("a token that is wrong")
    assert public.lines
    assert not any(READ_TOKEN.encode() in line or b"that is wrong" in line for line in public.lines)


# Other hosts and other sites


@pytest.mark.parametrize(
    "host", ["rebound.example.org", "127.0.0.1.example.org", "192.0.2.8:9880", "", "localhost, evil", "a b"]
)
@pytest.mark.parametrize("path", ["/ui/", "/ui/session", "/ui/peers", "/ui"])
async def test_page_under_another_name_gets_nothing(local, host, path):
    status, headers, body = await local.request("GET", path, headers={"Host": host}, allow_redirects=False)
    assert status in {400, 421}
    assert "Set-Cookie" not in headers
    assert "<html" not in str(body)


async def test_two_host_headers_are_refused(local):
    reader, writer = await asyncio.open_connection("127.0.0.1", local.server.port)
    writer.write(b"GET /ui/session HTTP/1.1\r\nHost: localhost\r\nHost: evil.example.org\r\nConnection: close\r\n\r\n")
    answer = await reader.read()
    writer.close()
    await writer.wait_closed()
    assert answer.split()[1] in {b"400", b"421"}


@pytest.mark.parametrize("host", ["localhost", "localhost:1", "127.0.0.1", "[::1]:9880"])
async def test_console_opens_at_every_name_of_loopback(local, host):
    assert (await local.request("GET", "/ui/session", headers={"Host": host}))[0] == 200


async def test_hosts_of_the_option_open_the_console_and_need_a_session():
    async with ConsoleSite(console_hosts="console.example.org;10.0.0.0/16") as site:
        for host in ("console.example.org", "Console.Example.org:8443", "10.0.3.4:9880"):
            status, _, view = await site.request("GET", "/ui/session", headers={"Host": host})
            assert (status, rights(view)) == (200, (False, False, "needed", False))


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example.org"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:1"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Sec-Fetch-Site": "none"},
    ],
)
async def test_page_of_another_site_changes_nothing(local, headers):
    await local.sign_in(ADMIN_TOKEN)
    for method, path in (
        ("POST", "/ui/session"),
        ("DELETE", "/ui/session"),
        ("PUT", "/ui/peer/namesrv/0/v1/clusters"),
    ):
        status, _, body = await local.change(method, path, headers=headers)
        assert (status, body["error"]["code"]) == (403, "forbidden")
    assert (await local.get("/ui/session"))[1]["signedIn"]


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
async def test_page_of_another_site_reads_nothing_and_may_link_to_the_page(local, site):
    headers = {"Sec-Fetch-Site": site}
    for path in ("/ui/session", "/ui/peers", "/ui/peer/namesrv/0/v1/brokers"):
        assert (await local.request("GET", path, headers=headers))[0] == 403
    assert (await local.request("GET", "/ui/", headers=headers))[0] == 200


@pytest.mark.parametrize(
    ("body", "status"),
    [({}, 422), ({"token": 1}, 422), ({"token": "x", "more": 1}, 422), ({"token": "x" * 9000}, 413)],
)
async def test_sign_in_of_another_shape_is_refused(local, body, status):
    assert (await local.change("POST", "/ui/session", json=body))[0] == status


# The page and its files


async def test_page_allows_no_other_source_and_no_frame(local):
    status, headers, page = await local.request("GET", "/ui/")
    assert status == 200
    assert headers["Content-Security-Policy"] == POLICY
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Referrer-Policy"] == "no-referrer"
    assert headers["Cross-Origin-Opener-Policy"] == headers["Cross-Origin-Resource-Policy"] == "same-origin"
    assert "<style" not in page
    assert " style=" not in page
    assert "https://" not in page


async def test_page_is_checked_again_and_its_files_are_kept(local):
    status, headers, page = await local.request("GET", "/ui/")
    assert headers["Cache-Control"] == "no-cache"
    known = {"If-None-Match": headers["ETag"]}
    assert (await local.request("GET", "/ui/", headers=known))[0] == 304

    (script,) = (part.split('"')[0] for part in page.split('src="')[1:])
    status, headers, body = await local.request("GET", f"/ui/{script}")
    assert (status, headers["Content-Type"]) == (200, "text/javascript; charset=utf-8")
    assert headers["Cache-Control"] == "public, max-age=31536000, immutable"
    assert (headers["Content-Encoding"], "import" in body) == ("gzip", True)
    other_release = script.replace(script.split("/")[1], "0" * 16)
    assert (await local.request("GET", f"/ui/{other_release}"))[0] == 404


@pytest.mark.parametrize("file", ["../index.html", "%2e%2e/%2e%2e/__init__.py", "views", "nothing.js"])
async def test_only_files_of_the_console_are_served(local, file):
    _, _, page = await local.request("GET", "/ui/")
    folder = page.split('src="static/')[1].split("/")[0]
    assert (await local.get(f"/ui/static/{folder}/{file}"))[0] == 404


async def test_address_without_its_last_slash_leads_to_the_page(local):
    status, headers, _ = await local.request("GET", "/ui", allow_redirects=False)
    assert (status, headers["Location"]) == (308, "ui/")
    assert "<html" in (await local.request("GET", "/ui"))[2]
