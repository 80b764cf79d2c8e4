"""Elections outlive the controller that held them, whichever leads next."""

import asyncio

from controller_builders import last_heartbeat
from fakes.in_process_controller import ME, SET, InProcessController, at
from test_election_log import NO_MASTER, held

from controller.failover import stored_elections as module
from controller.failover.election_log import ElectionLog, NotificationResult
from controller.failover.group import Group
from controller.failover.stored_elections import StoredElections
from store.documents import DocumentKind
from store.store import ControllerMember, StoreError

KIND = DocumentKind.ELECTIONS
OTHER = ControllerMember(id="n1", address="10.0.0.2:9878")


async def failed_over(controller):
    """Let a master fail, and its successor confirm its role."""
    controller.masters.add(at(1))
    await controller.a_set(1, 2)
    await controller.pass_ms(300)
    await controller.lose(1)
    controller.elections.notified(SET, 2, 2, NotificationResult("ok", 7, 1))


def a_follower(controller):
    """What a controller that does not lead has over the same store."""
    log = ElectionLog(OTHER.address)
    group = Group("g", OTHER, controller.clock, controller.store)
    group.follows(ME)
    return log, StoredElections(log, group, controller.backend, controller.clock)


async def test_elections_are_known_after_a_restart_and_new_ones_are_numbered_on(tmp_path):
    async with InProcessController(tmp_path) as before:
        await failed_over(before)
        assert await before.stored_elections.look()
        assert not before.elections.unstored
        known = list(before.elections)
    async with InProcessController(tmp_path) as after:
        # Somebody looks before it has read them by itself.
        await after.stored_elections.refresh()
        assert list(after.elections) == known
        last = known[-1]
        assert (last.held_by, last.notified) == (ME.address, {2: NotificationResult("ok", 7, 1)})
        began = after.elections.beginning(SET, last.master_epoch)
        assert (began.unix_ms, began.notified[2].result) == (last.unix_ms, "ok")
        summary, is_new = after.elections.add(held(), 9_000)
        assert (summary.number, is_new) == (3, True)


async def test_follower_shows_what_the_leader_has_stored_and_reads_it_once_a_second(controller):
    await failed_over(controller)
    await controller.stored_elections.look()
    log, stored = a_follower(controller)
    await stored.refresh()
    assert list(log) == list(controller.elections)
    changes = log.changes
    await controller.lose(2)
    await controller.stored_elections.look()
    await stored.refresh()
    assert log.changes == changes
    controller.clock.pass_ms(1_000)
    await stored.refresh()
    assert list(log) == list(controller.elections)
    # It stores nothing.
    log.add(held(), 9_000)
    assert await stored.look()
    assert log.unstored == {SET}


async def test_reading_the_same_elections_again_is_no_change(controller):
    """Followers of the lists would read them at once again, for ever."""
    await failed_over(controller)
    await controller.stored_elections.look()
    log, stored = a_follower(controller)
    await stored.refresh()
    changes = log.changes
    controller.clock.pass_ms(1_000)
    await stored.refresh()
    assert log.changes == changes


async def test_elections_held_before_the_stored_ones_are_read_are_kept(controller):
    await failed_over(controller)
    await controller.stored_elections.look()
    log, group = ElectionLog(ME.address), controller.group
    log.add(held(), controller.clock.unix_ms() + 1)
    await StoredElections(log, group, controller.backend, controller.clock).look()
    assert [each.unix_ms for each in log][:-1] == [each.unix_ms for each in controller.elections]
    assert len(list(log)) == 3


async def test_election_that_ends_as_a_restored_one_is_a_record_of_its_own(controller):
    """What is counted there would be in no log of this process."""
    controller.elections.add(held(cause=NO_MASTER), 1_000)
    await controller.stored_elections.look()
    log = ElectionLog(ME.address)
    await StoredElections(log, controller.group, controller.backend, controller.clock).look()
    assert [log.add(held(cause=NO_MASTER), 2_000)[1] for _ in range(2)] == [True, False]


async def test_repeated_elections_are_stored_ever_more_rarely(controller):
    written = 0
    for number in range(100):
        controller.elections.add(held(cause=NO_MASTER), number)
        written += bool(controller.elections.unstored)
        await controller.stored_elections.look()
    assert written == 7


async def test_only_the_latest_elections_of_a_set_are_stored(controller, monkeypatch):
    monkeypatch.setattr(module, "SHARD_BYTES_MAX", 10_000)
    for number in range(40):
        controller.elections.add(held(alive={2: last_heartbeat()}), number)
    await controller.stored_elections.look()
    log, stored = a_follower(controller)
    await stored.refresh()
    numbers = [each.unix_ms for each in log]
    assert numbers == list(range(40 - len(numbers), 40))
    assert 5 < len(numbers) < 20


async def test_what_cannot_be_stored_is_stored_later(controller, monkeypatch):
    await failed_over(controller)

    async def fails(*_):
        raise StoreError("the store is away")

    with monkeypatch.context() as patched:
        patched.setattr(controller.backend, "commit_document", fails)
        assert not await controller.stored_elections.look()
        assert controller.elections.unstored == {SET}
    assert await controller.stored_elections.look()
    assert not controller.elections.unstored


async def test_election_that_is_being_stored_when_the_controller_stops_is_stored_at_its_end(controller, monkeypatch):
    await failed_over(controller)
    begun = asyncio.Event()

    async def hangs(*_):
        begun.set()
        await asyncio.Event().wait()

    with monkeypatch.context() as patched:
        patched.setattr(controller.backend, "commit_document", hangs)
        task = asyncio.create_task(controller.stored_elections.keep_elections())
        await begun.wait()
        task.cancel()
        await asyncio.wait([task])
    await controller.stored_elections.store_rest()
    log, stored = a_follower(controller)
    await stored.refresh()
    assert list(log) == list(controller.elections) != []


async def test_elections_that_this_release_cannot_read_hide_no_others(controller):
    await failed_over(controller)
    await controller.stored_elections.look()
    documents = await controller.backend.load_documents(KIND)
    ((name, versioned),) = documents.items()
    later = b'[{"verdict": "another form"},' + versioned.value[1:]
    await controller.backend.commit_document(KIND, name, later, versioned.revision)
    await controller.backend.commit_document(KIND, "zz", b'{"format": 2}', 0)
    log, stored = a_follower(controller)
    await stored.refresh()
    assert list(log) == list(controller.elections)


async def test_sets_of_a_follower_name_their_last_elections(controller):
    await controller.serve_http()
    await failed_over(controller)
    await controller.stored_elections.look()
    log, stored = a_follower(controller)
    controller.control.elections, shown = log, controller.elections
    await controller.session.close()
    await controller.server.stop()
    controller.stored_elections = stored
    await controller.serve_http()
    (found,) = (await controller.get("/v1/broker-sets"))[1]["brokerSets"]
    assert found["lastElection"] == shown.of_set(SET).number == 2
    assert (await controller.get(f"/v1/broker-sets/{SET}"))[1]["lastElection"] == 2


async def test_follower_answers_with_what_it_knows_while_the_store_does_not_answer(controller, monkeypatch):
    async def hangs(_):
        await asyncio.Event().wait()

    monkeypatch.setattr(module, "_PATIENCE_S", 0.01)
    monkeypatch.setattr(controller.backend, "load_documents", hangs)
    log, stored = a_follower(controller)
    await stored.refresh()
    assert list(log) == []
