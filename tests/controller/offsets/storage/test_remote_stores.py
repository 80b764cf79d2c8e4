"""What both remote stores promise: rows are written at the revision they were decided on, and read as they are."""

import pytest
from peers.etcd import running_etcd
from remote_stores import all_rows, embedded, leading
from stored_offset_builders import an_offset, row_name

from controller.offsets.storage.remote import RemoteRow, RowMoved, RowStored, RowWrite
from controller.offsets.values import OFFSET_MAX

ODD_NAMES = ["a/b", "a%2Fb", "订单", "{", '"', ",", "a b", "%RETRY%payments", "\0", "~", "."]


@pytest.fixture(scope="module")
def etcd(tmp_path_factory):
    with running_etcd(tmp_path_factory.mktemp("etcd")) as etcd:
        yield etcd


@pytest.fixture(params=["embedded", pytest.param("etcd", marks=pytest.mark.etcd)])
async def remote(request, tmp_path):
    if request.param == "embedded":
        async with embedded(tmp_path) as store:
            yield store
    else:
        async with leading(request.getfixturevalue("etcd").endpoints, str(tmp_path)) as store:
            yield store


def a_write(offset=100, group="payments", *, revision=0):
    return RowWrite(row_name(group), {0: an_offset(offset), 3: an_offset(offset + 1)}, revision)


async def stored(remote, *writes):
    """Write rows that are at their revisions, and return the new ones."""
    outcome = await remote.put(writes)
    assert all(isinstance(each, RowStored) for each in outcome.results), outcome
    return [each.revision for each in outcome.results]


async def test_rows_are_read_as_they_were_written(remote):
    odd = [
        RowWrite(row_name(name, name, name, cluster=name, namespace=name), {0: an_offset()}, 0) for name in ODD_NAMES
    ]
    writes = [a_write(), a_write(OFFSET_MAX - 1, "other"), *odd]
    revisions = await stored(remote, *writes)
    rows, foreign = await all_rows(remote)
    assert rows == {
        write.of: RemoteRow(write.queues, revision) for write, revision in zip(writes, revisions, strict=True)
    }
    assert foreign == []


async def test_row_at_another_revision_is_not_written_and_shown_as_it_is(remote):
    (revision,) = await stored(remote, a_write())
    outcome = await remote.put([a_write(500), a_write(7, "other")])
    assert outcome.results[0] == RowMoved(RemoteRow(a_write().queues, revision))
    # The rows that stand where they were decided on do not wait for it.
    assert isinstance(outcome.results[1], RowStored)
    (later,) = await stored(remote, a_write(500, revision=revision))
    assert later > revision


async def test_write_that_is_repeated_finds_itself(remote):
    (revision,) = await stored(remote, a_write(100))
    (again,) = (await remote.put([a_write(100)])).results
    assert again == RowMoved(RemoteRow(a_write(100).queues, revision))


async def test_row_that_is_gone_has_moved(remote):
    (revision,) = await stored(remote, a_write())
    assert (await remote.delete({row_name(): revision})).results == [RowStored(0)]
    assert (await remote.put([a_write(500, revision=revision)])).results == [RowMoved(RemoteRow())]
    assert (await all_rows(remote))[0] == {}


async def test_row_made_anew_has_a_revision_of_its_own(remote):
    (first,) = await stored(remote, a_write())
    await remote.delete({row_name(): first})
    (second,) = await stored(remote, a_write())
    assert second > first
    (moved,) = (await remote.delete({row_name(): first})).results
    assert isinstance(moved, RowMoved)


async def test_ten_thousand_rows_are_stored_and_read_in_pages(remote):
    writes = [RowWrite(row_name(f"g{n:05}"), {0: an_offset(n)}, 0) for n in range(10_000)]
    revisions = []
    for at in range(0, len(writes), 1000):
        outcome = await remote.put(writes[at : at + 1000])
        assert outcome.is_atomic == (outcome.transactions == 1)
        revisions += [each.revision for each in outcome.results]
    rows, _ = await all_rows(remote)
    assert len(rows) == 10_000
    assert [rows[each.of].revision for each in writes] == revisions
    assert rows[row_name("g04711")].queues == {0: an_offset(4711)}


async def test_nothing_to_write_is_done_at_once(remote):
    assert (await remote.put([])).results == []
