"""Orderly groups of real clients when their master is killed, without and with a replay of their locks."""

import pytest
from measured import note
from orderly_site import DEFAULT_POLL_MS
from peers.waiting import wait_until

from offsets.order.events import BrokerLockOverlap, ReplayOutcome

pytestmark = [pytest.mark.java, pytest.mark.soak, pytest.mark.timeout(600)]

SECTION = "orderly groups after kill -9 of their master"
#: How long a listener needs for a message: much longer than a client needs to join, on a busy machine too.
WORK_MS = 10_000


def test_holders_are_mirrored_through_a_slave_and_agree_with_the_locks_of_the_master(site):
    member = site.join("mirrored", site.new_group())
    site.mirrored(member)
    assert not site.manager.lock(site.set.master.address, member.of.group, "somebody-else", site.queue)
    assert site.manager.lock(site.set.master.address, member.of.group, member.client_id, site.queue)
    site.traffic.stop("mirrored")


@pytest.mark.parametrize("replays", [False, True], ids=["without", "replayed"])
def test_default_clients_go_on_with_their_next_route_whether_their_locks_were_replayed_or_not(site, replays):
    """The holder's own request for its lock is granted in both cases: a replay neither hurries nor hinders it."""
    name, producer, group = f"default-{replays}", f"to-default-{replays}", site.new_group()
    member = site.join(name, group, poll_ms=DEFAULT_POLL_MS)
    site.traffic.send(producer, topic=site.set.topic, interval_ms=50, keys=1)
    site.wait_for_consumed(name)
    site.mirrored(member)
    promotion, killed, rows = site.fail_over(replays=replays)
    if replays:
        outcomes = [row.outcome for row in rows if row.client_id == member.client_id]
        assert outcomes[:1] == [ReplayOutcome.GRANTED]
        took_ms = max(row.elapsed_ms for row in rows)
        note(SECTION, f"{site.version} 2", f"{site.version}: locks replayed {took_ms} ms after the promotion")
    # What was sent to the new master, not what the client had in its cache.
    sent = wait_until(
        lambda: next((row for row in site.traffic.read().acknowledged if row.unix_ms > killed.unix_ms), None),
        seconds=60,
        what="a message is sent to the new master",
    )
    got = wait_until(
        lambda: next((row for row in site.consumed_by(name) if row.message == sent.message), None),
        seconds=DEFAULT_POLL_MS / 1000 + 30,
        what="it is consumed",
    )
    took_s = (got.unix_ms - killed.unix_ms) / 1000
    note(
        SECTION,
        f"{site.version} 1 {replays}",
        f"{site.version}: default clients, {'replayed' if replays else 'not replayed'}: {took_s:.1f} s",
    )
    # It has locked the queue at the new master itself, as it does with each renewal.
    wait_until(
        lambda: site.locked_unix_ms(member, promotion.master.address) > killed.unix_ms,
        seconds=30,
        what="it locks its queue",
    )
    site.traffic.stop(producer)
    site.traffic.stop(name)


@pytest.mark.parametrize("replays", [False, True], ids=["without", "replayed"])
def test_client_that_joins_at_a_new_master_waits_for_the_former_holder_only_if_its_lock_was_replayed(site, replays):
    """Without, both consume at the same time, which the mirror finds; with a replay neither happens."""
    former, joined, producer = f"z-{replays}", f"a-{replays}", f"to-{replays}"
    group = site.new_group()
    member = site.join(former, group, work_ms=WORK_MS)
    site.traffic.send(producer, topic=site.set.topic, interval_ms=200, keys=1)
    site.wait_for_consumed(former)
    site.mirrored(member)
    site.manager.events.clear()
    promotion, _, _ = site.fail_over(replays=replays)
    site.manager.masters = {promotion.master.address: [member.of]}
    # The client with the smaller id gets the only queue.
    newcomer = site.join(joined, group, work_ms=WORK_MS, from_="FIRST_OFFSET")

    first = wait_until(lambda: next(iter(site.consumed_by(joined)), None), seconds=90, what="the new client consumes")
    last = site.consumed_by(former)[-1]
    overlap_ms = last.unix_ms - (first.unix_ms - WORK_MS)
    how = "replayed" if replays else "not replayed"
    note(SECTION, f"{site.version} 3 {replays}", f"{site.version}: {how}: {_together(overlap_ms)}")
    found = [set(event.clients) for event in site.manager.told(BrokerLockOverlap) if event.queue.of.group == group]
    site.manager.masters = {}
    if replays:
        assert overlap_ms <= 0
        assert found == []
    else:
        assert overlap_ms > 0
        assert {member.client_id, newcomer.client_id} in found
    for name in (producer, former, joined):
        site.traffic.kill(name)


def _together(overlap_ms):
    if overlap_ms > 0:
        return f"both consume for {overlap_ms} ms"
    return f"the new client begins {-overlap_ms} ms after the former one has ended"
