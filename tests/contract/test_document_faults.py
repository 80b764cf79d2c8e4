"""Documents in the embedded store: its process is killed, its file damaged or rolled back, sets are stored too."""

import asyncio
import sqlite3
import threading

import pytest
from controller_builders import SET, a_set

from controller.sets.stored_set import StoredSet
from store.document_store import ChangedDocument, DocumentStore
from store.documents import DOCUMENT_PAGE, DocumentKind, VersionedDocument
from store.embedded import FILE_NAME, MARK_NAME, EmbeddedStore
from store.high_water import HighWater
from store.store import OutcomeUnknown, StoreError, VersionedEntry

POLICY = DocumentKind.SCALING_POLICY
AN_ENTRY = StoredSet(broker_set=a_set())


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "store"


def in_file(folder, statement, *values):
    """Run a statement on the file of a store that is closed, and return its rows."""
    connection = sqlite3.connect(folder / FILE_NAME)
    with connection:
        rows = connection.execute(statement, values).fetchall()
    connection.close()
    return rows


async def stored(folder, **values):
    backend = EmbeddedStore(folder)
    for name, value in values.items():
        await backend.commit_document(POLICY, name, value, (await backend.read_document(POLICY, name)).revision)
    await backend.close()


@pytest.mark.parametrize(
    ("damage", "fault"),
    [
        ("UPDATE documents SET value = CAST('[2]' AS BLOB) WHERE name = 'Orders'", "it is damaged"),
        ("UPDATE documents SET value = '[1]' WHERE name = 'Orders'", "it is damaged"),
        ("UPDATE documents SET revision = 7 WHERE name = 'Orders'", "it is damaged"),
    ],
)
async def test_damaged_document_is_named_and_hides_no_other(folder, damage, fault):
    await stored(folder, Orders=b"[1]", Payments=b"[3]")
    in_file(folder, damage)
    backend = EmbeddedStore(folder)
    documents = DocumentStore(backend)
    await documents.load()
    assert documents.get(POLICY, "Payments") == b"[3]"
    assert documents.names(POLICY) == ["Orders", "Payments"]
    problem = documents.problems(POLICY)["Orders"]
    assert f"the scaling-policy Orders cannot be read: {fault}" in problem
    with pytest.raises(StoreError, match=fault):
        documents.get(POLICY, "Orders")
    with pytest.raises(StoreError, match=fault):
        await documents.change(POLICY, "Orders", lambda _: b"[]")
    await backend.close()


async def test_release_without_documents_counts_all_changes_of_a_file_with_documents(folder):
    backend = EmbeddedStore(folder)
    await backend.commit(SET, AN_ENTRY, 0)
    for value, revision in ((b"[1]", 0), (b"[2]", 1), (None, 2)):
        await backend.commit_document(POLICY, "Orders", value, revision)
    await backend.close()
    # How such a release counts, and which format it takes.
    counting = "SELECT (SELECT coalesce(sum(revision), 0) FROM entries) + revisions FROM removed"
    mark = HighWater(folder / MARK_NAME)
    mark.close()
    assert in_file(folder, counting) == [(4,)] == [(mark.number,)]
    assert in_file(folder, "PRAGMA user_version") == [(1,)]


async def test_file_of_a_release_without_documents_gets_them(folder):
    backend = EmbeddedStore(folder)
    await backend.commit(SET, AN_ENTRY, 0)
    await backend.close()
    in_file(folder, "DROP TABLE documents")
    await stored(folder, Orders=b"[1]")
    backend = EmbeddedStore(folder)
    assert await backend.read_document(POLICY, "Orders") == VersionedDocument(b"[1]", 1)
    assert await backend.load() == {SET: VersionedEntry(AN_ENTRY, 1)}
    await backend.close()


async def test_failed_document_transaction_has_an_unknown_outcome_and_the_next_one_succeeds(folder):
    backend = EmbeddedStore(folder)

    def no_counting(action, table, *_):
        is_counted = action == sqlite3.SQLITE_UPDATE and table == "removed"
        return sqlite3.SQLITE_DENY if is_counted else sqlite3.SQLITE_OK

    backend._thread.submit(backend._connection.set_authorizer, no_counting).result()
    with pytest.raises(OutcomeUnknown, match=FILE_NAME):
        await backend.commit_document(POLICY, "Orders", b"[1]", 0)
    documents = DocumentStore(backend)
    with pytest.raises(OutcomeUnknown, match="the store does not have it"):
        await documents.change(POLICY, "Orders", lambda _: b"[1]")
    backend._thread.submit(backend._connection.set_authorizer, None).result()
    assert await documents.change(POLICY, "Orders", lambda _: b"[1]") == ChangedDocument(None, b"[1]")
    await backend.close()


async def test_removed_store_file_refuses_documents(folder):
    backend = EmbeddedStore(folder)
    (folder / FILE_NAME).unlink()
    for call in (
        backend.commit_document(POLICY, "Orders", b"[1]", 0),
        backend.read_document(POLICY, "Orders"),
        backend.load_documents(POLICY),
    ):
        with pytest.raises(StoreError, match="is gone"):
            await call
    await backend.close()


async def test_commit_of_a_set_waits_for_one_document_at_most(folder):
    backend = EmbeddedStore(folder)
    ended, free = [], threading.Event()
    busy = backend._thread.submit(free.wait)

    async def noted(name, work):
        await work
        ended.append(name)

    waiting = [noted("document", backend.commit_document(POLICY, f"new-{n}", b"[1]", 0)) for n in range(50)]
    waiting += [noted("documents", backend.load_documents(POLICY)), noted("set", backend.commit(SET, AN_ENTRY, 0))]
    tasks = [asyncio.create_task(each) for each in waiting]
    await asyncio.sleep(0)
    free.set()
    await asyncio.gather(*tasks)
    assert ended.index("set") <= 1
    busy.result()
    await backend.close()


async def test_commit_of_a_set_comes_between_the_pages_of_documents(folder):
    backend = EmbeddedStore(folder)
    await stored_pages(backend)
    ended = []

    async def noted(name, work):
        await work
        ended.append(name)

    await asyncio.gather(
        noted("documents", backend.load_documents(POLICY)), noted("set", backend.commit(SET, AN_ENTRY, 0))
    )
    assert ended == ["set", "documents"]
    await backend.close()


async def stored_pages(backend):
    for n in range(2 * DOCUMENT_PAGE):
        await backend.commit_document(POLICY, f"topic-{n}", b"[1]", 0)
