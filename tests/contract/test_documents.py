"""What every store does with documents, and the leader's view of them; the same tests for each kind of store."""

import asyncio
import json

import pytest
from controller_builders import SET, a_set

from controller.sets.stored_set import StoredSet
from store import document_store
from store.document_store import ChangedDocument, DocumentStore
from store.documents import (
    DOCUMENT_BYTES_MAX,
    DOCUMENT_NAME_CHARACTERS_MAX,
    DOCUMENT_PAGE,
    OPERATION_KINDS,
    DocumentKind,
    VersionedDocument,
)
from store.store import DocumentRefused, EntryMoved

OPERATION, HISTORY, POLICY, RESTART, _ = OPERATION_KINDS
A_VALUE = b'{"phase":"SEED"}'


def of_bytes(size):
    return json.dumps("x" * (size - 2)).encode()


async def test_missing_document_has_revision_0(backend):
    assert await backend.read_document(POLICY, "Orders") == VersionedDocument()
    assert dict(await backend.load_documents(POLICY)) == {}


async def test_committed_documents_survive_a_restart(opened):
    backend = await opened()
    first = await backend.commit_document(OPERATION, "Orders", A_VALUE, 0)
    second = await backend.commit_document(OPERATION, "Orders", b"{}", first)
    assert second > first > 0
    backend = await opened()
    assert await backend.read_document(OPERATION, "Orders") == VersionedDocument(b"{}", second)
    assert dict(await backend.load_documents(OPERATION)) == {"Orders": VersionedDocument(b"{}", second)}


async def test_documents_of_one_name_are_separate_by_kind(backend):
    revisions = {
        kind: await backend.commit_document(kind, "Orders", kind.join('""').encode(), 0) for kind in DocumentKind
    }
    for kind, revision in revisions.items():
        expected = VersionedDocument(b'"%s"' % kind.encode(), revision)
        assert dict(await backend.load_documents(kind)) == {"Orders": expected}


async def test_document_names_may_be_any_text_up_to_255_characters(backend):
    names = ["", "a/b", "%", "é中", "a\0", "A", "a", "\U0010ffff" * DOCUMENT_NAME_CHARACTERS_MAX]
    revisions = {name: await backend.commit_document(POLICY, name, b"{}", 0) for name in names}
    assert {name: kept.revision for name, kept in (await backend.load_documents(POLICY)).items()} == revisions
    for name in names:
        assert await backend.read_document(POLICY, name) == VersionedDocument(b"{}", revisions[name])


async def test_document_commit_with_another_revision_is_refused(backend):
    revision = await backend.commit_document(POLICY, "Orders", A_VALUE, 0)
    for other in (0, revision - 1, revision + 1):
        for value in (b"{}", None):
            with pytest.raises(EntryMoved, match="scaling-policy Orders"):
                await backend.commit_document(POLICY, "Orders", value, other)
    assert await backend.read_document(POLICY, "Orders") == VersionedDocument(A_VALUE, revision)


async def test_removed_document_can_be_created_again(opened):
    backend = await opened()
    revision = await backend.commit_document(POLICY, "Orders", A_VALUE, 0)
    assert await backend.commit_document(POLICY, "Orders", None, revision) > revision
    assert await backend.read_document(POLICY, "Orders") == VersionedDocument()
    backend = await opened()
    assert dict(await backend.load_documents(POLICY)) == {}
    again = await backend.commit_document(POLICY, "Orders", b"{}", 0)
    assert await backend.read_document(POLICY, "Orders") == VersionedDocument(b"{}", again)


async def test_largest_document_is_stored_and_a_larger_one_refused_with_its_size(backend):
    largest = of_bytes(DOCUMENT_BYTES_MAX)
    revision = await backend.commit_document(HISTORY, "1", largest, 0)
    assert await backend.read_document(HISTORY, "1") == VersionedDocument(largest, revision)
    with pytest.raises(DocumentRefused, match=r"'1' cannot be stored: it has 262145 bytes; shorten it to 262144"):
        await backend.commit_document(HISTORY, "1", of_bytes(DOCUMENT_BYTES_MAX + 1), revision)
    assert await backend.read_document(HISTORY, "1") == VersionedDocument(largest, revision)


@pytest.mark.parametrize(
    ("name", "value", "fault"),
    [
        ("x" * 256, b"{}", "256 characters; shorten it to 255"),
        ("\ud800", b"{}", "cannot encode"),
        ("Orders", b"{", "not JSON"),
        ("Orders", b'"\xff"', "not JSON"),
        ("Orders", b"", "not JSON"),
    ],
)
async def test_document_that_no_store_takes_is_refused_with_its_fault(backend, name, value, fault):
    with pytest.raises(DocumentRefused, match=fault):
        await backend.commit_document(POLICY, name, value, 0)
    assert dict(await backend.load_documents(POLICY)) == {}


async def test_documents_of_several_pages_are_all_loaded(backend):
    names = [f"topic-{n}" for n in range(2 * DOCUMENT_PAGE + 1)]
    for name in names:
        await backend.commit_document(POLICY, name, b"{}", 0)
    await backend.commit_document(OPERATION, "other", b"{}", 0)
    assert sorted(await backend.load_documents(POLICY)) == sorted(names)


async def test_documents_and_sets_are_separate(backend, listener):
    revision = await backend.commit(SET, StoredSet(broker_set=a_set()), 0)
    await backend.commit_document(POLICY, SET, A_VALUE, 0)
    assert {name: kept.revision for name, kept in (await backend.load()).items()} == {SET: revision}
    assert listener.entries == []


# The view of the leader


@pytest.fixture
async def documents(backend):
    documents = DocumentStore(backend)
    await documents.load()
    return documents


def counted(before):
    return str(int(before or b"0") + 1).encode()


async def test_changed_document_is_known_and_stored(documents, backend):
    assert await documents.change(POLICY, "Orders", counted) == ChangedDocument(None, b"1")
    assert await documents.change(POLICY, "Orders", counted) == ChangedDocument(b"1", b"2")
    assert documents.get(POLICY, "Orders") == (await backend.read_document(POLICY, "Orders")).value == b"2"
    assert documents.names(POLICY) == ["Orders"]
    assert documents.get(OPERATION, "Orders") is None


async def test_removed_document_is_not_known_any_more(documents, backend):
    await documents.change(POLICY, "Orders", counted)
    assert await documents.change(POLICY, "Orders", lambda _: None) == ChangedDocument(b"1", None)
    assert documents.names(POLICY) == []
    assert await backend.read_document(POLICY, "Orders") == VersionedDocument()
    assert await documents.change(POLICY, "Orders", counted) == ChangedDocument(None, b"1")


async def test_unchanged_document_is_not_stored(documents, backend):
    await documents.change(POLICY, "Orders", counted)
    before = await backend.read_document(POLICY, "Orders")
    assert await documents.change(POLICY, "Orders", lambda value: value) == ChangedDocument(b"1", b"1")
    assert await documents.change(POLICY, "Payments", lambda _: None) == ChangedDocument(None, None)
    assert await backend.read_document(POLICY, "Orders") == before


async def test_refused_change_of_a_document_changes_nothing(documents, backend):
    await documents.change(POLICY, "Orders", counted)
    with pytest.raises(DocumentRefused):
        await documents.change(POLICY, "Orders", lambda _: of_bytes(DOCUMENT_BYTES_MAX + 1))
    with pytest.raises(ZeroDivisionError):
        await documents.change(POLICY, "Orders", lambda _: 1 // 0)
    assert documents.get(POLICY, "Orders") == b"1"


async def test_simultaneous_changes_of_one_document_take_turns(documents):
    changes = await asyncio.gather(*(documents.change(POLICY, "Orders", counted) for _ in range(20)))
    assert sorted(int(each.after) for each in changes) == list(range(1, 21))


async def test_change_of_a_document_that_another_changed_is_decided_anew(documents, backend):
    await documents.change(POLICY, "Orders", counted)
    revision = (await backend.read_document(POLICY, "Orders")).revision
    await backend.commit_document(POLICY, "Orders", b"40", revision)
    assert await documents.change(POLICY, "Orders", counted) == ChangedDocument(b"40", b"41")


async def test_new_leader_knows_the_documents_of_the_one_before(documents, opened):
    await documents.change(OPERATION, "1", counted)
    await documents.change(HISTORY, "2", counted)
    loaded = DocumentStore(await opened())
    await loaded.load(lambda: False)
    assert loaded.names(OPERATION) == []
    await loaded.load()
    assert (loaded.get(OPERATION, "1"), loaded.get(HISTORY, "2")) == (b"1", b"1")
    assert await loaded.change(OPERATION, "1", counted) == ChangedDocument(b"1", b"2")


async def test_number_of_documents_of_a_kind_is_limited(documents, monkeypatch):
    monkeypatch.setattr(document_store, "DOCUMENTS_OF_KIND_MAX", 2)
    for name in ("a", "b"):
        await documents.change(POLICY, name, counted)
    with pytest.raises(DocumentRefused, match="there are 2 of them; remove some"):
        await documents.change(POLICY, "c", counted)
    await documents.change(POLICY, "a", counted)
    await documents.change(OPERATION, "c", counted)


async def test_document_calls_are_told(opened):
    calls = []

    backend = await opened(emit=lambda event: calls.append((event.operation, event.result)))
    await backend.commit_document(POLICY, "Orders", A_VALUE, 0)
    with pytest.raises(EntryMoved):
        await backend.commit_document(POLICY, "Orders", A_VALUE, 0)
    await backend.read_document(POLICY, "Orders")
    await backend.load_documents(POLICY)
    assert [each for each in calls if "document" in each[0]] == [
        ("commit_document", "ok"),
        ("commit_document", "moved"),
        ("read_document", "ok"),
        ("load_documents", "ok"),
    ]
