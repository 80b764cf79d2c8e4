"""What servers answer about the past: the routes of `rmq history`, when they changed, and lives of brokers."""

import json
import os
import subprocess
import sys
import time
from datetime import datetime
from itertools import pairwise

import msgspec
import pytest
from peers.jars import REPOSITORY
from written_history import SECOND, THEN, Server, now, seal_all

from history.past.answers import ITEMS_MAX, answer_to, memory_bytes_max
from history.past.broker_events import broker_rows
from history.past.broker_life import life_of
from history.past.moments import NotRecorded
from history.past.rows import History
from history.rows import BrokerRef
from history.schemas import BROKER_STATE
from history.server_rows import lifecycle, tick
from remoting.protocol.shapes.history import PastQuery

#: Has 16 MiB more than it has once all is imported, and says on standard error how early the kernel ends it.
LITTLE_MEMORY = """
import sys
from pathlib import Path
from history.past import answers
pages = int(Path("/proc/self/statm").read_text().split()[0])
answers.MEMORY_BYTES_MAX = pages * 4096 + 16 * 1024**2
answers.main()
print(Path("/proc/self/oom_score_adj").read_text(), file=sys.stderr)
"""


@pytest.fixture(autouse=True)
def all_closed():
    yield
    seal_all()


def ms(at):
    return round(at.timestamp() * 1000)


def answer(folder, kind, name, last, first=None, broker_id=0):
    first = last if first is None else first
    query = PastQuery(
        kind=kind, folder=str(folder), name=name, first_ms=ms(first), last_ms=ms(last), broker_id=broker_id
    )
    return answer_to(query)


def expires(server, at, silent_ms, *, left=()):
    """Write that broker 0 of the set `a` expires; `left` are the ids of those that stay."""
    columns = {"set_ids": left, "set_addrs": tuple(f"a:{i}" for i in left), "set_clusters": ("C",) * len(left)}
    server.row(
        at,
        BROKER_STATE,
        "expired",
        BrokerRef("C", "a", 0, "a:1"),
        reason="timeout",
        last_heartbeat_time=int(at.timestamp() * 1e6) - silent_ms * 1000,
        silent_ms=silent_ms,
        timeout_ms=30_000,
        role="master",
        set_cluster="C",
        enable_acting_master=True,
        **columns,
    )


def flaps(server, times, every=SECOND):
    """Write that broker 0 of the set `a` registers and expires so often, and return when it last expired."""
    for n in range(times):
        server.registers(THEN + n * every, "a")
        expires(server, THEN + (n + 0.75) * every, round(every.total_seconds() * 250))
    return THEN + (times - 0.25) * every


def life(folder, last, first=THEN, broker_id=0):
    found = answer(folder, "timeline", "a", last, first, broker_id).life
    began = ms(THEN)
    return [((each.first_unix_ms - began) // 1000, each.state, each.role) for each in found]


def test_route_of_a_moment_has_what_was_served_and_by_whom(tmp_path):
    server = Server(tmp_path)
    server.starts(THEN)
    server.registers(THEN, "a", orders=4)
    server.ticks(THEN, THEN + 60 * SECOND)
    found = answer(tmp_path, "route", "orders", THEN + 20 * SECOND)
    assert (found.topic, found.at_unix_ms) == ("orders", ms(THEN + 20 * SECOND))
    ((ns_id, doubt, route),) = [(each.ns_id, each.doubt, each.route) for each in found.items]
    assert (ns_id, doubt, route.queue_datas[0].read_queue_nums) == ("host_9876", "", 4)
    with pytest.raises(NotRecorded, match="recorded anything"):
        answer(tmp_path, "route", "orders", THEN - 40 * 86_400 * SECOND)


def test_changes_of_a_route_are_those_of_the_topic_and_of_its_broker_sets(tmp_path):
    server = Server(tmp_path)
    server.starts(THEN)
    server.registers(THEN, "a", orders=4, other=1)
    server.registers(THEN, "b", other=1)
    server.has(THEN + 10 * SECOND, "a", "orders", 8)
    server.has(THEN + 20 * SECOND, "b", "other", 2)
    expires(server, THEN + 60 * SECOND, 31_000)
    server.ticks(THEN, THEN + 90 * SECOND)
    found = answer(tmp_path, "route-changes", "orders", THEN + 90 * SECOND, THEN + SECOND)
    events = [((each.unix_ms - ms(THEN)) // 1000, each.broker_name, each.event) for each in found.items]
    assert (events, found.is_complete) == ([(10, "a", "queues"), (60, "a", "expired")], True)


def test_more_changes_than_fit_are_answered_as_the_last_ones(tmp_path):
    server = Server(tmp_path)
    server.starts(THEN)
    server.registers(THEN, "a", orders=4)
    for n in range(ITEMS_MAX + 1):
        server.has(THEN + SECOND + n * SECOND / 100, "a", "orders", 4 + n % 2)
    server.ticks(THEN, THEN + 30 * SECOND)
    found = answer(tmp_path, "route-changes", "orders", THEN + 30 * SECOND, THEN + SECOND)
    assert (len(found.items), found.is_complete) == (ITEMS_MAX, False)
    assert found.items[-1].unix_ms == ms(THEN + SECOND + ITEMS_MAX * SECOND / 100)


def test_life_of_a_broker_has_its_silence_before_it_expired_and_its_return(tmp_path):
    server = Server(tmp_path)
    server.starts(THEN)
    server.registers(THEN + 5 * SECOND, "a", orders=4)
    expires(server, THEN + 60 * SECOND, 31_000)
    server.registers(THEN + 80 * SECOND, "a", orders=4)
    server.ticks(THEN, THEN + 120 * SECOND)
    assert life(tmp_path, THEN + 120 * SECOND) == [
        (0, "absent", None),
        (5, "registered", "master"),
        (29, "silent", "master"),
        (60, "absent", None),
        (80, "registered", "master"),
    ]


def test_slave_that_acts_for_a_missing_master_has_that_role(tmp_path):
    server = Server(tmp_path)
    server.starts(THEN)
    expires(server, THEN + 10 * SECOND, 1000, left=(1, 2))
    server.ticks(THEN, THEN + 30 * SECOND)
    after = THEN + 30 * SECOND
    assert life(tmp_path, after, broker_id=1)[-1] == (10, "registered", "acting_master")
    assert life(tmp_path, after, broker_id=2)[-1] == (10, "registered", "slave")


def test_times_of_which_a_name_server_saw_nothing_are_unobserved(tmp_path):
    server = Server(tmp_path)
    server.starts(THEN)
    server.registers(THEN + SECOND, "a", orders=4)
    server.ticks(THEN, THEN + 60 * SECOND)
    server.note(THEN + 180 * SECOND, tick({"interval_ms": 120_000}))
    server.note(THEN + 190 * SECOND, lifecycle("stopping"))
    assert life(tmp_path, THEN + 200 * SECOND)[1:] == [
        (1, "registered", "master"),
        (60, "unobserved", None),
        (180, "registered", "master"),
        (190, "unobserved", None),
    ]


def test_life_ends_with_the_last_tick_of_a_server_that_was_killed(tmp_path):
    server = Server(tmp_path)
    server.starts(THEN)
    server.registers(THEN + SECOND, "a", orders=4)
    server.ticks(THEN, THEN + 60 * SECOND)
    assert life(tmp_path, THEN + 4 * 3600 * SECOND)[1:] == [(1, "registered", "master"), (60, "unobserved", None)]


def test_broker_that_a_snapshot_shows_was_registered_before_the_wanted_time(tmp_path):
    server = Server(tmp_path)
    server.shows(THEN - 3600 * SECOND, "a", "orders", 8)
    server.ticks(THEN, THEN + 30 * SECOND)
    assert life(tmp_path, THEN + 30 * SECOND) == [(0, "registered", "master")]


def test_life_of_a_flapping_broker_is_its_last_spans_and_read_quickly(tmp_path):
    server = Server(tmp_path)
    server.starts(THEN)
    last = flaps(server, 6000)
    seal_all()
    rows = broker_rows(History(tmp_path), "a", THEN, last)
    began = time.process_time()
    life_of(rows, 0, ms(THEN) * 1000, ms(last) * 1000)
    assert time.process_time() - began < 3
    found = answer(tmp_path, "timeline", "a", last, THEN)
    assert (len(found.life), found.life[-1].last_unix_ms, found.is_complete) == (ITEMS_MAX, ms(last), False)
    assert {each.state for each in found.life} == {"registered", "silent", "absent"}
    assert all(a.last_unix_ms == b.first_unix_ms for a, b in pairwise(found.life))


def test_life_ends_now_whatever_the_clock_of_a_browser_says(tmp_path):
    server, began = Server(tmp_path), now() - 60 * SECOND
    server.starts(began)
    server.registers(began, "a", orders=4)
    server.ticks(began, began + 60 * SECOND)
    found = answer(tmp_path, "timeline", "a", now() + 3600 * SECOND, began)
    assert [each.state for each in found.life] == ["registered"]
    assert found.life[-1].last_unix_ms == found.last_unix_ms <= ms(now() + SECOND)
    later = answer(tmp_path, "timeline", "a", now() + 3600 * SECOND, now() + 1800 * SECOND)
    assert (later.life, later.events) == ([], [])


def test_process_that_needs_too_much_memory_answers_so_and_is_the_first_that_the_kernel_ends(tmp_path):
    server = Server(tmp_path)
    server.starts(THEN)
    server.row(THEN, BROKER_STATE, "conflict", BrokerRef("C", "a", 0, "a:1"), reason="x" * 32 * 1024**2)
    seal_all()
    query = PastQuery(kind="timeline", folder=str(tmp_path), name="a", first_ms=ms(THEN), last_ms=ms(THEN + SECOND))
    done = subprocess.run(
        [sys.executable, "-c", LITTLE_MEMORY],
        input=msgspec.json.encode(query),
        capture_output=True,
        check=False,
        env=os.environ | {"PYTHONPATH": str(REPOSITORY)},
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert "request a shorter period" in found["problem"]
    assert done.stderr.split() == [b"1000"]


@pytest.mark.parametrize(("usable_mib", "mib"), [(2048, 384), (512, 170), (1, 96)])
def test_two_processes_leave_a_third_of_the_memory_to_the_server(usable_mib, mib):
    assert memory_bytes_max(usable_mib * 1024**2) // 1024**2 == mib


def test_process_answers_names_of_any_kind_and_says_why_not(tmp_path):
    topic = "--help '\"<b> 订单"
    server = Server(tmp_path)
    server.starts(THEN)
    server.registers(THEN, "a", **{topic: 3})
    server.ticks(THEN, THEN + 60 * SECOND)
    seal_all()

    def ask(at):
        query = PastQuery(kind="route", folder=str(tmp_path), name=topic, first_ms=ms(at), last_ms=ms(at))
        command = [sys.executable, "-m", "history.past.answers"]
        env = os.environ | {"PYTHONPATH": str(REPOSITORY)}
        done = subprocess.run(command, input=msgspec.json.encode(query), capture_output=True, check=False, env=env)
        return done.returncode, done.stdout.decode()

    code, out = ask(THEN + 20 * SECOND)
    assert (code, json.loads(out)["items"][0]["route"]["queueDatas"][0]["readQueueNums"]) == (0, 3)
    code, out = ask(datetime.fromtimestamp(86_400, THEN.tzinfo))
    assert (code, json.loads(out)["items"]) == (0, [])
    assert "recorded anything" in json.loads(out)["problem"]
