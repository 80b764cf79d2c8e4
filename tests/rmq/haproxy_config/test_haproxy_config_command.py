"""`rmq haproxy-config`: its answer and its refusals."""

import asyncio
import json
import re
import sys

import pytest
from fakes.in_process_controller import InProcessController, at

from rmq.cli import command_line
from rmq.commands.table import COMMANDS
from rmq.haproxy_config.known_sets import known_sets
from store.store import ControllerMember

RULES = """
[[roleAddress]]
set = "broker-a"
master = "10.9.0.5:10911"
networks = ["10.1.0.0/16"]
"""
CHECKS = "10.0.0.1:9879,10.0.0.2:9879"


@pytest.fixture
async def controller(tmp_path):
    async with InProcessController(tmp_path) as controller:
        await controller.a_set(1, 2)
        yield await controller.serve_http()


def url(controller):
    return f"http://127.0.0.1:{controller.server.port}"


async def run(*arguments):
    """Return exit code, output and complaint of the command in a process of its own."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "rmq",
        "haproxy-config",
        *arguments,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    output, complaint = await asyncio.wait_for(process.communicate(), 60)
    return process.returncode, output.decode(), complaint.decode()


def haproxy_config(words):
    return command_line.run(COMMANDS, ["haproxy-config", *words])


def wanted(tmp_path, controllers, text=RULES, **more):
    file = tmp_path / "role-addresses.toml"
    file.write_text(text)
    options = {"role-addresses": file, "controllers": controllers, "role-checks": CHECKS} | more
    return [f"--{name}={value}" for name, value in options.items()]


async def test_configuration_of_all_sets_is_written(controller, tmp_path):
    code, output, complaint = await run(*wanted(tmp_path, url(controller)), "--send-proxy", "--local-port=20001")
    assert (code, complaint) == (0, "")
    assert "bind 10.9.0.5:10911" in output
    assert f"server broker_1 {at(1)} send-proxy-v2 agent-send" in output
    assert "server controller_2 10.0.0.2:9879" in output
    assert "bind 127.0.0.1:20001" in output
    assert await run(*wanted(tmp_path, url(controller)), "--send-proxy", "--local-port=20001") == (0, output, "")


async def test_controller_that_leads_is_found_among_others(controller, tmp_path):
    code, output, _ = await run(*wanted(tmp_path, f"http://127.0.0.1:1,{url(controller)}"))
    assert code == 0
    assert at(2) in output


async def test_without_a_leader_nothing_is_written(controller, tmp_path):
    controller.group.follows(ControllerMember(id="n1", address="10.0.0.2:9878"))
    code, output, complaint = await run(*wanted(tmp_path, f"http://127.0.0.1:1,{url(controller)}"))
    assert (code, output) == (1, "")
    assert re.search(
        r"no leading controller was reached: http://127\.0\.0\.1:1 does not answer as a controller: .*refused.*; "
        r"http://127\.0\.0\.1:[0-9]+ does not lead",
        complaint,
    )


@pytest.mark.parametrize(
    ("text", "ends_with", "complaint"),
    [
        ('[[roleAddress]]\nset = "broker-a"\nmaster = "somewhere:1"\n', 2, "line 3"),
        ('[[roleAddress]]\nset = "broker-z"\nmaster = "10.9.0.5:10911"\n', 1, "know no broker of broker-z"),
    ],
)
async def test_rules_that_do_not_fit_are_refused(controller, tmp_path, capsys, text, ends_with, complaint):
    code = await asyncio.to_thread(haproxy_config, wanted(tmp_path, url(controller), text))
    captured = capsys.readouterr()
    assert (code, captured.out) == (ends_with, "")
    assert captured.err.startswith("rmq: ")
    assert complaint in captured.err


def test_file_that_cannot_be_read_is_refused(tmp_path, capsys):
    arguments = [*wanted(tmp_path, "http://127.0.0.1:1"), f"--role-addresses={tmp_path}/none"]
    assert haproxy_config(arguments) == 2
    assert "none cannot be read: No such file or directory" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("option", "complaint"),
    [
        ("--controllers=10.0.0.1:9881", "'10.0.0.1:9881' is not a URL such as http://10.0.0.1:9881"),
        ("--controllers=https://10.0.0.1", "is not a URL"),
        ("--controllers=http://10.0.0.1:x", "is not a URL"),
        ("--controllers=,", "at least one is needed"),
        ("--role-checks=10.0.0.1", "'10.0.0.1' is not HOST:PORT"),
        ("--role-checks=10.0.0.1:70000", "is not HOST:PORT"),
        ("--role-checks=a b:1", "is not HOST:PORT"),
        ("--host=example.org", "'example.org' is not an IP address"),
        ("--instances=0", "0 is not in the range 1<=x<=10000"),
        ("--local-port=x", "'x' is not a valid integer range"),
        ("--run-folder=here", "'here' is not an absolute path"),
        ("--nonsense", "No such option"),
    ],
)
def test_bad_option_is_refused_with_what_is_allowed(tmp_path, capsys, option, complaint):
    assert haproxy_config([*wanted(tmp_path, "http://127.0.0.1:1"), option]) == 2
    assert complaint in capsys.readouterr().err


async def test_sets_of_all_pages_are_fetched(controller, monkeypatch):
    monkeypatch.setattr("rmq.haproxy_config.known_sets._PAGE", 2)
    for name in ("broker-b", "broker-c", "broker-d", "broker-e"):
        await controller.a_set(1, name=name)
    found = await asyncio.to_thread(known_sets, [url(controller)])
    assert list(found) == ["broker-a", "broker-b", "broker-c", "broker-d", "broker-e"]
    assert list(found["broker-a"]) == [1, 2]


async def test_answer_of_another_server_is_refused(tmp_path, capsys):
    async def serve(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        body = json.dumps({"hello": 1}).encode()
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%s" % (len(body), body))
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    assert await asyncio.to_thread(haproxy_config, wanted(tmp_path, f"http://127.0.0.1:{port}")) == 1
    assert "does not answer as a controller" in capsys.readouterr().err
    server.close()
    await server.wait_closed()
