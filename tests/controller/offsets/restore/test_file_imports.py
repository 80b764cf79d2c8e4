"""Files of brokers and clients become offsets, and back; what cannot be used is named with its place."""

import pytest
from restore_site import a_queue

from controller.offsets.restore.file_imports import (
    PROBLEMS_MAX,
    FileOwner,
    FileRecord,
    UnusableFile,
    export_broker_file,
    export_client_file,
    export_records,
    import_broker_file,
    import_client_file,
    import_records,
)

OF_BROKER = FileOwner("DefaultCluster", broker_name="broker-a")
OF_CLIENT = FileOwner("DefaultCluster", group="billing")
OFFSETS = {a_queue(0): 50, a_queue(1): 60}


@pytest.mark.parametrize(
    ("emit", "read"),
    [
        (export_broker_file, lambda data: import_broker_file(data, OF_BROKER)),
        (export_client_file, lambda data: import_client_file(data, OF_CLIENT)),
        (export_records, lambda records: import_records(records, OF_BROKER)),
    ],
    ids=["broker", "client", "rocksdb"],
)
def test_exported_file_is_imported_as_it_was(emit, read):
    imported = read(emit(OFFSETS))

    assert imported.offsets == OFFSETS
    assert imported.problems == []


def test_entries_that_cannot_be_used_are_named_with_their_place():
    text = b'{"offsetTable":{\n"orders@billing":{0:5},\n"orders@other":{0:-7},\n"orders@wide@broadcast":{0:1}}}'
    imported = import_broker_file(text, OF_BROKER)

    assert imported.offsets == {a_queue(0): 5}
    assert imported.problems[0].startswith("line 3, column")
    assert "-7" in imported.problems[0]
    assert "broadcasting" in imported.problems[1]


def test_light_queues_are_not_imported():
    imported = import_broker_file(b'{"lmqOffsetTable":{"%LMQ%x@g":4},"offsetTable":{}}', OF_BROKER)

    assert imported.offsets == {}
    assert "light queues" in imported.problems[0]


def test_one_group_of_a_file_is_imported():
    text = b'{"offsetTable":{"orders@billing":{0:5},"orders@other":{0:7}}}'
    assert import_broker_file(text, OF_BROKER._replace(group="billing")).offsets == {a_queue(0): 5}


@pytest.mark.parametrize(
    ("data", "place"),
    [
        (b'{"offsetTable":{"orders@billing":{0:5}', "line 1, column 39"),
        (b"{}", "offsetTable is missing"),
        (b"\xff\xfe", "byte 0 is no UTF-8"),
    ],
)
@pytest.mark.parametrize("read", [import_broker_file, import_client_file])
def test_broken_file_is_refused_with_the_place(read, data, place):
    with pytest.raises(UnusableFile, match=place):
        read(data, OF_CLIENT)


def test_record_that_cannot_be_used_is_named_by_its_number():
    records = [FileRecord(b"orders@billing", b'{"offsetTable":{"0":5}}'), FileRecord(b"orders@other", b"{")]
    imported = import_records(records, OF_BROKER)

    assert imported.offsets == {a_queue(0): 5}
    assert imported.problems[0].startswith("record 1: line 1")


def test_record_that_comes_twice_is_refused():
    record = FileRecord(b"orders@billing", b'{"offsetTable":{"0":5}}')
    with pytest.raises(UnusableFile, match="occurs twice: which one counts"):
        import_records([record, record], OF_BROKER)


def test_problems_of_a_file_are_limited():
    entries = ",".join(f'"orders@g{number}":{{0:-1}}' for number in range(PROBLEMS_MAX + 5))
    imported = import_broker_file(f'{{"offsetTable":{{{entries}}}}}'.encode(), OF_BROKER)

    assert len(imported.problems) == PROBLEMS_MAX + 1
    assert imported.problems[-1] == "and 5 more"


def test_file_that_no_reader_would_understand_is_not_written():
    with pytest.raises(UnusableFile, match="one group"):
        export_client_file({a_queue(0): 1, a_queue(0, group="other"): 1})
    with pytest.raises(UnusableFile, match="one broker set"):
        export_broker_file({a_queue(0): 1, a_queue(0, broker="broker-b"): 1})
    with pytest.raises(UnusableFile, match="cannot be written"):
        export_records({a_queue(0, topic="a@b"): 1})
