"""`rmq haproxy-config` before a server that is no controller: what it costs, and what it writes."""

import contextlib
import itertools
import json
import os
import signal
import socket
import subprocess
import sys
import threading

import pytest

RULES = '[[roleAddress]]\nset = "broker-a"\nmaster = "10.9.0.5:10911"\nnetworks = ["10.1.0.0/16"]\n'
EVIL = "1.1.1.1:1 weight 0\n    server evil 6.6.6.6:1 check"
#: Python and its modules take 40 MiB; the body of an answer up to 16 MiB, and its text in pieces as much.
MEMORY_KIB_MAX = 160 * 1024
#: Nobody waits longer; generous for a busy machine.
SECONDS_MAX = 40


def head(status="200 OK", **fields):
    lines = [f"HTTP/1.1 {status}", *(f"{key}: {value}" for key, value in fields.items()), "", ""]
    return "\r\n".join(lines).encode()


def page(number, *, name="broker-a", address="10.0.0.1:10911", cursor=None):
    sets = [{"brokerName": name, "roles": [{"brokerId": 1, "address": address}]}]
    body = json.dumps({"isLeader": True, "brokerSets": sets, "nextCursor": cursor}).encode()
    return [head(**{"content-length": len(body)}) + body]


def endless_body(_):
    yield head()
    yield b'{"isLeader": true, "brokerSets": ['
    row = json.dumps({"brokerName": "b", "roles": []}).encode() + b","
    yield from itertools.repeat(row * 3000)


def endless_head(_):
    yield b"HTTP/1.1 200 OK\r\n"
    yield from itertools.repeat(b"x: y\r\n" * 10)


def endless_continues(_):
    yield from itertools.repeat(b"HTTP/1.1 100 Continue\r\n\r\n" * 10)


ATTACKS = {
    "address with lines": lambda number: page(number, address=EVIL),
    "name with lines": lambda number: page(number, name="broker-b\n    server evil 6.6.6.6:1"),
    "same page for ever": lambda number: page(number, cursor="x"),
    "new pages for ever": lambda number: page(number, name=f"broker-{number}", cursor=str(number)),
    "endless body": endless_body,
    "endless head": endless_head,
    "endless continues": endless_continues,
    "redirect": lambda number: (
        [head("302 Found", location="/there", **{"content-length": 0})] if number == 0 else page(number)
    ),
}


@contextlib.contextmanager
def hostile(attack):
    """Serve an attack; it gets the number of the request."""
    listener = socket.create_server(("127.0.0.1", 0))
    requests = itertools.count()

    def serve(connection):
        with contextlib.suppress(OSError), connection:
            connection.recv(65536)
            for part in attack(next(requests)):
                connection.sendall(part)

    def listen():
        with contextlib.suppress(OSError):
            while True:
                threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()

    threading.Thread(target=listen, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()


#: Runs a program and tells how much memory it had at most: a child of the tests has begun with all of theirs.
MEASURED = """
import resource, subprocess, sys
code = subprocess.call(sys.argv[2:])
with open(sys.argv[1], "w") as file:
    file.write(str(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss))
sys.exit(code % 256)
"""


@pytest.mark.parametrize("name", ATTACKS)
def test_server_that_is_no_controller_writes_no_line_and_takes_no_memory(name, tmp_path, print_figures):
    (tmp_path / "rules.toml").write_text(RULES)
    with hostile(ATTACKS[name]) as url, (tmp_path / "out").open("w") as out, (tmp_path / "err").open("w") as err:
        command = [sys.executable, "-m", "rmq", "haproxy-config", "--role-checks=10.0.0.1:9879"]
        command += [f"--role-addresses={tmp_path}/rules.toml", f"--controllers={url}"]
        measured = [sys.executable, "-c", MEASURED, tmp_path / "memory", *command]
        process = subprocess.Popen(measured, stdout=out, stderr=err, start_new_session=True)
        timer = threading.Timer(SECONDS_MAX, os.killpg, (process.pid, signal.SIGKILL))
        timer.start()
        process.wait()
        timer.cancel()

    memory_kib = int((tmp_path / "memory").read_text())
    written, complaint = (tmp_path / "out").read_text(), (tmp_path / "err").read_text()
    print_figures(exit=process.returncode, memory_mib=memory_kib // 1024, complaint=complaint[-120:])
    assert (process.returncode, written) == (1, "")
    assert complaint.count("\n") == 1
    assert memory_kib < MEMORY_KIB_MAX
