"""Stored operations: one of each topic under way, those that have ended, and what cannot be read."""

import msgspec
import pytest
from msgspec.structs import replace
from resize_builders import CREATED_UNIX_MS, a_resize

from controller.scaling.execution import operations as module
from controller.scaling.execution.operations import OperationExists, OperationMoved, Operations, encode_operation
from serving.shapes.scaling import ResizePhase
from store.document_store import DocumentStore
from store.documents import DocumentKind
from store.embedded import EmbeddedStore
from store.store import StoreError

UNDER_WAY = DocumentKind.SCALING_OPERATION


@pytest.fixture
async def backend(tmp_path):
    backend = EmbeddedStore(tmp_path)
    yield backend
    await backend.close()


@pytest.fixture
async def operations(backend):
    return await loaded(backend)


async def loaded(backend):
    documents = DocumentStore(backend)
    await documents.load()
    return Operations(documents)


def named(topic, number=0, **values):
    created = CREATED_UNIX_MS + number
    return a_resize(id=f"{topic}.{created}", topic=topic, created_unix_ms=created, **values)


def ended(operation):
    return operation.entered(ResizePhase.DONE, operation.created_unix_ms + 1)


async def test_operation_of_a_topic_is_found_by_its_topic_and_its_id(backend, operations):
    operation = named("orders")
    await operations.add(operation)
    for each in (operations, await loaded(backend)):
        assert each.of_topic("orders") == operation
        assert each.find(operation.id) == operation
        assert each.under_way() == [operation]
    assert operations.find("orders") is None


async def test_topic_has_one_operation_under_way(operations):
    await operations.add(named("orders"))
    with pytest.raises(
        OperationExists, match=r"orders\.\d+ resizes orders already and is in PLANNED: wait for its end"
    ):
        await operations.add(named("orders", 1))
    await operations.add(named("payments"))
    assert [each.topic for each in operations.under_way()] == ["orders", "payments"]


async def test_operation_that_has_changed_meanwhile_is_not_replaced(operations):
    operation = named("orders")
    await operations.add(operation)
    aborted = replace(operation, phase=ResizePhase.ABORTED)
    await operations.replace(operation, aborted)
    with pytest.raises(OperationMoved):
        await operations.replace(operation, replace(operation, phase=ResizePhase.PRECHECK))
    assert operations.of_topic("orders") == aborted


async def test_current_operation_is_as_it_is_stored(operations):
    operation = named("orders")
    with pytest.raises(OperationMoved):
        operations.check_stored(operation)
    await operations.add(operation)
    operations.check_stored(operation)
    with pytest.raises(OperationMoved):
        operations.check_stored(replace(operation, reason="another"))


async def test_change_decides_on_the_newest_state(operations):
    operation = named("orders")
    await operations.add(operation)
    newest = replace(operation, phase=ResizePhase.SEED)
    await operations.replace(operation, newest)
    before, after = await operations.change(operation, lambda each: replace(each, reason="why"))
    assert (before, after) == (newest, replace(newest, reason="why"))
    assert operations.of_topic("orders") == after


async def test_change_that_is_refused_changes_nothing(operations):
    operation = named("orders")
    await operations.add(operation)

    def refuse(_):
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        await operations.change(operation, refuse)
    assert operations.of_topic("orders") == operation


async def test_operation_whose_place_another_has_is_not_changed(operations):
    first, second = named("orders"), named("orders", 1)
    await operations.add(first)
    await operations.end(ended(first))
    await operations.add(second)
    with pytest.raises(OperationMoved, match="has ended meanwhile"):
        await operations.change(first, lambda each: each)


async def test_end_can_be_repeated_and_takes_no_other_operation_away(backend, operations):
    first, second = ended(named("orders")), named("orders", 1)
    await operations.add(named("orders"))
    await operations.end(first)
    await operations.end(first)
    assert (operations.of_topic("orders"), operations.find(first.id)) == (None, first)
    await operations.add(second)
    # As a controller does that was killed between the two steps.
    await operations.end(first)
    assert operations.of_topic("orders") == second
    assert (await loaded(backend)).ended() == [(first.id, first.topic, first.created_unix_ms)]


async def test_only_the_newest_ended_operations_stay(operations, monkeypatch):
    monkeypatch.setattr(module, "ENDED_MAX", 3)
    every = [ended(named("orders", number)) for number in range(5)]
    for each in every:
        await operations.end(each)
    assert [each.id for each in operations.ended()] == [each.id for each in every[:1:-1]]
    assert operations.find(every[0].id) is None


# Decoded once


async def test_operation_is_decoded_again_only_once_it_has_changed(operations):
    operation = named("orders")
    await operations.add(operation)
    await operations.end(ended(named("payments")))
    (first,), (past,) = operations.under_way(), operations.ended()
    assert operations.under_way()[0] is first
    assert operations.find_ended(past.id) is operations.find_ended(past.id)
    after = replace(operation, reason="another")
    await operations.replace(operation, after)
    assert operations.under_way() == [after]


async def test_operations_beyond_what_is_kept_are_found_as_well(operations, monkeypatch):
    every = [ended(named("orders", number)) for number in range(5)]
    monkeypatch.setattr(module, "KEPT_BYTES_MAX", 2 * len(encode_operation(every[0])))
    for each in every:
        await operations.end(each)
    newest_first = every[::-1]
    assert [each.id for each in operations.ended()] == [each.id for each in newest_first]
    assert [operations.find_ended(each.id) for each in operations.ended()] == newest_first
    # The one that was found first is not kept any more.
    oldest = operations.find_ended(newest_first[0].id)
    assert oldest == newest_first[0]
    for each in every[:4]:
        operations.find_ended(each.id)
    assert operations.find_ended(newest_first[0].id) is not oldest


async def test_what_was_loaded_is_listed_as_before(backend, operations):
    await operations.add(named("orders"))
    await operations.end(ended(named("payments")))
    await backend.commit_document(UNDER_WAY, "broken", b"[]", 0)
    other = await loaded(backend)
    await other.read_all()
    assert (other.under_way(), other.ended()) == (operations.under_way(), operations.ended())
    assert list(other.problems()) == ["broken"]


# What cannot be read


def newer(operation):
    return msgspec.json.encode(msgspec.json.decode(encode_operation(operation)) | {"format": 3, "colour": "red"})


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (b'{"id":1}', "cannot be read"),
        (b"[]", "cannot be read"),
        (newer(named("orders")), "has format 3, and this release reads formats up to 2"),
        (b'{"format":1,"colour":"red"}', "cannot be read"),
    ],
)
async def test_damaged_operation_is_a_problem_and_hides_no_other(backend, text, problem):
    await backend.commit_document(UNDER_WAY, "orders", text, 0)
    operations = await loaded(backend)
    await operations.add(named("payments"))
    assert [each.topic for each in operations.under_way()] == ["payments"]
    (shown,) = operations.problems().items()
    assert shown[0] == "orders"
    assert problem in shown[1]
    with pytest.raises(StoreError, match="the operation stored as orders"):
        operations.of_topic("orders")


@pytest.mark.parametrize("change", ["add", "replace", "change", "end"])
async def test_damaged_operation_is_not_overwritten(backend, change):
    await backend.commit_document(UNDER_WAY, "orders", b"[]", 0)
    operations, operation = await loaded(backend), named("orders")
    calls = {
        "add": lambda: operations.add(operation),
        "replace": lambda: operations.replace(operation, ended(operation)),
        "change": lambda: operations.change(operation, ended),
        "end": lambda: operations.end(ended(operation)),
    }
    with pytest.raises(StoreError, match="the operation stored as orders cannot be read"):
        await calls[change]()
    assert (await backend.read_document(UNDER_WAY, "orders")).value == b"[]"
