"""Files that are mounts of their own, as `docker run -v file:file` and Kubernetes' subPath make them.

Nothing can be renamed to them. The mounts are in a mount namespace of the server's process alone.
"""

import itertools
import json
import os
import subprocess
import sys

import pytest
from peers.disks import own_mounts
from peers.jars import REPOSITORY
from peers.programs import cannot_run
from peers.waiting import wait_until
from peers.wire import GET_KV_CONFIG, PUT_KV_CONFIG, SUCCESS, UPDATE_CONFIG

ENTRY = {"namespace": "NS", "key": "k"}

#: Mounts a file at another one, then becomes the command. Gets pairs of paths, `--`, and the command.
MOUNTING = """
set -e
while [ "$1" != -- ]; do
  mount --bind "$1" "$2"
  shift 2
done
shift
exec "$@"
"""

# Replaces a mounted file again and again, ends each time at a later line of the module, and tells what it finds then.
CRASHES_AT_EVERY_LINE = """
import json, os, sys
from pathlib import Path
from serving import durable_file

target = Path(sys.argv[1])
OLD, NEW = b"old" * 2000, b"new!" * 3000
for contents in ((OLD, NEW), (NEW, OLD), (b"", NEW)):
    for crash_at in range(10_000):
        target.write_bytes(contents[0])
        child = os.fork()
        if child == 0:
            line = 0
            def trace(frame, event, argument):
                global line
                if frame.f_code.co_filename != durable_file.__file__:
                    return None
                line += 1
                if line > crash_at:
                    os._exit(9)
                return trace
            write = os.write
            sys.settrace(trace)
            durable_file.replace(target, contents[1])
            os._exit(0)
        crashed = os.waitpid(child, 0)[1] != 0
        raw = target.read_bytes()
        found = durable_file.read_latest(target)
        durable_file.recover(target)
        again = target.read_bytes()
        names = {OLD: "old", NEW: "new", b"": "empty"}
        print(json.dumps({
            "crashed": crashed, "raw": names.get(raw, "torn"), "found": names.get(found, "torn"),
            "again": names.get(again, "torn"),
            "files": sorted({*os.listdir(target.parent)} - {"kv.json", "kv.json.bak"}),
        }))
        if not crashed:
            break
"""


@pytest.fixture
def mounted():
    command = own_mounts()
    if command is None:
        cannot_run("this system lets nobody mount a file of its own")

    def wrapper(*pairs):
        return [*command, "sh", "-c", MOUNTING, "sh", *map(str, itertools.chain(*pairs)), "--"]

    return wrapper


def events(server, name):
    lines = (line for line in server.process.text().splitlines() if line.startswith("{"))
    return [line for line in map(json.loads, lines) if line["event"] == name]


def test_changes_by_requests_are_stored_in_bind_mounted_files(lab, mounted, tmp_path):
    kv, config = tmp_path / "outside.json", tmp_path / "outside.properties"
    kv.write_text('{"configTable":{}}')
    folder = tmp_path / "namesrv"
    pairs = [(kv, folder / "kvConfig.json"), (config, folder / "namesrv.properties")]
    server = lab.idle_name_server("namesrv", wrapper=mounted(*pairs))
    (folder / "kvConfig.json").touch()
    config.write_bytes((folder / "namesrv.properties").read_bytes())
    server.start()
    for value in ("v" * 1000, "w", "x" * 10_000):
        assert server.caller.request(PUT_KV_CONFIG, ENTRY | {"value": value}).code == SUCCESS
        assert json.loads(kv.read_text()) == {"configTable": {"NS": {"k": value}}}
    assert server.caller.request(UPDATE_CONFIG, {}, b"supportActingMaster=true").code == SUCCESS
    assert "supportActingMaster=true" in config.read_text().splitlines()
    wait_until(lambda: len(events(server, "mounted_file_stored")) >= 2, seconds=10, what="a line for each file")
    assert [each["path"] for each in events(server, "mounted_file_stored")] == [str(at) for _, at in pairs]
    server.process.kill()
    server.start()
    assert server.caller.request(GET_KV_CONFIG, ENTRY).fields["value"] == "x" * 10_000


def test_crash_at_any_line_of_a_write_in_place_leaves_the_old_or_the_new_content(mounted, tmp_path):
    outside, folder = tmp_path / "outside", tmp_path / "folder"
    folder.mkdir()
    for each in (outside, folder / "kv.json"):
        each.touch()
    command = [*mounted((outside, folder / "kv.json")), sys.executable, "-c", CRASHES_AT_EVERY_LINE]
    env = os.environ | {"PYTHONPATH": str(REPOSITORY)}
    done = subprocess.run(
        [*command, str(folder / "kv.json")], capture_output=True, text=True, check=False, timeout=120, env=env
    )
    assert done.stderr == ""
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert {each["found"] for each in found} == {"old", "new", "empty"}
    assert all(each["again"] == each["found"] for each in found)
    assert any(each["raw"] == "torn" for each in found), "no crash came between the two ends of a write"
    # Nothing is left of what was under way.
    assert [each for each in found if each["files"]] == []
    assert [each["found"] for each in found if not each["crashed"]] == ["new", "old", "new"]
