"""Real push consumers that keep their offsets in an offset manager, by the extension point of Java's client.

HttpOffsetStore.java is what any client could have: consumers, the manager and what lies between them are killed.
"""

import contextlib
import itertools
from collections import Counter

import pytest
from measured import note
from offset_site import BROKER, SOON_S, OffsetSite, consumed, offsets_by_queue
from peers.jars import V4_9, V5_5
from peers.lab import Lab
from peers.offset_managers import OffsetManager, a_queue
from peers.waiting import holds_for, wait_until

pytestmark = [pytest.mark.java, pytest.mark.timeout(600)]

SECTION = "consumers with an HTTP offset store"
QUEUES = 4
#: How often clients commit; 5 s by default.
PERSIST_MS = 500
#: How long a listener needs: longer than another client needs to join, on a busy machine too.
SLOW_MS = 20_000
#: A store commits 100 queues in a request.
MANY = 250
_serial = itertools.count()


class StoreSite(OffsetSite):
    """Clients of one release, a broker of 5.5.0, and an offset manager."""

    def __init__(self, lab, version):
        super().__init__(lab, broker_version=V5_5)
        self.version = version
        self.manager = lab.kept(OffsetManager(lab.folder)).launch()
        self.producers = self.traffic("producers", version)
        self.manager.ready()
        self.ready()

    def new_topic(self, queues=QUEUES):
        topic = f"Stored{next(_serial)}"
        self.make_topics(topic, queues=queues)
        return topic

    def consumers(self):
        """Start a process for consumers, which may be killed."""
        return self.traffic(f"consumers{next(_serial)}", self.version)

    def receive(self, traffic, topic, group, **options):
        """Start a consumer and return its client id."""
        options = {"kind": "push", "from_": "FIRST_OFFSET", "persist_ms": PERSIST_MS} | options
        options |= {"topic": topic, "group": group, "offset_managers": self.manager.address}
        return traffic.receive(f"c{next(_serial)}", **options)

    def stored(self, topic, group):
        """Return the offsets that the manager has of a group and a topic, by queue id."""
        return {queue: each["offset"] for queue, each in self.rows(topic, group).items()}

    def rows(self, topic, group):
        listed = self.manager.get(f"/v1/offsets?group={group}&topic={topic}&limit=1000").body["offsets"]
        return {each["queueId"]: each["stored"] for each in listed}

    def wait_until_consumed(self, producer, group, *traffics):
        """Wait until every acknowledged message of a producer was consumed by anybody of the group."""

        def missing():
            sent = {each.message for each in self.producers.read().acknowledged if each.producer == producer}
            return sorted(sent - {each.message for each in consumed(group, *traffics)})

        wait_until(lambda: not missing(), seconds=SOON_S, what=lambda: f"all is consumed, but for {missing()[:5]}")

    def wait_for_consumed(self, count, group, *traffics):
        """Wait until so many messages more were consumed."""
        enough = len(consumed(group, *traffics)) + count
        got = lambda: len(consumed(group, *traffics)) >= enough  # noqa: E731
        wait_until(got, seconds=SOON_S, what=f"{count} messages more consumed")

    def wait_until_stored(self, topic, group):
        """Wait until the manager has the ends of all queues, as the broker has them."""
        ends = lambda: {queue: self.end(topic, queue) for queue in range(QUEUES)}  # noqa: E731
        wait_until(
            lambda: {queue: end for queue, end in ends().items() if end} == self.stored(topic, group),
            seconds=SOON_S,
            what=lambda: f"{self.stored(topic, group)} becomes {ends()}",
        )

    def end(self, topic, queue):
        return self.broker.stored_messages(topic, queues=queue + 1) - self.broker.stored_messages(topic, queues=queue)


@pytest.fixture(scope="module", params=[V5_5, pytest.param(V4_9, marks=pytest.mark.soak)])
def site(request, tmp_path_factory):
    with contextlib.closing(Lab(tmp_path_factory.mktemp("stores"))) as lab:
        yield StoreSite(lab, request.param)


def test_killed_consumer_is_succeeded_where_its_last_commit_was_and_a_killed_manager_hinders_nobody(site):
    topic, group, producer = site.new_topic(), "killed", "to-killed"
    first, second = site.consumers(), site.consumers()
    site.receive(first, topic, group)
    site.producers.send(producer, topic=topic, interval_ms=4)
    wait_until(lambda: len(site.stored(topic, group)) == QUEUES, seconds=SOON_S, what="commits of all queues")

    site.manager.process.kill()
    # It goes on without a manager, over several attempts to commit.
    site.wait_for_consumed(PERSIST_MS // 4 * 3, group, first)
    before = site_restarted(site, topic, group)
    advanced = lambda: min_advance(before, site.stored(topic, group)) > 0  # noqa: E731
    wait_until(advanced, seconds=SOON_S, what="it commits what it has consumed meanwhile")
    site.wait_for_consumed(50, group, first)
    first.process.kill()
    stored = site.stored(topic, group)

    site.receive(second, topic, group)
    site.wait_for_consumed(50, group, second)
    site.producers.stop(producer)
    site.wait_until_consumed(producer, group, first, second)

    by_first, by_second = (offsets_by_queue(consumed(group, each)) for each in (first, second))
    for queue, offset in stored.items():
        assert set(by_first[queue]) >= set(range(offset)), "an offset was committed before its message was consumed"
        assert min(by_second[queue]) >= offset
    again = {queue: sorted(by_first[queue].keys() & by_second[queue].keys()) for queue in stored}
    uncommitted = {queue: [each for each in by_first[queue] if each >= stored[queue]] for queue in stored}
    assert all(set(again[queue]) <= set(uncommitted[queue]) for queue in stored)
    read, lost, repeated = (sum(map(len, each.values())) for each in (by_first, uncommitted, again))
    note(
        SECTION,
        site.version,
        f"{site.version}: {lost} of {read} messages not committed at kill -9, {repeated} came again, 0 skipped",
    )


def site_restarted(site, topic, group):
    """Start the manager again, and return what it has then."""
    site.manager.start().leading()
    stored = site.stored(topic, group)
    assert len(stored) == QUEUES
    return stored


def min_advance(before, after):
    return min(after[queue] - before[queue] for queue in before)


@pytest.mark.soak
def test_offset_that_is_reset_at_the_manager_takes_effect_at_a_running_consumer(site):
    topic, group, producer = site.new_topic(), "reset", "to-reset"
    traffic = site.consumers()
    site.receive(traffic, topic, group)
    site.producers.send(producer, topic=topic, count=80, interval_ms=1)
    site.producers.finish(producer)
    site.wait_until_consumed(producer, group, traffic)
    site.wait_until_stored(topic, group)
    end = site.stored(topic, group)[0]

    entry = a_queue(0, group=group, topic=topic, broker=BROKER) | {"offset": end - 5}
    assert site.manager.post("/v1/offsets/reset", {"writer": "alice", "entries": [entry]}).status == 200
    # Clients with nothing to commit do not notice a reset: the next message does it.
    site.send(topic, "wakes")

    again = lambda: Counter(offsets_by_queue(consumed(group, traffic))[0])  # noqa: E731
    wait_until(lambda: again()[end - 1] == 2, seconds=SOON_S, what="messages come again")
    assert {offset: count for offset, count in again().items() if count > 1 and offset < end} == dict.fromkeys(
        range(end - 5, end), 2
    )
    site.wait_until_stored(topic, group)
    traffic.process.kill()


@pytest.mark.soak
def test_consumer_begins_nowhere_while_its_offset_is_unavailable(site):
    topic, group, producer = site.new_topic(), "unavailable", "to-unavailable"
    site.producers.send(producer, topic=topic, count=40, interval_ms=1)
    site.producers.finish(producer)
    entries = [a_queue(queue, group=group, topic=topic, broker=BROKER) | {"offset": 3} for queue in range(QUEUES)]
    assert site.manager.commit(*entries).statuses == ["ok"] * QUEUES
    site.manager.process.kill()
    traffic = site.consumers()
    site.receive(traffic, topic, group, from_="LAST_OFFSET")
    traffic.process.wait_for(r"^OFFSETS cannot read ", seconds=SOON_S)
    holds_for(lambda: not consumed(group, traffic), seconds=2, what="nothing is consumed")

    site.manager.start().leading()

    site.wait_until_stored(topic, group)
    by_queue = offsets_by_queue(consumed(group, traffic))
    assert {queue: min(offsets) for queue, offsets in by_queue.items()} == dict.fromkeys(range(QUEUES), 3)
    traffic.process.kill()


@pytest.mark.soak
def test_offset_beyond_the_end_of_a_queue_is_reset_to_it_and_what_is_sent_then_is_consumed(site):
    topic, group = site.new_topic(queues=1), "beyond"
    for number in range(5):
        site.send(topic, f"old:{number}")
    entry = a_queue(0, group=group, topic=topic, broker=BROKER) | {"offset": 12}
    assert site.manager.commit(entry).statuses == ["ok"]
    traffic = site.consumers()
    site.receive(traffic, topic, group)
    wait_until(lambda: site.stored(topic, group) == {0: 5}, seconds=SOON_S, what="the consumer resets its offset")

    for number in range(20):
        site.send(topic, f"new:{number}")

    wait_until(lambda: site.stored(topic, group) == {0: 25}, seconds=SOON_S, what="all are committed")
    assert [each.offset for each in sorted(consumed(group, traffic), key=lambda each: each.offset)] == list(
        range(5, 25)
    )
    traffic.process.kill()


@pytest.mark.soak
def test_consumer_that_loses_a_queue_writes_nothing_of_it_any_more(site):
    topic, group, producer = site.new_topic(queues=2), "evicted", "to-evicted"
    first, second = site.consumers(), site.consumers()
    site.receive(first, topic, group, work_ms=SLOW_MS)
    site.producers.send(producer, topic=topic, count=2)
    site.producers.finish(producer)
    # The first one has a message of each queue in its listener when the second one takes a queue.
    successor = site.receive(second, topic, group)
    wait_until(lambda: consumed(group, second), seconds=SOON_S, what="the second one has a queue")
    queue = consumed(group, second)[0].queue
    finished = lambda: queue in offsets_by_queue(consumed(group, first))  # noqa: E731
    wait_until(finished, seconds=SOON_S, what="the first one ends its message of that queue")
    wait_until(lambda: queue in site.rows(topic, group), seconds=SOON_S, what="the queue has an offset")

    is_its_own = lambda: site.rows(topic, group)[queue]["writer"] == successor  # noqa: E731
    holds_for(is_its_own, seconds=4 * PERSIST_MS / 1000, what="the second one has written it")
    first.process.kill()
    second.process.kill()


@pytest.mark.soak
def test_more_queues_than_a_request_takes_are_committed(site):
    topic, group, producer = site.new_topic(queues=MANY), "many", "to-many"
    traffic = site.consumers()
    site.receive(traffic, topic, group)
    site.producers.send(producer, topic=topic, count=2 * MANY, interval_ms=1)
    site.producers.finish(producer)
    site.wait_until_consumed(producer, group, traffic)
    wait_until(lambda: sum(site.stored(topic, group).values()) == 2 * MANY, seconds=SOON_S, what="all are committed")
    assert len(site.stored(topic, group)) == MANY
    traffic.process.kill()
