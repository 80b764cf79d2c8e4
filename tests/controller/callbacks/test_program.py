"""Real programs: what they get, how they end, and that nothing of them is left."""

import asyncio
import json
import os
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
from callback_builders import a_callback, a_change

from controller.callbacks.callers import ProgramCaller
from controller.callbacks.role_callback import OUTPUT_BYTES_MAX, CallResult
from remoting.clock import SystemClock

#: Generous: only waits that would never end end here.
WAIT_S = 30


@pytest.fixture
def threads():
    with ThreadPoolExecutor(8) as threads:
        yield threads


@pytest.fixture
def caller(threads, tmp_path):
    """Return a function that makes a caller of a Python program with these lines."""

    def make(*lines, arguments=()):
        path = tmp_path / "program.py"
        path.write_text("\n".join(["import json, os, signal, subprocess, sys, time", *lines]) + "\n")
        return ProgramCaller((sys.executable, str(path), *arguments), threads, "RMQ_", SystemClock())

    return make


async def is_gone(pid):
    async with asyncio.timeout(WAIT_S):
        while True:
            try:
                os.kill(pid, 0)
            except ProcessLookupError:
                return True
            await asyncio.sleep(0.02)


async def content(path):
    async with asyncio.timeout(WAIT_S):
        while not (path.exists() and (text := path.read_text())):
            await asyncio.sleep(0.02)
    return text


async def test_program_gets_json_on_its_input_and_variables_and_its_arguments(caller, monkeypatch, tmp_path):
    monkeypatch.setenv("RMQ_CONTROLLER_ETCD_PASSWORD", "hunter2")
    monkeypatch.setenv("AWS_REGION", "eu-west-1")
    seen = tmp_path / "seen"
    lines = [
        "seen = [json.load(sys.stdin), dict(os.environ), sys.argv[1:], os.getcwd(), os.getpgid(0) == os.getpid()]",
        f"open({str(seen)!r}, 'w').write(json.dumps(seen))",
        "print('moved', flush=True)",
        "print('to 2', file=sys.stderr)",
    ]
    outcome = await caller(*lines, arguments=("$HOME", "a b;c")).call(a_callback(), WAIT_S)
    assert outcome.result is CallResult.DELIVERED
    assert outcome.output == "moved\nto 2"
    body, environment, arguments, folder, leads_its_group = json.loads(seen.read_text())
    assert body == json.loads(a_callback().body())
    assert environment.items() >= a_callback().variables().items()
    assert environment["AWS_REGION"] == "eu-west-1"
    assert "hunter2" not in environment.values()
    assert arguments == ["$HOME", "a b;c"]
    assert (folder, leads_its_group) == ("/", True)


async def test_other_status_than_0_is_a_failure_with_what_was_printed(caller):
    outcome = await caller("print('no such address', flush=True)", "sys.exit(3)").call(a_callback(), WAIT_S)
    assert outcome == (CallResult.FAILED, "it ended with status 3", "no such address")


async def test_program_that_a_signal_ends_has_failed(caller):
    outcome = await caller("os.kill(os.getpid(), signal.SIGTERM)").call(a_callback(), WAIT_S)
    assert (outcome.result, outcome.error) == (CallResult.FAILED, "signal 15 ended it")


async def test_program_that_reads_nothing_is_delivered(caller):
    assert (await caller("sys.stdin.close()").call(a_callback(), WAIT_S)).result is CallResult.DELIVERED


async def test_program_over_its_time_is_killed_with_all_that_it_started(caller, tmp_path):
    pids = tmp_path / "pids"
    lines = [
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)",
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(1000)'])",
        f"open({str(pids)!r}, 'w').write(f'{{os.getpid()}} {{child.pid}}')",
        "print('waits', flush=True)",
        "time.sleep(1000)",
    ]
    outcome = await caller(*lines).call(a_callback(), 3)
    assert outcome == (CallResult.TIMEOUT, "it was killed after 3 s", "waits")
    for pid in map(int, (await content(pids)).split()):
        assert await is_gone(pid)


async def test_what_a_program_leaves_in_the_background_is_killed_and_waited_for_by_nobody(caller, tmp_path):
    pids = tmp_path / "pids"
    lines = [
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(1000)'])",
        f"open({str(pids)!r}, 'w').write(str(child.pid))",
        "print('started', flush=True)",
    ]
    outcome = await caller(*lines).call(a_callback(), WAIT_S)
    assert outcome == (CallResult.DELIVERED, "", "started")
    assert await is_gone(int(pids.read_text()))


async def test_program_that_closes_its_output_is_waited_for(caller):
    lines = ["os.close(1)", "os.close(2)", "time.sleep(0.3)", "os._exit(4)"]
    assert (await caller(*lines).call(a_callback(), WAIT_S)).error == "it ended with status 4"
    outcome = await caller("os.close(1)", "os.close(2)", "time.sleep(1000)").call(a_callback(), 1)
    assert outcome.result is CallResult.TIMEOUT


async def test_output_is_limited_and_does_not_hold_the_program_up(caller):
    outcome = await caller("sys.stdout.write('x' * 5_000_000)", "sys.stdout.flush()").call(a_callback(), WAIT_S)
    assert outcome == (CallResult.DELIVERED, "", "x" * OUTPUT_BYTES_MAX)


async def test_output_that_is_no_text_is_shown_all_the_same(caller):
    outcome = await caller("os.write(1, b'\\xff\\n')").call(a_callback(), WAIT_S)
    assert outcome.output == "\ufffd"


async def test_cancelled_call_kills_its_program(caller, tmp_path):
    pids = tmp_path / "pids"
    program = caller(f"open({str(pids)!r}, 'w').write(str(os.getpid()))", "time.sleep(1000)")
    call = asyncio.ensure_future(program.call(a_callback(), 1000))
    pid = int(await content(pids))
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert await is_gone(pid)


async def test_call_that_is_given_up_before_its_turn_starts_no_program(tmp_path):
    marker = tmp_path / "marker"
    with ThreadPoolExecutor(1) as thread:
        one = ProgramCaller(("/bin/sh", "-c", "sleep 1000"), thread, "RMQ_", SystemClock())
        two = ProgramCaller(("/usr/bin/touch", str(marker)), thread, "RMQ_", SystemClock())
        first = asyncio.ensure_future(one.call(a_callback(), 1000))
        await asyncio.sleep(0.2)
        second = asyncio.ensure_future(two.call(a_callback(), 1000))
        await asyncio.sleep(0)
        for each in (second, first):
            each.cancel()
        await asyncio.gather(first, second, return_exceptions=True)
    assert not marker.exists()


async def test_missing_program_and_one_without_permission_are_named(threads, tmp_path):
    path = tmp_path / "move"
    caller = ProgramCaller((str(path),), threads, "RMQ_", SystemClock())
    assert caller.problem == f"there is no program {path}"
    outcome = await caller.call(a_callback(), WAIT_S)
    assert outcome == (CallResult.FAILED, f"{path} was not started: No such file or directory", "")
    path.write_text("#!/bin/sh\nexit 0\n")
    if os.getuid() or not os.access(path, os.X_OK):
        assert caller.problem == f"{path} cannot be executed by this user: chmod +x"
        assert (await caller.call(a_callback(), WAIT_S)).error == f"{path} was not started: Permission denied"
    path.chmod(0o755)
    assert caller.problem == ""
    assert (await caller.call(a_callback(), WAIT_S)).result is CallResult.DELIVERED


async def test_names_of_brokers_are_run_by_no_shell(caller, tmp_path):
    marker = tmp_path / "marker"
    program = caller("print(os.environ['ROLE_CHANGE_BROKER_NAME'])")
    callback = a_callback(a_change(broker_name=f"$(touch {marker}); touch {marker}"))
    assert "touch" in (await program.call(callback, WAIT_S)).output
    assert not marker.exists()
