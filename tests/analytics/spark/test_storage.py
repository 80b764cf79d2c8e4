"""Both storages keep the same contract: folders of this machine, and what Hadoop's file systems reach."""

import fcntl
import os
import threading
from pathlib import Path

import pytest

from analytics.spark.storage import HadoopStorage, LocalStorage, open_storage


@pytest.fixture(params=["local", "hadoop"])
def storage(request, spark, tmp_path):
    root = tmp_path / "a folder" / "root=1"
    root.mkdir(parents=True)
    return LocalStorage(root) if request.param == "local" else HadoopStorage(f"file://{root}", spark)


def test_a_file_holds_what_was_written_last(storage):
    assert storage.read("f/m.json") is None
    storage.write("f/m.json", b"one")
    storage.write("f/m.json", b"\0two")
    assert storage.read("f/m.json") == b"\0two"
    assert [(file.path, file.size) for file in storage.files("f")] == [("f/m.json", 4)]


def test_listings_go_through_all_folders_and_leave_out_hidden_names(storage):
    for path in ("a=1/b=2/x", "a=1/y", "a=1/.hidden", "a=1/_temporary/z", "_m/a/w"):
        storage.write(path, b"content")
    assert [file.path for file in storage.files("a=1")] == ["a=1/b=2/x", "a=1/y"]
    assert [file.path for file in storage.files("_m/a")] == ["_m/a/w"]
    assert storage.files("nowhere") == []


def test_both_see_the_same_facts_of_a_file(spark, tmp_path):
    """Also where the name of the root, or all of its path, comes once more within it or below it."""
    root = tmp_path / "history" / "history"
    again = root / str(root).lstrip("/")
    again.mkdir(parents=True)
    for folder in (root, again):
        (folder / "f").write_bytes(b"12345")
    here, there = LocalStorage(root), HadoopStorage(f"file://{root}", spark)
    assert [file.path for file in here.files("")] == sorted(["f", f"{root}/f".lstrip("/")])
    assert here.files("") == there.files("")


def test_what_is_there_is_known_whatever_its_name(storage):
    storage.write("_m/f", b"content")
    assert [storage.exists(path) for path in ("", "_m", "_m/f", "m")] == [True, True, True, False]


def test_files_and_folders_are_deleted_and_what_is_gone_is_no_error(storage):
    for path in ("a/x", "a/b/y", "c/z"):
        storage.write(path, b"content")
    storage.delete("a/x")
    storage.delete("a/x")
    storage.delete("c")
    storage.delete("nowhere/at/all")
    assert [file.path for file in storage.files("")] == ["a/b/y"]


def test_only_empty_folders_are_deleted_as_such(storage):
    storage.write("a/.hidden", b"")
    storage.make_folder("b/c")
    storage.delete_empty_folder("a")
    storage.delete_empty_folder("b/c")
    storage.delete_empty_folder("nowhere")
    assert storage.read("a/.hidden") == b""
    storage.delete_empty_folder("b")
    storage.write("b", b"a file now")
    assert storage.read("b") == b"a file now"


def test_spark_writes_to_the_folder_of_the_storage(storage, spark):
    spark.range(3).write.parquet(storage.uri("t/x=1"))
    files = [file for file in storage.files("t") if file.path.endswith(".parquet")]
    assert files
    assert spark.read.parquet(*(storage.uri(file.path) for file in files)).count() == 3
    for file in files:
        storage.delete(file.path)
    assert storage.files("t") == []
    storage.delete_empty_folder("t/x=1")
    storage.delete_empty_folder("t")
    storage.write("t", b"nothing was left, no checksums either")


def test_a_root_is_a_folder_or_a_uri(spark, tmp_path):
    assert open_storage("history", spark).uri("x").startswith("file:///")
    assert isinstance(open_storage(f"file://{tmp_path}", spark), LocalStorage)


def test_a_lock_is_one_that_network_file_systems_give_too(tmp_path):
    """Theirs are locks of byte ranges: a shared one needs a file that can be read, the only one a file to write to."""
    storage = LocalStorage(tmp_path)
    with storage.reading("rows"):
        held = (each for each in Path("/proc/self/fd").iterdir() if each.resolve().name == ".rows.lock")
        (mine,) = (int(each.name) for each in held)
        assert fcntl.fcntl(mine, fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDWR


def test_readers_share_and_a_writer_waits_for_them(tmp_path):
    order, messages, waits = [], [], threading.Event()

    def say(line):
        messages.append(line)
        waits.set()

    storage = LocalStorage(tmp_path, say)

    def write():
        with storage.writing("rows"):
            order.append("writer")

    with storage.reading("rows"), storage.reading("rows"):
        writer = threading.Thread(target=write)
        writer.start()
        # Another lock is no matter to it.
        with storage.writing("results"):
            order.append("readers")
        assert waits.wait(timeout=60)
        writer.join(timeout=0.3)
        assert writer.is_alive()
        assert order == ["readers"]
    writer.join(timeout=60)
    assert order == ["readers", "writer"]
    assert messages == [f"waiting for another rmq-analytics that uses {tmp_path}"]
