"""Orderly Java consumers whose locks are those of an offset manager, in place of the broker's.

HttpQueueLocks.java is what any client could have. One of them is paused, as by a hanging machine; etcd is away.
"""

import contextlib
import time
from itertools import pairwise

import pytest
from api_lock_site import CLOCK, QUEUES, SOON_S, ApiLockSite
from measured import note
from peers.etcd import running_etcd
from peers.lab import Lab
from peers.waiting import holds_for, wait_until

pytestmark = [pytest.mark.java, pytest.mark.soak, pytest.mark.timeout(1200)]

SECTION = "orderly consumers with locks of an offset manager"
TTL_MS = 60_000
SHORT_TTL_MS = 15_000
RENEWALS = 4
PAUSED_S = 70
AWAY_S = 300
#: A manager answers renewals until its own lease in etcd ends.
LEAD_S = 5
#: How late a busy machine may be.
SLACK_S = 2


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    with contextlib.closing(Lab(tmp_path_factory.mktemp("sessions"))) as lab:
        yield ApiLockSite(lab)


def renewals(site, group):
    """Return the seconds between renewals of the lock of queue 0, and what was left of its lease at the least."""
    moments, lowest_ms, last_ms = [], SHORT_TTL_MS, 0
    while len(moments) < RENEWALS:
        remaining_ms = site.locks(group)[0]["remainingMs"]
        if last_ms and remaining_ms > last_ms:
            moments.append(time.perf_counter())
        last_ms = remaining_ms
        lowest_ms = min(lowest_ms, remaining_ms)
        time.sleep(0.05)
    return [after - before for before, after in pairwise(moments)], lowest_ms


def test_consumer_locks_at_the_manager_alone_and_renews_each_third_of_its_time_to_live(site):
    group, process = site.new_group(), site.process("wire")
    client = site.receive(process, "c1", group, ttl_ms=SHORT_TTL_MS)
    site.send(group, interval_ms=20)
    site.wait_for_consumed(group, process)
    assert {queue: lock["clientId"] for queue, lock in site.locks(group).items()} == dict.fromkeys(
        range(QUEUES), client
    )

    intervals, lowest_ms = renewals(site, group)

    third_s = SHORT_TTL_MS / 3000
    assert all(third_s - 1 < each < third_s + SLACK_S for each in intervals), intervals
    assert lowest_ms > SHORT_TTL_MS / 2
    assert site.free_at_broker(group) == set(range(QUEUES))
    delivery = site.finish(group, process)
    assert (delivery.missing, delivery.inversions, delivery.repeated) == ((), (), {})
    assert {row["writer"] for row in site.rows(group).values()} == {client}
    process.stop("c1")
    assert site.locks(group) == {}
    assert site.offsets(group) == {queue: site.end(group, queue) for queue in range(QUEUES)}
    process.process.kill()
    note(SECTION, "wire", f"renewed every {min(intervals):.1f} to {max(intervals):.1f} s, a third of 15 s")


def test_paused_consumer_is_fenced_and_the_offset_of_its_successor_stays(site):
    group, first, second = site.new_group(), site.process("paused"), site.process("heir")
    # Between two commits, so that it has something to commit when it goes on.
    paused = site.receive(first, "paused", group, ttl_ms=TTL_MS, persist_ms=20_000)
    site.send(group, interval_ms=20)
    site.wait_for_consumed(group, first)
    assert {lock["clientId"] for lock in site.locks(group).values()} == {paused}
    first.process.pause()
    began = time.perf_counter()
    # Its client id comes first, so queue 0 is its own; queue 1 stays that of the paused one.
    heir = site.receive(second, "heir", group, ttl_ms=TTL_MS)
    site.wait_for_consumed(group, second, queues=[0])
    granted_s = time.perf_counter() - began
    # It had renewed its lease up to a third of it before.
    assert granted_s > TTL_MS / 1000 * 2 / 3 - 1
    time.sleep(max(PAUSED_S - (time.perf_counter() - began), 0))
    is_committed = lambda: (row := site.rows(group).get(0)) and row["writer"] == heir and row  # noqa: E731
    before = wait_until(is_committed, seconds=SOON_S, what="the successor commits")
    resumed_ms = CLOCK.unix_ms()
    first.process.resume()

    first.process.wait_for(r"^OFFSETS .*queueId=0\] is fenced: ", seconds=SOON_S)
    site.wait_for_consumed(group, first, after_unix_ms=resumed_ms, queues=[1])
    holds_for(
        lambda: (row := site.rows(group)[0])["writer"] == heir and row["offset"] >= before["offset"],
        seconds=2,
        what="the offset of the successor stays",
    )
    delivery = site.finish(group, first, second)
    late = [each for each in site.consumed(group, first) if each.unix_ms > resumed_ms and each.queue == 0]
    # What its listener had in hand.
    assert len(late) <= 1
    assert (delivery.missing, delivery.inversions) == ((), ())
    first.process.kill()
    second.process.kill()
    note(SECTION, "paused", f"a queue of a paused client is consumed by another one {granted_s:.0f} s after the pause")


@pytest.mark.etcd
def test_consumers_stop_while_etcd_is_away_and_go_on_in_order(tmp_path):
    with running_etcd(tmp_path / "etcd") as etcd, contextlib.closing(Lab(tmp_path / "site")) as lab:
        site = ApiLockSite(lab, store="etcd", etcd_endpoints=";".join(etcd.endpoints))
        group, process = site.new_group(), site.process("away")
        for name in ("c1", "c2"):
            site.receive(process, name, group, ttl_ms=TTL_MS)
        site.send(group, interval_ms=20)
        wait_until(
            lambda: len({lock["clientId"] for lock in site.locks(group).values()}) == QUEUES,
            seconds=SOON_S,
            what="each consumer has a queue",
        )
        site.wait_for_consumed(group, process)

        etcd.kill()
        away_ms = CLOCK.unix_ms()
        time.sleep(AWAY_S)
        in_between = site.consumed(group, process)
        back_ms = CLOCK.unix_ms()
        etcd.restart()

        stopped_s = (in_between[-1].unix_ms - away_ms) / 1000
        note(SECTION, "etcd 1", f"consumption stopped {stopped_s:.1f} s after etcd was killed")
        assert 0 < stopped_s < LEAD_S + TTL_MS / 2000 + SLACK_S
        site.wait_for_consumed(group, process, after_unix_ms=back_ms)
        again = next(each for each in site.consumed(group, process) if each.unix_ms > back_ms)
        note(SECTION, "etcd 2", f"and went on {(again.unix_ms - back_ms) / 1000:.1f} s after etcd was started again")
        delivery = site.finish(group, process)
        assert (delivery.missing, delivery.inversions) == ((), ())
        process.process.kill()
