"""What a log line looks like, and which are written."""

import logging
import os
import subprocess
import sys

import msgspec
import pytest
from fakes.clock import FakeClock
from fakes.lines import Lines

from namesrv.observability.log_events import BROKER_EXPIRED, KV_CHANGED
from serving.logging.logs import TEXT_CHARS_MAX, Logs, console_line, json_line, open_logs
from serving.logging.server_events import CONNECTION_OPENED, FRAME_REJECTED, REQUEST_FAILED, SERVER_READY


def raised(error, password=None):
    """Return the error with a traceback; the frame holds a password."""
    try:
        raise error
    except type(error) as caught:
        return caught


@pytest.fixture
def lines():
    return Lines()


@pytest.fixture
def clock():
    return FakeClock(unix_ms=1_700_000_000_000)


@pytest.fixture
def logs(lines, clock):
    logs = Logs(lines, json_line(), clock, {"ns_id": "host:9876", "version": "0.1.0"})
    yield logs
    logs.close(1)


def test_a_line_is_one_json_object_that_begins_with_what_a_reader_looks_for(logs, lines):
    logs.write(BROKER_EXPIRED, cluster="c1", broker="broker-a", silent_ms=120_001)
    (line,) = lines
    assert line == (
        b'{"timestamp":"2023-11-14T22:13:20.000Z","level":"warning","event":"broker_expired","ns_id":"host:9876",'
        b'"version":"0.1.0","cluster":"c1","broker":"broker-a","silent_ms":120001}'
    )


def test_a_console_line_shows_control_characters_instead_of_sending_them(lines, clock):
    logs = Logs(lines, console_line(), clock, {})
    logs.write(FRAME_REJECTED, peer="10.0.0.1:5", error="a\x1b[2Jb\nc")
    logs.write(REQUEST_FAILED, peer="10.0.0.1:5", exc_info=raised(ValueError("\x1b[2J")))
    logs.close(1)
    shown = b"\n".join(lines)
    assert b"frame_rejected" in shown
    assert b"Traceback" in shown
    assert b"\x1b" not in shown
    assert len(lines[0].splitlines()) == 1


def test_levels_below_the_least_are_not_written_and_the_least_can_change(logs, lines):
    logs.write(CONNECTION_OPENED, peer="10.0.0.1:5")
    logs.set_level("debug")
    logs.write(CONNECTION_OPENED, peer="10.0.0.1:5")
    logs.set_level("error")
    logs.write(BROKER_EXPIRED, broker="broker-a")
    assert [line["level"] for line in lines.decoded()] == ["debug"]


def test_audit_lines_are_written_at_every_level(logs, lines):
    logs.set_level("error")
    logs.write(KV_CHANGED, namespace="n", key="k")
    assert [(line["level"], line["audit"]) for line in lines.decoded()] == [("info", True)]


def test_written_lines_are_counted_by_level(logs):
    logs.write(BROKER_EXPIRED, broker="broker-a")
    logs.write(CONNECTION_OPENED, peer="10.0.0.1:5")
    assert logs.written == {"debug": 0, "info": 0, "warning": 1, "error": 0}


def test_a_peer_that_reconnects_for_every_bad_frame_is_limited(logs, lines):
    for port in range(10):
        logs.write(FRAME_REJECTED, peer=f"10.0.0.1:{port}", error="no frame")
    logs.write(FRAME_REJECTED, peer="10.0.0.2:1", error="no frame")
    assert len(lines) == 6


def test_debug_and_audit_lines_are_not_limited_by_subject(logs, lines):
    logs.set_level("debug")
    for number in range(10):
        logs.write(CONNECTION_OPENED, peer="10.0.0.1:5")
        logs.write(KV_CHANGED, namespace="n", key="k", old=None, new=str(number), peer="10.0.0.1:5")
    assert len(lines) == 20
    assert [line["new"] for line in lines.decoded() if line.get("audit")] == [str(number) for number in range(10)]


def test_errors_that_repeat_are_logged_when_their_pause_is_over(logs, lines, clock):
    for opaque in range(10):
        logs.write(REQUEST_FAILED, peer="10.0.0.1:5", opaque=opaque, exc_info=KeyError("x"))
    assert len(lines) == 5
    logs.write_held()
    assert len(lines) == 5
    clock.pass_ms(10_000)
    logs.write_held()
    last = lines.decoded()[-1]
    assert (last["opaque"], last["suppressed"], last["timestamp"]) == (9, 4, "2023-11-14T22:13:20.000Z")
    assert last["exception"][0]["exc_type"] == "KeyError"


def test_an_error_of_another_kind_is_not_held_for_the_first(logs, lines):
    for _ in range(10):
        logs.write(REQUEST_FAILED, peer="10.0.0.1:5", exc_info=KeyError("x"))
    logs.write(REQUEST_FAILED, peer="10.0.0.1:5", exc_info=ValueError("x"))
    assert lines.decoded()[-1]["exception"][0]["exc_type"] == "ValueError"


def test_the_end_writes_what_was_held_and_gives_the_output_its_time(lines, clock):
    logs = Logs(lines, json_line(), clock, {})
    for opaque in range(6):
        logs.write(REQUEST_FAILED, peer="10.0.0.1:5", opaque=opaque)
    logs.close(2.5)
    assert lines.decoded()[-1]["opaque"] == 5
    assert lines.closed_within_s == 2.5


def test_lost_lines_are_counted_once_by_the_next_one(logs, lines):
    logs.write(KV_CHANGED, key="a")
    lines.dropped = 7
    logs.write(KV_CHANGED, key="b")
    logs.write(KV_CHANGED, key="c")
    assert [line.get("lines_dropped") for line in lines.decoded()] == [None, 7, None]
    assert logs.lines_dropped == 7


def test_what_a_peer_sent_is_cut(logs, lines):
    logs.write(FRAME_REJECTED, error="x" * 1_000_000, reason=["y" * 1_000_000, {"z": "z" * 1_000_000}, 1])
    logs.write(REQUEST_FAILED, exc_info=ValueError("x" * 1_000_000))
    assert max(map(len, lines)) < 4 * TEXT_CHARS_MAX


def test_what_json_cannot_hold_does_not_cost_the_line(logs, lines):
    logs.write(KV_CHANGED, key="\udcff", new=2**70)
    logs.write(KV_CHANGED, key=os.path)
    assert lines.decoded()[0]["key"] == "'\\udcff'"
    assert "posixpath" in lines.decoded()[1]["key"]


def test_an_exception_shows_where_it_was_raised_and_no_variables(logs, lines):
    logs.write(REQUEST_FAILED, exc_info=raised(KeyError("missing"), password="hunter2"))
    assert b"test_logs.py" in lines[0]
    assert b"hunter2" not in lines[0]


def test_an_exception_is_logged_as_text_while_nothing_more_can_be_loaded(logs, lines, monkeypatch):
    monkeypatch.setitem(sys.modules, "structlog.tracebacks", None)
    logs.write(REQUEST_FAILED, exc_info=raised(OSError("too many open files")))
    assert lines.decoded()[-1]["exception"].endswith("OSError: too many open files\n")


def test_libraries_are_logged_from_warnings_on(logs, lines):
    logger = logging.getLogger("asyncio")
    logger.warning("slow %s", "callback")
    logger.debug("never")
    logging.getLogger("aiohttp.server").error("Error handling request", exc_info=raised(OSError("gone")))
    logged = [(line["event"], line["level"], line["logger"], line["message"]) for line in lines.decoded()]
    assert logged == [
        ("library_logged", "warning", "asyncio", "slow callback"),
        ("library_logged", "error", "aiohttp.server", "Error handling request"),
    ]
    assert lines.decoded()[-1]["exception"][0]["exc_value"] == "gone"


def test_a_record_whose_arguments_do_not_fit_is_written_without_them(logs, lines):
    record = logging.LogRecord("asyncio", logging.ERROR, __file__, 1, "100% wrong %d", ("text",), None)
    logs._library_handler.handle(record)
    assert lines.decoded()[0]["message"] == "100% wrong %d"


def test_what_libraries_log_is_one_line_for_all_that_log_to_one_output(logs, lines, clock):
    second = Logs(lines, json_line(), clock, {"ctl_id": "host:9878"})
    elsewhere = Lines()
    third = Logs(elsewhere, json_line(), clock, {})
    logging.getLogger("asyncio").warning("once")
    assert [line.get("ns_id") for line in lines.decoded()] == ["host:9876"]
    assert len(elsewhere) == 1
    third.close(1)
    # The first to end does not end it for the others.
    logs.close(1)
    logging.getLogger("asyncio").warning("still")
    assert [line.get("ctl_id") for line in lines.decoded()] == [None, "host:9878"]
    second.close(1)


def test_after_the_end_libraries_are_no_longer_logged(lines, clock):
    logs = Logs(lines, json_line(), clock, {})
    logs.close(1)
    logging.getLogger("asyncio").warning("late")
    assert lines == []


@pytest.mark.parametrize(
    ("log_format", "is_terminal", "is_json"),
    [("auto", True, False), ("auto", False, True), ("json", True, True), ("console", False, False)],
)
def test_the_format_follows_the_option_and_the_terminal(monkeypatch, lines, clock, log_format, is_terminal, is_json):
    monkeypatch.setattr(os, "isatty", lambda _: is_terminal)
    logs = open_logs(lines, log_format, "warning", clock, {"ns_id": "host:1", "version": "1"})
    logs.write(BROKER_EXPIRED, broker="broker-a")
    logs.write(SERVER_READY)
    logs.close(1)
    assert len(lines) == 1
    assert lines[0].startswith(b"{") == is_json


def test_a_line_on_standard_output_is_there_after_the_end():
    program = (
        "from namesrv.observability.log_events import BROKER_EXPIRED\n"
        "from serving.logging.writer import LineWriter\n"
        "from serving.logging.logs import STDOUT, open_logs\n"
        "from remoting.clock import SystemClock\n"
        "logs = open_logs(LineWriter(STDOUT), 'json', 'info', SystemClock(), {'ns_id': 'h:1', 'version': '1'})\n"
        "logs.write(BROKER_EXPIRED, broker='broker-a')\n"
        "logs.close(5)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True, timeout=60)
    assert msgspec.json.decode(done.stdout)["broker"] == "broker-a"
