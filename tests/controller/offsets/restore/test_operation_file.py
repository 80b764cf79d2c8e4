"""The last operations outlive a restart, and are bounded."""

import pytest
from fakes.clock import FakeClock
from restore_site import a_queue

from controller.offsets.restore import operation_file
from controller.offsets.restore.operation_file import FILE_NAME, OperationFile
from controller.offsets.restore.operations import OPERATIONS_MAX, Operation, OperationKind
from controller.offsets.restore.values import PlannedOffset, RestoreStatus
from controller.offsets.storage.embedded_remote import FILE_NAME as STORE_NAME
from controller.offsets.storage.embedded_remote import EmbeddedRemote
from controller.offsets.storage.sqlite_file import FileDamaged, FileOfOtherVersion, FileProblem


def an_operation(number=1, *, queues=1, status=RestoreStatus.RESTORED, **more):
    planned = tuple(PlannedOffset(a_queue(queue), 10, 50, status) for queue in range(queues))
    return Operation(
        operation_id=f"id-{number}",
        kind=OperationKind.RESTORE,
        writer="alice",
        unix_ms=number,
        queues=planned,
        **more,
    )


@pytest.fixture
def file(tmp_path):
    found = OperationFile(tmp_path, FakeClock())
    yield found
    found.close()


def test_operation_outlives_a_restart(tmp_path):
    file = OperationFile(tmp_path, FakeClock())
    file.keep(an_operation())
    file.close()

    file = OperationFile(tmp_path, FakeClock())
    assert file.find("id-1") == an_operation()
    assert file.find("id-2") is None
    file.close()


def test_outcomes_take_the_place_of_what_was_planned(file):
    file.keep(an_operation(status=RestoreStatus.READY, is_finished=False))
    (begun,) = file.last()
    assert (begun.is_finished, begun.queues) == (False, 1)

    file.keep(an_operation(status=RestoreStatus.REFUSED))

    (ended,) = file.last()
    assert (ended.is_finished, ended.queues) == (True, 0)


def test_oldest_operations_are_removed_above_the_limit(file):
    for number in range(OPERATIONS_MAX + 3):
        file.keep(an_operation(number))

    kept = [each.operation_id for each in file.last()]
    assert len(kept) == OPERATIONS_MAX
    assert (kept[0], kept[-1]) == (f"id-{OPERATIONS_MAX + 2}", "id-3")


def test_many_queues_leave_room_for_few_operations(file, monkeypatch):
    monkeypatch.setattr(operation_file, "QUEUES_KEPT_MAX", 5)
    for number in range(3):
        file.keep(an_operation(number, queues=3))
    file.keep(an_operation(3, queues=9))

    # The newest is kept, however large it is.
    assert [each.operation_id for each in file.last()] == ["id-3"]


def test_damaged_operation_is_named(file):
    file.keep(an_operation())
    file._file.connection.execute("UPDATE operations SET body = x'00'")
    with pytest.raises(FileDamaged, match="id-1"):
        file.find("id-1")


def test_operation_of_a_kind_of_a_later_release_is_listed_and_named(file):
    file.keep(an_operation())
    file._file.connection.execute("UPDATE operations SET kind = 'merge'")
    assert [each.kind for each in file.last()] == ["merge"]
    with pytest.raises(FileProblem, match="id-1 is of kind merge"):
        file.find("id-1")


def test_file_of_another_schema_is_refused(tmp_path):
    file = OperationFile(tmp_path, FakeClock())
    file._file.connection.execute("PRAGMA user_version = 9")
    file.close()
    with pytest.raises(FileOfOtherVersion, match=f"{FILE_NAME}: .* has schema 9"):
        OperationFile(tmp_path, FakeClock())


def test_store_of_offsets_and_operations_do_not_take_each_others_file(tmp_path):
    OperationFile(tmp_path, FakeClock()).close()
    EmbeddedRemote(tmp_path, FakeClock()).close_file()
    operations, store = tmp_path / FILE_NAME, tmp_path / STORE_NAME
    kept = operations.rename(tmp_path / "kept")
    store.rename(operations)
    kept.rename(store)
    with pytest.raises(FileOfOtherVersion, match="it is not the operations of an offset manager"):
        OperationFile(tmp_path, FakeClock())
    with pytest.raises(FileOfOtherVersion, match="it is not a store of offsets"):
        EmbeddedRemote(tmp_path, FakeClock())


def test_file_with_the_mark_of_earlier_builds_is_taken_and_marked_anew(tmp_path):
    file = OperationFile(tmp_path, FakeClock())
    file.keep(an_operation())
    (mark,) = file._file.connection.execute("PRAGMA application_id").fetchone()
    file._file.connection.execute(f"PRAGMA application_id = {0x524D_514F}")
    file.close()

    file = OperationFile(tmp_path, FakeClock())
    assert file.find("id-1") == an_operation()
    assert file._file.connection.execute("PRAGMA application_id").fetchone() == (mark,)
    file.close()
