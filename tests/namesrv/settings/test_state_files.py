"""What is read at the start, and the sentences for what cannot be."""

import pytest

from namesrv.settings.kv_config import KvConfig
from namesrv.settings.state_files import load_kv_config
from serving.durable_file import DamagedFile, NotReadable, replace

KV = KvConfig().with_value("ns", "key", "value")


def test_without_a_kv_file_the_table_is_empty(tmp_path):
    assert load_kv_config(tmp_path / "none" / "kvConfig.json") == KvConfig()


def test_the_kv_table_is_read_and_leftovers_of_a_crash_are_removed(tmp_path):
    path = tmp_path / "kvConfig.json"
    replace(path, KV.encode())
    (tmp_path / ".kvConfig.json.abc.tmp").write_bytes(b"{")
    assert load_kv_config(path) == KV
    assert [each.name for each in tmp_path.iterdir()] == ["kvConfig.json"]


def test_a_kv_file_that_cannot_be_read_is_told(tmp_path):
    with pytest.raises(NotReadable, match=f"^cannot read {tmp_path}: Is a directory$"):
        load_kv_config(tmp_path)


def test_a_damaged_kv_file_is_told_with_the_ways_out(tmp_path):
    path = tmp_path / "kvConfig.json"
    replace(path, KV.encode())
    replace(path, b"{")
    with pytest.raises(DamagedFile) as caught:
        load_kv_config(path)
    assert str(caught.value) == (
        f"{path}: is no KV table: Input data was truncated. To start with an empty table, move the file away; "
        f"to start with the table before the last change, put {path}.bak in its place."
    )


@pytest.mark.parametrize("backup", [None, b"", b"}"])
def test_a_backup_that_is_no_help_is_not_offered(tmp_path, backup):
    path = tmp_path / "kvConfig.json"
    path.write_bytes(b"{}")
    if backup is not None:
        (tmp_path / "kvConfig.json.bak").write_bytes(backup)
    with pytest.raises(DamagedFile, match=r"To start with an empty table, move the file away\.$"):
        load_kv_config(path)
