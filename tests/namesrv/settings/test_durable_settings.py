import json
import os
from pathlib import Path

import pytest

from namesrv.settings.durable_settings import load_kv_config
from namesrv.settings.kv_config import KvConfig
from remoting.protocol.codes import RequestCode, ResponseCode
from remoting.server.response_cache import PreparedResponse
from remoting.server.statistics import Histogram
from serving.durable_file import DamagedFile, NotReadable, replace

KV = KvConfig().with_value("ns", "key", "value")
ENTRY = {"namespace": "NS", "key": "k", "value": "v"}


def kv_file(desk):
    return json.loads(Path(desk.config.kv_config_path).read_bytes())


async def test_an_entry_is_on_disk_before_its_answer(desk):
    assert (await desk.request(RequestCode.PUT_KV_CONFIG, ENTRY)).code == 0
    assert kv_file(desk) == {"configTable": {"NS": {"k": "v"}}}
    assert desk.reported == [("kv_changed", "NS", "k", None, "v")]


async def test_a_deletion_is_on_disk_before_its_answer(desk):
    await desk.request(RequestCode.PUT_KV_CONFIG, ENTRY)
    await desk.request(RequestCode.DELETE_KV_CONFIG, ENTRY)
    assert kv_file(desk) == {"configTable": {"NS": {}}}
    assert desk.reported[-1] == ("kv_changed", "NS", "k", "v", None)


@pytest.mark.parametrize("missing", ["namespace", "key"])
async def test_an_entry_without_a_place_is_refused_in_the_words_of_java(desk, missing):
    fields = {key: value for key, value in ENTRY.items() if key != missing}
    answer = await desk.request(RequestCode.PUT_KV_CONFIG, fields)
    assert (answer.code, answer.remark) == (ResponseCode.SYSTEM_ERROR, "namespace or key is null")
    assert (await desk.request(RequestCode.DELETE_KV_CONFIG, fields)).code == 0


async def test_an_entry_that_cannot_be_stored_is_refused_and_not_seen(desk):
    os.mkdir(desk.config.kv_config_path)  # noqa: PTH102  # what stands in the way is a folder
    answer = await desk.request(RequestCode.PUT_KV_CONFIG, ENTRY)
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert desk.config.kv_config_path in answer.remark
    assert (await desk.request(RequestCode.GET_KV_CONFIG, ENTRY)).code == ResponseCode.QUERY_NOT_FOUND
    assert desk.reported[0][0] == "kv_not_stored"


async def test_a_changed_property_counts_at_once_and_is_on_disk(desk):
    answer = await desk.request(RequestCode.UPDATE_NAMESRV_CONFIG, body=b"enableAllTopicList=false\n")
    assert answer.code == 0
    assert (await desk.request(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER)).remark == "disable"
    assert "enableAllTopicList=false\n" in Path(desk.config.config_store_path).read_text()
    assert desk.reported[0][:3] == ("config_changed", ("enableAllTopicList",), ())


async def test_a_change_without_a_body_changes_nothing(desk):
    assert (await desk.request(RequestCode.UPDATE_NAMESRV_CONFIG)).code == 0
    assert not Path(desk.config.config_store_path).exists()


async def test_a_change_that_changes_nothing_writes_nothing(desk):
    for body in (b"enableAllTopicList=true\n", b"nobodyKnows=this\n"):
        assert (await desk.request(RequestCode.UPDATE_NAMESRV_CONFIG, body=body)).code == 0
    assert not Path(desk.config.config_store_path).exists()
    assert desk.reported[1][:3] == ("config_changed", (), ("nobodyKnows",))


async def test_a_configuration_that_cannot_be_stored_stays_as_it_was(desk):
    os.mkdir(desk.config.config_store_path)  # noqa: PTH102  # what stands in the way is a folder
    answer = await desk.request(RequestCode.UPDATE_NAMESRV_CONFIG, body=b"enableAllTopicList=false\n")
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert desk.config.config_store_path in answer.remark
    assert desk.settings.config.enable_all_topic_list
    assert desk.reported[0][0] == "config_not_stored"


async def test_a_switch_that_routes_depend_on_drops_prepared_answers(desk):
    desk.state.route_cache.keep("T", "form", PreparedResponse(b"old", Histogram(())))
    await desk.request(RequestCode.UPDATE_NAMESRV_CONFIG, body=b"supportActingMaster=true\n")
    assert desk.state.route_cache.get("T", "form") is None


def test_kv_table_is_empty_without_a_file(tmp_path):
    assert load_kv_config(tmp_path / "none" / "kvConfig.json") == KvConfig()


def test_load_reads_kv_table_and_removes_temporary_files_of_a_crash(tmp_path):
    path = tmp_path / "kvConfig.json"
    replace(path, KV.encode())
    (tmp_path / ".kvConfig.json.abc.tmp").write_bytes(b"{")
    assert load_kv_config(path) == KV
    assert [each.name for each in tmp_path.iterdir()] == ["kvConfig.json"]


def test_unreadable_kv_file_aborts_load(tmp_path):
    with pytest.raises(NotReadable, match=f"^cannot read {tmp_path}: Is a directory$"):
        load_kv_config(tmp_path)


def test_damaged_kv_file_aborts_load_and_names_the_backup(tmp_path):
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
def test_useless_backup_is_not_offered(tmp_path, backup):
    path = tmp_path / "kvConfig.json"
    path.write_bytes(b"{}")
    if backup is not None:
        (tmp_path / "kvConfig.json.bak").write_bytes(backup)
    with pytest.raises(DamagedFile, match=r"To start with an empty table, move the file away\.$"):
        load_kv_config(path)
