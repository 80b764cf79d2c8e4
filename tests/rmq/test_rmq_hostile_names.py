"""Names that somebody chose who may create topics and register brokers: text everywhere, and never a command."""

import contextlib
import csv
import io
import json
import os
import re
import socket
import sys
import unicodedata
from types import SimpleNamespace

import pytest
from interactive_shells import SHELL_S, SHELLS, InteractiveShell
from peers.programs import require
from peers.scripted import Line, ScriptedBroker
from peers.waiting import wait_until
from rmq_brokers import register

AWAY = "127.0.0.1:1"
#: Of topics: our NameServer takes any that a terminal shows.
TOPICS = [
    'it\'s "quoted" `twice`',
    "<script>alert(1)</script><img src=x onerror=alert(1)>",
    "订单主题",
    "x" * 255,
    "safe-gnp.exe",
    "filled\u3164\ufe0f\u034f",
    '=HYPERLINK("http://evil";"x")',
    "a;=cmd|'/c calc'!A0",
    "\uff1dcmd|calc",
    "@SUM(1)",
    "-2+3",
    'comma, "quote"',
    "%RETRY%<script>",
    "--yes",
    "$(touch pwned)",
]
#: Of brokers and clusters: hidden characters are refused.
BROKERS = ["<script>broker</script>", "broker \"b\" 'c'", "经纪人-甲", "b" * 255, "=1+1", "--help"]
#: What a cell must not begin with, also behind a semicolon.
FORMULA = re.compile("(?:^|;)[=+\\-@\t\r\n\uff1d\uff0b\uff0d\uff20]")
HIDDEN = {"Cc", "Cf", "Cs", "Zl", "Zp"}


@pytest.fixture
def odd(servers, site):
    """The site with brokers of odd names that have the odd topics, at the first NameServer alone."""
    lines = [register(servers.ns1, name, AWAY, TOPICS) for name in BROKERS]
    yield SimpleNamespace(run=lambda *words: site.rmq.run(*words, "-n", servers.ns1.address), ns1=servers.ns1)
    for each in lines:
        each.close()


def is_shown_as_text(text):
    return not any(unicodedata.category(each) in HIDDEN for each in text.replace("\n", ""))


def test_tables_show_odd_names_as_text_one_line_for_each(odd):
    topics = odd.run("topic", "list", "--all")
    brokers = odd.run("broker", "list", "--no-runtime")
    route = odd.run("topic", "route", TOPICS[1])

    for ran, rows in ((topics, len(TOPICS) + 3), (brokers, len(BROKERS) + 1), (route, len(BROKERS))):
        assert (ran.code, len(ran.out.splitlines())) == (0, rows + 1), ran
        assert is_shown_as_text(ran.out + ran.err)
    assert "<script>broker</script>" in brokers.out
    assert r"filled\u3164\ufe0f\u034f" in topics.out
    assert "订单主题" in topics.out
    assert "x" * 255 in topics.out


def test_json_has_exactly_the_names(odd):
    topics = odd.run("topic", "list", "--all", "-o", "jsonl")
    brokers = odd.run("broker", "list", "--no-runtime", "-o", "json")

    assert {json.loads(line)["topic"] for line in topics.out.split("\n")[:-1]} >= set(TOPICS)
    assert {row["brokerName"] for row in brokers.items} == {*BROKERS, "broker-a"}


def test_csv_has_a_row_for_each_name_and_no_formula(odd):
    for words, wanted in (
        (("topic", "list", "--all"), len(TOPICS) + 3),
        (("topic", "route", "a;=cmd|'/c calc'!A0"), len(BROKERS)),
    ):
        ran = odd.run(*words, "-o", "csv")
        rows = list(csv.reader(io.StringIO(ran.out)))
        assert (ran.code, len(rows), {len(row) for row in rows}) == (0, wanted + 1, {len(rows[0])}), ran
        cells = [cell for row in rows[1:] for cell in row]
        assert [cell for cell in cells if FORMULA.search(cell)] == []
        assert is_shown_as_text("".join(cells))


def test_unknown_name_and_those_like_it_are_one_line_of_text(odd):
    for wanted in ("safe\x1b[2J\r\n.exe", "safe\u202egnp.exx", "<script>alert(2)</script>"):
        ran = odd.run("topic", "route", wanted)
        assert (ran.code, ran.err.count("\n"), is_shown_as_text(ran.err)) == (4, 1, True), ran
        assert "did you mean" in ran.err


def test_broker_with_control_characters_in_its_name_is_refused_by_the_name_server(servers):
    line = Line(socket.create_connection(("127.0.0.1", servers.ns1.port)))
    broker = ScriptedBroker(line, "b\x1b[2J", address=AWAY, cluster="C")
    with contextlib.closing(line), pytest.raises(AssertionError, match="characters that are not shown"):
        broker.register({"Orders": 2, "Other": 2})


# Completion


@pytest.fixture
def rmq_on_path(site, tmp_path):
    """The environment of a shell in which `rmq` is a program."""
    program = tmp_path / "bin" / "rmq"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m rmq "$@"\n')
    program.chmod(0o755)
    return site.rmq.environment | {"PATH": f"{program.parent}:{os.environ['PATH']}"}


#: Beside the safe one of each beginning, names that a shell would run or take for something else.
COMPLETED = [
    "Safe-1",
    "Evil$(touch pwned)",
    "Evil`touch pwned`",
    "Evil;touch pwned",
    "Evil|touch pwned",
    "Evil&touch pwned",
    "Evil>pwned",
    "Evil name",
    "Evil*",
    "Evil'\"",
    "Evil!!",
    "Evil\\",
    "Evil~",
    "Evil{a,b}",
    "--yes",
    "-y",
    "订单",
]


@pytest.mark.broad
@pytest.mark.parametrize("name", SHELLS)
def test_shell_completes_safe_names_and_runs_none(name, servers, site, rmq_on_path, tmp_path):
    require(name)
    more = register(servers.ns1, "broker-b", AWAY, COMPLETED)
    folder = tmp_path / "folder"
    folder.mkdir()
    shell = InteractiveShell(name, folder, rmq_on_path)
    try:
        # A name is offered for a second: a machine that does much else may need a second try.
        wait_until(
            lambda: shell.line_after("rmq topic show Saf\t").rstrip() == "rmq topic show Safe-1",
            seconds=SHELL_S,
            what="the name is completed",
        )
        # The only candidates: what is unsafe is not offered.
        assert shell.line_after("rmq topic show Evil\t\t").rstrip() == "rmq topic show Evil"
        assert shell.line_after("rmq topic show 订\t").rstrip() == "rmq topic show 订单"
        # Words that are typed are text, too. Without quotes zsh itself would run what is in $().
        for word in ("'$(touch pwned)'", "'`touch pwned`'", "\\$\\(touch\\ pwned\\)"):
            assert shell.line_after(f"rmq topic show {word}\t").startswith("rmq topic show")
        shell.line_after("rmq topic delete \t\t")
        assert "--yes" not in shell.line_after("rmq topic delete \t")
    finally:
        shell.close()
        more.close()

    assert not list(folder.glob("*pwned*"))
