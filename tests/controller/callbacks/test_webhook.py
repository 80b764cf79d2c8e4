"""A real HTTP server on loopback takes callbacks, or does not."""

import asyncio
import json
from contextlib import asynccontextmanager, suppress

import pytest
from callback_builders import a_callback, a_change
from peers.processes import free_port

from controller.callbacks.callers import TokenUnusable, WebhookCaller, token_in
from controller.callbacks.role_callback import OUTPUT_BYTES_MAX, CallResult

WAIT_S = 30
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nmoved"


@asynccontextmanager
async def receiver(*answers, holds=False):
    """Serve these answers, one to each request; with `holds` the connection stays open after the last byte."""
    requests, left = [], list(answers)

    async def serve(reader, writer):
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        fields = dict(line.split(": ", 1) for line in head.split("\r\n")[1:] if line)
        body = await reader.readexactly(int(fields.get("Content-Length", 0)))
        requests.append((head.split("\r\n")[0], fields, body))
        writer.write(left.pop(0))
        await writer.drain()
        if holds:
            await reader.read()
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()
        served.release()

    served = asyncio.Semaphore(0)
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    try:
        yield f"http://127.0.0.1:{port}/roles?site=west", requests
    finally:
        async with asyncio.timeout(WAIT_S):
            for _ in requests:
                await served.acquire()
        server.close()


@asynccontextmanager
async def calling(url, token_path=""):
    caller = WebhookCaller(url, str(token_path))
    try:
        yield caller
    finally:
        await caller.close()


async def test_callback_is_posted_as_json_with_a_key_of_its_own():
    async with receiver(OK, OK) as (url, requests), calling(url) as caller:
        assert caller.problem == ""
        assert await caller.call(a_callback(), WAIT_S) == (CallResult.DELIVERED, "", "moved")
        assert (await caller.call(a_callback(attempt=2), WAIT_S)).result is CallResult.DELIVERED
    (line, fields, body), (_, again, _) = requests
    assert line == "POST /roles?site=west HTTP/1.1"
    assert json.loads(body) == json.loads(a_callback().body())
    assert fields["Content-Type"] == "application/json"
    assert fields["Idempotency-Key"] == again["Idempotency-Key"] == "DefaultCluster/broker-a/6"
    assert "Authorization" not in fields


async def test_token_is_read_at_each_call(tmp_path):
    path = tmp_path / "token"
    path.write_text("first-token\nignored\n")
    async with receiver(OK, OK) as (url, requests), calling(url, path) as caller:
        await caller.call(a_callback(), WAIT_S)
        path.write_text("  second-token  ")
        await caller.call(a_callback(), WAIT_S)
        path.unlink()
        outcome = await caller.call(a_callback(), WAIT_S)
        assert caller.problem == outcome.error
    assert [fields["Authorization"] for _, fields, _ in requests] == ["Bearer first-token", "Bearer second-token"]
    assert outcome == (
        CallResult.FAILED,
        f"onRoleChangeTokenFile: {path} cannot be read: No such file or directory",
        "",
    )


@pytest.mark.parametrize("text", ["", "\n", "two words", "caf\u00e9", "a\tb"])
def test_file_without_a_token_is_named_and_never_shown(tmp_path, text):
    path = tmp_path / "token"
    path.write_text(text)
    with pytest.raises(TokenUnusable) as refused:
        token_in(str(path))
    assert str(path) in str(refused.value)
    assert text.strip() == "" or text not in str(refused.value)


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (b"HTTP/1.1 500 Oops\r\nContent-Length: 4\r\n\r\nfull", "it was answered 500"),
        (b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n", "it was answered 302"),
        (b"HTTP/1.1 199 Odd\r\nContent-Length: 0\r\n\r\n", ""),
    ],
)
async def test_other_answers_than_2xx_are_failures(answer, error):
    async with receiver(answer) as (url, _), calling(url) as caller:
        outcome = await caller.call(a_callback(), WAIT_S)
    assert outcome.result is CallResult.FAILED
    assert error in outcome.error


async def test_long_answer_is_not_read_to_its_end():
    answer = b"HTTP/1.1 200 OK\r\nContent-Length: 9999999\r\n\r\n" + b"x" * 4 * OUTPUT_BYTES_MAX
    async with receiver(answer, holds=True) as (url, _), calling(url) as caller:
        assert await caller.call(a_callback(), WAIT_S) == (CallResult.DELIVERED, "", "x" * OUTPUT_BYTES_MAX)


@pytest.mark.parametrize("answer", [b"", b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nslow"])
async def test_answer_that_does_not_come_in_time_is_a_timeout(answer):
    async with receiver(answer, holds=True) as (url, _), calling(url) as caller:
        outcome = await caller.call(a_callback(), 0.5)
    assert outcome == (CallResult.TIMEOUT, "no answer came within 0.5 s", "")


@pytest.mark.parametrize("answer", [b"SSH-2.0\r\n\r\n", b""])
async def test_server_that_speaks_no_http_is_a_failure(answer):
    async with receiver(answer) as (url, _), calling(url) as caller:
        assert (await caller.call(a_callback(), WAIT_S)).result is CallResult.FAILED


async def test_server_that_is_not_there_is_a_failure_with_its_address():
    port = free_port()
    async with calling(f"http://127.0.0.1:{port}/") as caller:
        outcome = await caller.call(a_callback(), WAIT_S)
    assert outcome.result is CallResult.FAILED
    assert f"127.0.0.1:{port}" in outcome.error


async def test_proxy_of_the_environment_is_not_used(monkeypatch):
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    async with receiver(OK) as (url, _), calling(url) as caller:
        assert (await caller.call(a_callback(), WAIT_S)).result is CallResult.DELIVERED


async def test_names_of_brokers_add_no_header():
    async with receiver(OK) as (url, requests), calling(url) as caller:
        await caller.call(a_callback(a_change(broker_name="b\r\nX-Evil: 1\u00e9")), WAIT_S)
    ((_, fields, _),) = requests
    assert "X-Evil" not in fields
    assert fields["Idempotency-Key"] == r"DefaultCluster/b\r\nX-Evil: 1\xe9/6"
