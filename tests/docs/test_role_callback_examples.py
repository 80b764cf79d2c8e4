"""The examples of callbacks do what the document says: the program around a stand-in for `aws`, the SQL in SQLite."""

import os
import re
import sqlite3
import subprocess
from pathlib import Path

import pytest
from callback_builders import a_callback, a_change
from documents import ROOT

from controller.roles.changes import RoleHolder

DOCUMENT = (ROOT / "docs" / "role-addresses-callbacks.md").read_text()
OLD, NEW = RoleHolder(1, "10.0.0.1:10911"), RoleHolder(2, "10.0.0.2:10911")


class MoveAddress:
    """The program of the document, whose calls of `aws` are written to a file."""

    def __init__(self, folder: Path) -> None:
        (script,) = re.findall(r"^```sh\n(#!/bin/sh\n.*?)^```", DOCUMENT, re.MULTILINE | re.DOTALL)
        self._program = folder / "move-address"
        self._program.write_text(script.replace("/var/lib/rocketmq", str(folder)))
        self._program.chmod(0o755)
        self._moves = folder / "moves"
        programs = folder / "bin"
        programs.mkdir()
        (programs / "aws").write_text(f'#!/bin/sh\necho "$*" >> {self._moves}\n')
        (programs / "aws").chmod(0o755)
        self._path = f"{programs}:{os.environ['PATH']}"

    def call(self, **change: object) -> tuple[int, str]:
        callback = a_callback(a_change(**{"broker_name": "broker-a", "new": NEW, **change}))
        environment = {"PATH": self._path, **callback.variables()}
        ended = subprocess.run(
            [self._program], input=callback.body(), env=environment, capture_output=True, check=False, timeout=60
        )
        return ended.returncode, (ended.stdout + ended.stderr).decode().strip()

    @property
    def moves(self) -> list[str]:
        return self._moves.read_text().splitlines() if self._moves.exists() else []


@pytest.fixture
def program(tmp_path: Path) -> MoveAddress:
    return MoveAddress(tmp_path)


def test_program_moves_the_address_of_a_set_to_its_new_master(program: MoveAddress) -> None:
    assert program.call(master_epoch=6) == (0, "")
    (move,) = program.moves
    assert "--network-interface-id eni-0aaaaaaaaaaaaaaa2" in move
    assert "--private-ip-addresses 10.0.0.100 --allow-reassignment" in move


def test_program_ignores_an_older_epoch_and_takes_the_same_one_again(program: MoveAddress) -> None:
    program.call(master_epoch=6)
    assert program.call(master_epoch=5, new=OLD) == (0, "older than the last one: ignored")
    assert len(program.moves) == 1
    assert program.call(master_epoch=6) == (0, "")
    assert program.call(master_epoch=7, new=OLD) == (0, "")
    assert [re.search(r"eni-\w+", move)[0][-1] for move in program.moves] == ["2", "2", "1"]


def test_program_changes_nothing_for_others_and_fails_where_it_cannot_move(program: MoveAddress) -> None:
    assert program.call(new=None)[0] == 0
    assert program.call(broker_name='$(touch x)"; exit 1') == (0, "no address for this set")
    assert program.call(new=RoleHolder(3, "10.0.0.3:10911")) == (1, "no interface for 10.0.0.3:10911")
    assert program.moves == []


def test_statement_of_the_webhook_keeps_the_latest_epoch() -> None:
    (statement,) = re.findall(r"^```sql\n(.*?)^```", DOCUMENT, re.MULTILINE | re.DOTALL)
    database = sqlite3.connect(":memory:")
    database.execute("CREATE TABLE masters (cluster, broker_name, epoch, address, PRIMARY KEY (cluster, broker_name))")
    for epoch, address in ((5, "a"), (7, "c"), (6, "b"), (7, "d")):
        row = {"cluster": "C", "broker": "broker-a", "epoch": epoch, "address": address}
        database.execute(statement, row)
    assert database.execute("SELECT epoch, address FROM masters").fetchall() == [(7, "d")]
    database.close()
