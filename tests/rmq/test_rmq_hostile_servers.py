"""`rmq` at servers that are none, or that answer slowly, too much or something else: one sentence, and an exit code."""

import asyncio
import contextlib
import socket
import ssl
import threading
import time

import msgspec
import pytest
from answering_peer import AnsweringPeer, answer
from peers.etcd import Etcd, certificate
from peers.programs import require
from rmq_runs import Rmq

from rmq.failures import CommandFailed
from rmq.site.http_api import ANSWER_BYTES_MAX, ApiRequest, call, controllers
from rmq.site.settings import settings_of
from rmq.site.site import Site

ALL_TOPICS = 206
#: For what never answers as it should.
TIMEOUT_S = 0.5
MIB = 1024 * 1024
#: A frame of 1 MiB begins with it.
BEGIN_OF_A_MIB = b"\0\x10\0\0\0\0\0\x02"
#: A TLS record of a handshake, 16 KiB long.
BEGIN_OF_A_HANDSHAKE = b"\x16\x03\x03\x40\0"


class RawServer:
    """Sends each client some bytes, and with `drips` then a byte now and then for ever."""

    def __init__(self, begin=b"", *, drips=None, context=None):
        self._begin, self._drips, self._context = begin, drips, context
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self.is_closed = threading.Event()
        threading.Thread(target=self._listen, daemon=True).start()

    def close(self):
        self.is_closed.set()
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _listen(self):
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection):
        with contextlib.suppress(OSError), connection:
            if self._context is None:
                self._answer(connection)
            else:
                with self._context.wrap_socket(connection, server_side=True) as encrypted:
                    self._answer(encrypted)

    def _answer(self, connection):
        connection.recv(65536)
        connection.sendall(self._begin)
        while self._drips is not None and not self.is_closed.wait(0.05):
            connection.sendall(self._drips)


@pytest.fixture
def raw():
    started = []

    def start(*args, **settings):
        started.append(RawServer(*args, **settings))
        return started[-1].address

    yield start
    for each in started:
        each.close()


@pytest.fixture
def rmq(tmp_path):
    return Rmq(tmp_path / "operator")


def failure_at(address, *, timeout_s=20, tls=False):
    """Return how a request to what listens there ends, and the seconds it took."""
    options = {"namesrv": address, "timeout": str(timeout_s)} | ({"tls": "true"} if tls else {})

    async def ask():
        site = Site(settings_of(options, {}, {}))
        try:
            await site.cluster()
        finally:
            await site.close()

    began = time.perf_counter()
    with pytest.raises(CommandFailed) as failed:
        asyncio.run(ask())
    return failed.value, time.perf_counter() - began


@pytest.mark.parametrize(
    ("begin", "sentence"),
    [
        (b"SSH-2.0-OpenSSH_9.2\r\n", "not a RocketMQ server: its answer begins with 'SSH-'"),
        (b"HTTP/1.0 400 Bad Request\r\n\r\n", "this is an HTTP port"),
        (b"\x15\x03\x03\0\x02\x02\x28", "the server needs TLS: --tls or --tls-ca"),
        ((100 * MIB).to_bytes(4, "big") + b"\0" * 65536, "the answer has 104857600 bytes, more than 16 MiB"),
        (b"\xff\xff\xff\xff", "not a RocketMQ server"),
        (b"\0\0\0\x04\0\0\0\x05", "not a RocketMQ server: a header of 5 bytes does not fit"),
        (BEGIN_OF_A_MIB, "closed the connection"),
        (b"", "closed the connection"),
    ],
)
def test_what_is_no_answer_is_not_reachable_and_named(raw, begin, sentence):
    failure, _ = failure_at(raw(begin))

    assert (failure.exit_code, sentence in str(failure)) == (3, True), failure


@pytest.mark.parametrize(("begin", "tls"), [(BEGIN_OF_A_MIB, False), (BEGIN_OF_A_HANDSHAKE, True)])
def test_answer_that_comes_byte_by_byte_for_ever_is_late(raw, begin, tls):
    failure, seconds = failure_at(raw(begin, drips=b"\0"), timeout_s=TIMEOUT_S, tls=tls)

    assert (failure.exit_code, "no answer within 500 ms" in str(failure)) == (3, True), failure
    assert seconds < 10


def test_operator_sees_one_sentence_and_no_traceback(rmq, raw):
    slow = rmq.run("status", "-n", raw(BEGIN_OF_A_MIB, drips=b"\0"), "--timeout", "0.5")
    wrong = rmq.run("topic", "list", "-n", raw(b"SSH-2.0-\x1b[2J\r\n"))

    assert (slow.code, slow.err.count("\n")) == (3, 1)
    assert "no answer within 500 ms" in slow.err
    assert "no answer within 500 ms" in slow.out
    assert (wrong.code, wrong.err.count("\n"), "\x1b" in wrong.err) == (3, 1, False)


@pytest.mark.etcd
def test_port_of_an_etcd_is_no_name_server(tmp_path):
    etcd = Etcd(tmp_path)
    try:
        etcd.start()
        failure, _ = failure_at(etcd.endpoints[0], timeout_s=TIMEOUT_S)
    finally:
        etcd.stop()

    assert failure.exit_code == 3
    assert "not a RocketMQ server" in str(failure) or "no answer within" in str(failure)


# The HTTP API


class Sets(msgspec.Struct):
    """What is read."""

    items: list[str]


def read(url, *, timeout_s=20, **options):
    """Return what is read, or the failure; and the seconds it took."""
    settings = settings_of({"controller_http": url, "timeout": str(timeout_s)} | options, {}, {})
    began = time.perf_counter()
    try:
        return asyncio.run(
            call(settings, controllers(settings), ApiRequest("/v1/x", Sets))
        ).items, time.perf_counter() - began
    except CommandFailed as failure:
        return failure, time.perf_counter() - began


def http(body, status="200 OK", headers=""):
    body = body if isinstance(body, bytes) else body.encode()
    return f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n{headers}\r\n".encode() + body


FAULT = '{"error":{"code":"unavailable","message":"This controller is starting."}}'


@pytest.mark.parametrize(
    ("answered", "code", "sentence"),
    [
        (http(FAULT, "503 Unavailable"), 1, "HTTP status 503: This controller is starting."),
        (http(FAULT, "403 Forbidden"), 5, "HTTP status 403: This controller is starting."),
        (
            http('{"error":{"code":"x","message":"no"}}', "401 No"),
            5,
            "no Give a file with the token: --admin-token-file",
        ),
        (http('{"error":{"code":"x","message":"No set x."}}', "404 No"), 4, "HTTP status 404: No set x."),
        (http('{"error":{"code":"x","message":"There is nothing at /v1/x."}}', "404 No"), 6, "has no such HTTP API"),
        (http("<html>", "404 Not Found"), 6, "has no such HTTP API"),
        (http("later", "503 Busy"), 1, "HTTP status 503 without a readable reason"),
        (http("", "302 Found", "Location: http://127.0.0.1:1/\r\n"), 1, "HTTP status 302"),
        (http("<html>"), 6, "has no such HTTP API"),
        (http('{"items":' + "[" * 100_000), 6, "has no such HTTP API"),
        (http(b'{"items":["\xff"]}'), 6, "has no such HTTP API"),
        (http('{"items":7}'), 6, "has no such HTTP API"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{", 3, "no HTTP answer"),
        (b"SSH-2.0-OpenSSH\r\n", 3, "no HTTP answer"),
        (b"\x15\x03\x03\0\x02\x02\x28", 3, "no HTTP answer"),
        (b"HTTP/1.1 200 OK\r\n" + b"a: b\r\n" * 1000, 3, "no HTTP answer"),
        (b"", 3, "no HTTP answer"),
    ],
)
def test_http_answer_of_another_kind_is_named(raw, answered, code, sentence):
    failure, _ = read(f"http://{raw(answered)}")

    assert (failure.exit_code, sentence in str(failure)) == (code, True), failure


@pytest.mark.parametrize(
    ("begin", "drips"),
    [
        (b"", b"H"),
        (b"HTTP/1.1 200 OK\r\n", b"a: b\r\n"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n", b" "),
        (b"HTTP/1.0 200 OK\r\n\r\n", b" "),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n", b"0"),
    ],
)
def test_http_answer_that_comes_byte_by_byte_for_ever_is_late(raw, begin, drips):
    failure, seconds = read(f"http://{raw(begin, drips=drips)}", timeout_s=TIMEOUT_S)

    assert (failure.exit_code, "no answer within 500 ms" in str(failure)) == (3, True), failure
    assert seconds < 10


def test_http_answer_beyond_the_limit_is_named(raw, monkeypatch):
    monkeypatch.setattr("rmq.site.http_api.ANSWER_BYTES_MAX", MIB)
    failure, _ = read(f"http://{raw(http(b' ' * (2 * MIB)))}")

    assert ANSWER_BYTES_MAX > MIB
    assert (failure.exit_code, f"more than {MIB} bytes" in str(failure)) == (1, True), failure


def test_second_controller_is_read_where_the_first_cannot_answer(raw):
    right = f"http://{raw(http(msgspec.json.encode({'items': ['a']})))}"
    starting = f"http://{raw(http(FAULT, '503 Unavailable'))}"

    assert read(f"{starting};{right}")[0] == ["a"]
    assert read(f"http://127.0.0.1:1;{right}")[0] == ["a"]
    failure, _ = read(f"http://127.0.0.1:1;{starting}")
    assert (failure.exit_code, "is starting" in str(failure)) == (1, True)


def test_https_needs_a_certificate_that_is_trusted_and_a_server_that_speaks_it(raw, tmp_path):
    require("openssl")
    authority, cert, key = certificate(tmp_path, "own")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    answered = http(msgspec.json.encode({"items": ["a"]}))

    assert read(f"https://{raw(answered, context=context)}", tls_ca=str(authority))[0] == ["a"]
    unknown, _ = read(f"https://{raw(answered, context=context)}")
    plain, _ = read(f"https://{raw(http('{}', '400 Bad Request'))}")
    turned, _ = read(f"http://{raw(answered, context=context)}")

    assert (unknown.exit_code, "no TLS session" in str(unknown)) == (5, True), unknown
    assert (plain.exit_code, "no TLS session" in str(plain)) == (5, True), plain
    assert turned.exit_code == 3, turned


def test_our_controller_refuses_in_its_own_words(servers):
    """Its refusals have the sentence where `rmq` reads it."""
    url = f"http://127.0.0.1:{servers.controller.http_port}"
    settings = settings_of({"controller_http": url, "timeout": "60"}, {}, {})
    with pytest.raises(CommandFailed) as failed:
        asyncio.run(call(settings, controllers(settings), ApiRequest("/v1/broker-sets", Sets, {"limit": "0"})))

    assert "limit must be a whole number from 1 to" in str(failed.value)


# Words


@pytest.mark.parametrize(
    "words",
    [
        ("config", "set", "namesrv", "a=b", "--at", ""),
        ("offsets", "import", "f", "--target", "broker", "--broker", "b", "--group", ""),
        ("topic", "list", "--cluster", ""),
        ("topic", "list", ""),
        ("watch", "Orders", ""),
        ("kv", "put", "NS", "", "value", "--yes"),
        ("group", "restore", "", "--moment", "former", "--yes"),
    ],
)
def test_blank_word_of_a_command_is_wrong_use_and_does_not_stand_for_all(run_here, words):
    ran = run_here(*words)

    assert (ran.code, "is blank: give it a value" in ran.err) == (2, True), ran


def test_wrong_words_with_escape_sequences_do_not_reach_the_terminal(rmq):
    ran = rmq.run("topic", "route", "a", "\x1b]0;title\x07")
    blank = rmq.run("topic", "list", "--profile", "")

    assert (ran.code, "\x1b" in ran.err, r"\x1b]0;title" in ran.err) == (2, False, True), ran
    assert (blank.code, blank.err) == (2, "rmq: profile is blank: give it a value, or leave it out\n")


def test_answers_that_are_no_json_or_too_deep_cannot_be_read(rmq):
    peer = AnsweringPeer({ALL_TOPICS: answer('{"topicList":' + "[" * 200_000)})
    try:
        ran = rmq.run("topic", "list", "-n", peer.address)
    finally:
        peer.close()

    assert (ran.code, "the answer cannot be read" in ran.err, ran.err.count("\n")) == (1, True, 1), ran.err[:500]
