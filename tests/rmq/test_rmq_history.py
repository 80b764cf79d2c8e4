"""`rmq history` shows what a real NameServer recorded, as clients were answered."""

import json
import subprocess
import time
from datetime import UTC, datetime
from types import SimpleNamespace

import pytest
from peers.lab import Lab
from peers.servers import OurNameServer
from peers.waiting import wait_until
from rmq_brokers import ODD_NAMES, register
from rmq_runs import Rmq

from history.landing import LANDING, lines_of
from remoting.clock import SystemClock


def now():
    return datetime.fromtimestamp(SystemClock().unix_us() / 1e6, UTC).isoformat()


def recorded(folder, family):
    return [
        json.loads(line)
        for path in (folder / LANDING).glob(f"family={family}/**/*")
        if path.is_file()
        for line in lines_of(path)
    ]


@pytest.fixture(scope="module")
def past(tmp_path_factory):
    """A NameServer at which broker-a had Orders, then broker-b too, then broker-b alone."""
    folder = tmp_path_factory.mktemp("recorded")
    lab = Lab(folder)
    try:
        server = lab.kept(OurNameServer(folder, "ns", historyDir=folder / "history")).start()
        rmq = Rmq(folder / "operator", NAMESRV_ADDR=server.address, RMQ_HISTORY=str(folder / "history"))
        first = register(server, "broker-a", "127.0.0.1:1", ["Orders", *ODD_NAMES])
        alone = _settled(rmq)
        second = register(server, "broker-b", "127.0.0.1:2", ["Orders"])
        both = _settled(rmq)
        first.close()
        wait_until(lambda: len(_route(rmq)) == 1, seconds=20, what="broker-a has left")
        without = _settled(rmq)
        second.close()
        wait_until(
            lambda: (
                sum(row["event_type"] == "channel_closed" for row in recorded(folder / "history", "broker_state")) == 2
            ),
            seconds=20,
            what="both have left in the files",
        )
        yield SimpleNamespace(rmq=rmq, folder=folder / "history", alone=alone, both=both, without=without)
    finally:
        lab.close()


def _settled(rmq):
    """Return a time, the route that was served then, and nothing that came later."""
    time.sleep(0.05)
    at, rows = now(), _route(rmq)
    time.sleep(0.05)
    return SimpleNamespace(at=at, rows=rows)


def _route(rmq):
    """Return the rows of a route; a set that left may have the topic too, and then the code is 7."""
    return rmq.run("topic", "route", "Orders", "-o", "json").items


@pytest.fixture
def shown(past, run_here, monkeypatch):
    monkeypatch.setenv("RMQ_HISTORY", str(past.folder))
    return run_here


def test_route_of_a_time_is_the_one_that_clients_were_answered(past, shown):
    for moment in (past.alone, past.both, past.without):
        rows = shown("history", "route", "Orders", "--at", moment.at, "-o", "json").items
        shared = [
            {name: row[name] for name in served if name != "onlyAt"}
            for row, served in zip(rows, moment.rows, strict=True)
        ]

        assert shared == [{name: value for name, value in row.items() if name != "onlyAt"} for row in moment.rows]
        assert {(row["state"], row["doubt"]) for row in rows} == {("served", None)}


def test_body_of_a_route_and_the_end_of_a_story(past, shown):
    body = shown("history", "route", "Orders", "--at", past.both.at, "--body").out
    events = shown("history", "timeline", "broker-a", "-o", "json").items

    assert json.loads(json.loads(body)["route"])["queueDatas"]
    assert events[-1]["event"].startswith("master 0 leaves")


def test_process_answers_as_its_command_line_says(past):
    ran = past.rmq.run("--history", str(past.folder), "history", "route", "Orders", "--at", past.both.at)
    absent = past.rmq.run("history", "timeline", "absent")

    assert (ran.code, ran.err, len(ran.out.splitlines())) == (0, "", 3)
    assert (absent.code, absent.err.startswith("rmq: nothing happened to absent")) == (4, True)


def test_difference_of_two_times_has_the_rows_that_only_one_of_them_has(past, shown):
    words = ("history", "route", "Orders", "--at", past.alone.at, "-o", "json", "--diff")
    same = shown(*words, past.alone.at)

    assert [(row["change"], row["brokerName"]) for row in shown(*words, past.without.at).items] == [
        ("removed", "broker-a"),
        ("added", "broker-b"),
    ]
    assert (same.items, same.err) == ([], "rmq: no difference\n")


def test_topic_that_nobody_had_has_no_route(past, shown):
    (row,) = shown("history", "route", "Absent", "--at", past.both.at, "-o", "json").items

    assert (row["state"], row["brokerName"]) == ("no_route", None)


def test_topics_with_odd_names_have_a_past(past, shown):
    for name in ODD_NAMES:
        (row,) = shown("history", "route", name, "--at", past.both.at, "-o", "json").items
        assert (row["topic"], row["brokerName"]) == (name, "broker-a")
        assert "\u3164" not in shown("history", "route", name, "--at", past.both.at).out


def test_past_is_shown_as_table_and_csv(past, shown):
    table = shown("history", "timeline", "broker-b").out
    cells = shown("history", "route", "Orders", "--at", past.both.at, "-o", "csv").out.splitlines()

    assert "registers: master 0 at 127.0.0.1:2" in table
    assert cells[0].startswith("nsId,topic,change,state,brokerName,")
    assert len(cells) == 3


def test_folder_may_stand_in_a_profile(past, shown, monkeypatch, tmp_path):
    config = tmp_path / ".config" / "rmq" / "config.toml"
    config.parent.mkdir(parents=True)
    config.write_text(f'[profiles.prod]\nhistory = "{past.folder}"\n')
    monkeypatch.delenv("RMQ_HISTORY")
    words = ("history", "route", "Orders", "--at", past.both.at)

    assert shown(*words, "--profile", "prod").code == 0
    assert shown(*words).code == 2


@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        (
            ("route", "Orders", "--at", "yesterday"),
            2,
            "--at: 'yesterday' is not a time; write 2026-11-21T20:00:00 (UTC)",
        ),
        (("route", "Orders", "--at", "0001-01-01"), 2, "is no time of a history"),
        (("route", "Orders", "--at", "9000-01-01"), 4, "is still to come"),
        (("route", "Orders", "--at", "2001-01-01"), 4, "recorded anything in the 31 days before"),
        (("route", "Orders", "--ns-id", "other_9876"), 4, "no NameServer other_9876 recorded anything"),
        (("route", "Orders", "--body", "--diff", "2026-01-01"), 2, "--body shows one moment"),
        (("timeline", "absent"), 4, "nothing happened to absent"),
        (("timeline", "a", "--from", "2026-01-02", "--to", "2026-01-01"), 2, "--from must be before --to"),
        (("route", "Orders", "--history", "s3://bucket/history"), 2, "is a URI"),
        (("route", "Orders", "--history", "/nowhere"), 2, "there is no history in /nowhere"),
    ],
)
def test_what_cannot_be_shown_is_a_sentence(shown, words, code, sentence):
    ran = shown("history", *words)

    assert (ran.code, sentence in ran.err) == (code, True), ran


def test_lines_that_cannot_be_read_are_counted(past, shown, tmp_path):
    copy = tmp_path / "history"
    subprocess.run(["cp", "-r", past.folder, copy], check=True)
    file = next(path for path in (copy / LANDING).glob("family=ns_lifecycle/**/*") if path.is_file())
    with file.open("ab") as stream:
        stream.write(b'{"torn\n')
    ran = shown("history", "timeline", "broker-a", "--history", str(copy))

    assert (ran.code, "1 unreadable lines are left out" in ran.err) == (0, True)
