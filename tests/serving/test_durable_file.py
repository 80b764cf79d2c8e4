"""Files that are old or new, never in between, on a real disk and with real crashes."""

import fcntl
import itertools
import json
import os
import random
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from serving.durable_file import (
    NEW_FILE_MODE,
    NotReadable,
    NotWritten,
    backup_of,
    others_may,
    read,
    remove_leftovers,
    replace,
)

KILLS = 20
# Enough that a write takes a while, and every line shows to which content it belongs.
LINES = 20_000

WRITES_FOR_EVER = """
import sys
from pathlib import Path
from serving.durable_file import replace

number = int(sys.argv[2])
while True:
    number += 1
    replace(Path(sys.argv[1]), b"%d\\n" % number * int(sys.argv[3]))
    print(number, flush=True)
"""

# Runs one replacement after the other, ends each at a later line of the module, and tells what it finds then.
CRASHES_AT_EVERY_LINE = """
import itertools, json, os, sys
from pathlib import Path
from serving import durable_file

folder = Path(sys.argv[1])
for crash_at in itertools.count():
    target = folder / str(crash_at) / "kv.json"
    durable_file.replace(target, b"older")
    durable_file.replace(target, b"old")
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
        sys.settrace(trace)
        durable_file.replace(target, b"new")
        os._exit(0)
    crashed = os.waitpid(child, 0)[1] != 0
    found = {"crashed": crashed, "content": target.read_text(), "backup": durable_file.backup_of(target).read_text()}
    durable_file.remove_leftovers(target)
    print(json.dumps(found | {"files": sorted(os.listdir(target.parent))}))
    if not crashed:
        break
"""


def run(code, *arguments):
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


def names_in(folder):
    return sorted(each.name for each in folder.iterdir())


def unfinished_in(folder):
    return [name for name in names_in(folder) if name.endswith(".tmp")]


def test_a_file_is_made_with_its_folders_and_for_its_owner_alone(tmp_path):
    path = tmp_path / "a" / "b" / "kv.json"
    replace(path, b"content")
    assert read(path) == b"content"
    assert path.stat().st_mode & 0o777 == NEW_FILE_MODE == 0o600
    assert names_in(path.parent) == ["kv.json"]


def test_the_content_before_is_kept_beside_the_file_with_the_same_mode_and_owner(tmp_path):
    path = tmp_path / "kv.json"
    path.write_bytes(b"first")
    owner = 12345 if os.geteuid() == 0 else os.getuid()
    os.chown(path, owner, -1)
    path.chmod(0o640)
    replace(path, b"second")
    replace(path, b"third")
    assert (read(path), read(backup_of(path))) == (b"third", b"second")
    for each in (path, backup_of(path)):
        assert (each.stat().st_mode & 0o777, each.stat().st_uid) == (0o640, owner)
    assert names_in(tmp_path) == ["kv.json", "kv.json.bak"]


@pytest.mark.parametrize("before", [b"", b"second"])
def test_a_backup_with_something_in_it_is_not_lost_to_one_with_nothing_new(tmp_path, before):
    path = tmp_path / "kv.json"
    replace(path, b"first")
    replace(path, b"second")
    path.write_bytes(before)
    replace(path, b"second")
    assert (read(path), read(backup_of(path))) == (b"second", b"first")


def test_a_symbolic_link_is_followed_and_stays_one(tmp_path):
    path = tmp_path / "etc" / "ns.conf"
    replace(tmp_path / "data" / "ns.conf", b"first")
    path.parent.mkdir()
    path.symlink_to("../data/ns.conf")
    replace(path, b"second")
    assert path.is_symlink()
    assert read(tmp_path / "data" / "ns.conf") == b"second"
    assert read(tmp_path / "data" / "ns.conf.bak") == b"first"


def test_a_file_that_is_not_there_reads_as_none(tmp_path):
    assert read(tmp_path / "none") is None


def test_what_cannot_be_read_is_reported_with_its_name(tmp_path):
    with pytest.raises(NotReadable) as caught:
        read(tmp_path)
    assert str(caught.value) == f"cannot read {tmp_path}: Is a directory"
    assert (caught.value.path, caught.value.reason) == (tmp_path, "Is a directory")


def test_a_folder_cannot_be_replaced(tmp_path):
    with pytest.raises(NotWritten) as caught:
        replace(tmp_path, b"content")
    assert str(caught.value) == f"cannot write {tmp_path}: Is a directory"


def test_a_file_cannot_stand_in_for_a_folder(tmp_path):
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(NotWritten) as caught:
        replace(tmp_path / "file" / "a" / "kv.json", b"content")
    assert caught.value.reason == f"{tmp_path}/file is not a folder"


def test_a_link_that_leads_to_itself_is_an_error_and_nothing_to_clean(tmp_path):
    path = tmp_path / "loop"
    path.symlink_to("loop")
    with pytest.raises(NotWritten, match=f"^cannot write {path}: "):
        replace(path, b"content")
    remove_leftovers(path)


def test_a_folder_without_write_permission_is_reported_and_the_file_stays(tmp_path):
    path = tmp_path / "kv.json"
    replace(path, b"old")
    code = (
        "import os, sys; from pathlib import Path; from serving.durable_file import replace\n"
        "os.geteuid() or os.setuid(65534)\n"
        "replace(Path(sys.argv[1]), b'new')"
    )
    tmp_path.chmod(0o500)
    done = run(code, path)
    tmp_path.chmod(0o700)
    assert f"NotWritten: cannot write {path}: Permission denied" in done.stderr
    assert (read(path), names_in(tmp_path)) == (b"old", ["kv.json"])


def test_a_folder_in_the_way_of_the_backup_is_reported_and_the_file_stays(tmp_path):
    path = tmp_path / "kv.json"
    replace(path, b"old")
    backup_of(path).mkdir()
    with pytest.raises(NotWritten, match="Is a directory"):
        replace(path, b"new")
    assert (read(path), names_in(tmp_path)) == (b"old", ["kv.json", "kv.json.bak"])


def test_a_full_disk_is_reported_and_the_file_stays_without_anything_unfinished_beside_it(tmp_path):
    path = tmp_path / "kv.json"
    replace(path, b"old")
    code = (
        "import resource, sys; from pathlib import Path; from serving.durable_file import replace\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))\n"
        "replace(Path(sys.argv[1]), b'x' * 5000)"
    )
    done = run(code, path)
    assert f"NotWritten: cannot write {path}: File too large" in done.stderr
    assert (read(path), unfinished_in(tmp_path)) == (b"old", [])


def test_what_a_crash_left_is_removed_but_nothing_else(tmp_path):
    path = tmp_path / "kv[1].json"
    for name in (".kv[1].json.abc.tmp", ".kv[1].json.bak.abc.tmp", "kv[1].json", ".kv1.json.abc.tmp", "kv[1].json.tmp"):
        (tmp_path / name).write_bytes(b"")
    remove_leftovers(path)
    assert names_in(tmp_path) == [".kv1.json.abc.tmp", "kv[1].json", "kv[1].json.tmp"]
    remove_leftovers(tmp_path / "none" / "kv.json")


def test_what_another_process_is_writing_is_left_alone(tmp_path):
    unfinished = tmp_path / ".kv.json.abc.tmp"
    with unfinished.open("wb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        remove_leftovers(tmp_path / "kv.json")
        assert unfinished.exists()
    remove_leftovers(tmp_path / "kv.json")
    assert not unfinished.exists()


def test_a_crash_at_any_line_leaves_the_old_file_or_the_new_one(tmp_path):
    done = run(CRASHES_AT_EVERY_LINE, tmp_path)
    assert done.stderr == ""
    *crashes, end = [json.loads(line) for line in done.stdout.splitlines()]
    assert end == {"crashed": False, "content": "new", "backup": "old", "files": ["kv.json", "kv.json.bak"]}
    assert len(crashes) > 20
    seen = [(each["content"], each["backup"]) for each in crashes]
    assert [moment for moment, _ in itertools.groupby(seen)] == [("old", "older"), ("old", "old"), ("new", "old")]
    assert all(each["files"] == ["kv.json", "kv.json.bak"] for each in crashes)


def test_a_writer_that_is_killed_leaves_the_last_file_it_reported_or_the_one_after_it_whole(tmp_path):
    path = tmp_path / "kv.json"
    chance = random.Random(20)
    reported = 0
    for _ in range(KILLS):
        command = [sys.executable, "-c", WRITES_FOR_EVER, str(path), str(reported), str(LINES)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:
            writer.stdout.readline()
            time.sleep(chance.uniform(0, 0.02))
            writer.kill()
            reported = max([reported + 1, *(int(line) for line in writer.stdout.read().split())])
        lines = read(path).decode().splitlines()
        assert len(lines) == LINES
        assert set(lines) in ({str(reported)}, {str(reported + 1)})
        assert read(backup_of(path)) is None or len(set(read(backup_of(path)).split())) == 1
        reported = int(lines[0])
        remove_leftovers(path)
        assert unfinished_in(tmp_path) == []


@pytest.mark.parametrize(("mode", "may"), [(0o600, False), (0o644, False), (0o606, True)])
def test_file_that_any_user_may_write_is_told_from_others(tmp_path, mode, may):
    file = tmp_path / "namesrv.properties"
    file.touch()
    file.chmod(mode)
    assert others_may(stat.S_IWOTH, file) is may


def test_no_file_is_a_file_that_others_may_write_not_even_in_a_folder_that_they_may(tmp_path, monkeypatch):
    tmp_path.chmod(0o777)
    monkeypatch.chdir(tmp_path)
    assert not others_may(stat.S_IWOTH, Path())
    assert not others_may(stat.S_IWOTH, tmp_path / "none")
