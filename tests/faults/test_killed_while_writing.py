"""A NameServer that is killed at any moment while it writes what outlives it.

How many kills the long run has is the environment variable KILLS; 200 if it is not set.
"""

import json
import os
import random
import socket
import threading
import time
from dataclasses import dataclass

import pytest
from peers.figures import print_figures
from peers.scripted import Line
from peers.wire import GET_CONFIG, GET_KV_CONFIG, PUT_KV_CONFIG, SUCCESS, UPDATE_CONFIG

SOAK_KILLS = int(os.environ.get("KILLS", "200"))
CI_KILLS = 12
SEED = 11

ENTRY = {"namespace": "NS", "key": "number"}
#: An option that changes nothing here; its value tells which write it was.
OPTION = "waitSecondsForService"
#: Enough entries that a file takes a while to write.
PADDING = {f"key-{number}": "v" * 100 for number in range(2_000)}

#: As a crash in the middle of a write leaves it: what was being written is not whole.
LEFTOVERS = (".kvConfig.json.left1.tmp", ".kvConfig.json.bak.left2.tmp", ".namesrv.properties.left3.tmp")


@dataclass
class Written:
    """Numbers that one writer sent and had acknowledged."""

    sent: int
    acknowledged: int


class Writer(threading.Thread):
    """Writes one number after the other over a line of its own until its server is gone."""

    def __init__(self, server, write, number):
        super().__init__(daemon=True)
        self._line = Line(socket.create_connection(("127.0.0.1", server.port), timeout=10))
        self._write = write
        self.written = Written(number, number)
        self.start()

    def run(self):
        try:
            while True:
                self.written.sent += 1
                answer = self._write(self._line, self.written.sent)
                assert answer.code == SUCCESS, answer
                self.written.acknowledged = self.written.sent
        except OSError:
            self._line.close()


def put_entry(line, number):
    return line.request(PUT_KV_CONFIG, ENTRY | {"value": str(number)})


def update_option(line, number):
    return line.request(UPDATE_CONFIG, {}, f"{OPTION}={number}\n".encode())


@pytest.fixture
def server(lab):
    server = lab.idle_name_server("namesrv", configWhiteList=OPTION)
    server.folder.mkdir(parents=True, exist_ok=True)
    (server.folder / "kvConfig.json").write_text(json.dumps({"configTable": {"NS": PADDING | {"number": "0"}}}))
    server.start()
    assert server.caller.request(UPDATE_CONFIG, {}, f"{OPTION}=0\n".encode()).code == SUCCESS
    return server


def entry_on_disk(server):
    """Return the entry's number; the file has to be whole, and its backup not newer."""
    number = number_in(server.folder / "kvConfig.json")
    backup = server.folder / "kvConfig.json.bak"
    assert not backup.exists() or number_in(backup) <= number
    return number


def number_in(kv_file):
    (entries,) = json.loads(kv_file.read_text())["configTable"].values()
    number = entries.pop("number")
    assert entries == PADDING
    return int(number)


def option_on_disk(server, others):
    """Return the option's number; the file has to be whole, with all the lines that it had before."""
    lines = (server.folder / "namesrv.properties").read_text().splitlines()
    (ours,) = [line for line in lines if line.startswith(f"{OPTION}=")]
    assert [line for line in lines if is_setting(line) and line != ours] == others
    return int(ours.partition("=")[2])


def is_setting(line):
    return bool(line) and not line.startswith("#")


def unfinished_in(folder):
    return {path.name for path in folder.iterdir() if path.name.endswith(".tmp")}


def kill_again_and_again(server, times):
    """Return how many writes were acknowledged, how many of the last ones were on disk and not, and leftovers seen."""
    chance = random.Random(SEED)
    text = (server.folder / "namesrv.properties").read_text().splitlines()
    others = [line for line in text if is_setting(line) and not line.startswith(f"{OPTION}=")]
    acknowledged = found_new = found_old = leftovers = entry = option = 0
    for _ in range(times):
        writers = [Writer(server, put_entry, entry), Writer(server, update_option, option)]
        time.sleep(chance.uniform(0, 0.2))
        server.process.kill()
        for writer in writers:
            writer.join(timeout=10)
        found = entry_on_disk(server), option_on_disk(server, others)
        for number, writer in zip(found, writers, strict=True):
            assert writer.written.acknowledged <= number <= writer.written.sent
            found_new += number == writer.written.sent
            found_old += number < writer.written.sent
        acknowledged += sum(w.written.acknowledged for w in writers) - entry - option
        entry, option = found
        leftovers += bool(unfinished_in(server.folder))
        for name in LEFTOVERS:
            (server.folder / name).write_bytes(b'{"configTable":{"NS":{"number":"999')
        server.start()
        assert unfinished_in(server.folder) == set()
        assert server.caller.request(GET_KV_CONFIG, ENTRY).fields["value"] == str(entry)
        assert f"{OPTION}={option}" in server.caller.request(GET_CONFIG).body.decode().splitlines()
    return f"{acknowledged} writes acknowledged, {found_new} last ones on disk, {found_old} not, {leftovers} leftovers"


def test_server_killed_during_writes_has_every_acknowledged_change(server):
    kill_again_and_again(server, CI_KILLS)


@pytest.mark.soak
@pytest.mark.timeout(SOAK_KILLS * 10)
def test_server_killed_hundreds_of_times_has_every_acknowledged_change(server, capsys):
    figures = kill_again_and_again(server, SOAK_KILLS)
    print_figures(capsys, f"killed: {SOAK_KILLS} times, {figures}")
