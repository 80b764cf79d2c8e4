"""Where groups of real clients begin: topics in each state that a broker tells apart, and their retry topics."""

import itertools
import re
import time
from typing import NamedTuple

from offset_site import SOON_S, UNIX, UPDATE_BROKER_CONFIG, UPDATE_CONSUMER_OFFSET, OffsetSite, consumed
from peers.waiting import wait_until
from peers.wire import SUCCESS

QUERY_CONSUMER_OFFSET = 14
GET_RUNNING_INFO = 307

POLICIES = ("LAST_OFFSET", "FIRST_OFFSET", "TIMESTAMP")
#: The smallest file that a broker takes for its log, so that a few messages fill one.
LOG_FILE_BYTES = 1024 * 1024
FILLER_BYTES = 100_000

#: Messages that have expired before anybody consumed them.
EXPIRED = 3
#: Messages from before the time that TIMESTAMP names, and from then on.
EARLY, LATE = 2, 2
_serial = itertools.count()


class State(NamedTuple):
    """What is in a queue before a group comes."""

    name: str
    expired: int
    is_empty: bool = False
    #: Message 0 is not in the memory of the broker any more.
    is_cold: bool = False

    @property
    def begin(self):
        return self.expired

    @property
    def at_time(self):
        return self.begin if self.is_empty else self.expired + EARLY

    @property
    def end(self):
        return self.begin if self.is_empty else self.expired + EARLY + LATE


EMPTY = State("Empty", 0, is_empty=True)
YOUNG = State("Young", 0)
COLD = State("Cold", 0, is_cold=True)
OLD = State("Old", EXPIRED)


class Reader(NamedTuple):
    """A group with one client, and what it has of `topic` before it comes."""

    client: str
    policy: str
    state: State
    kind: str = "push"
    stored: int | None = None

    @property
    def group(self):
        words = [self.state.name, self.policy, self.client.replace(".", "-"), self.kind]
        return "_".join([*words, "" if self.stored is None else str(self.stored)])

    @property
    def has_retries(self):
        return self.kind != "broadcast"

    @property
    def topics(self):
        return [self.state.name, f"%RETRY%{self.group}"] if self.has_retries else [self.state.name]


class Begin(NamedTuple):
    """The first offsets that a reader has consumed, of its topic and of its retry topic."""

    topic: int
    retry: int | None


class FirstOffsets:
    """A broker with the topics that some readers need."""

    def __init__(self, lab, broker_version, readers):
        self._site = OffsetSite(lab, broker_version=broker_version, mappedFileSizeCommitLog=LOG_FILE_BYTES).ready()
        self._readers = readers
        self._topics = {topic: each.state for each in readers for topic in each.topics}
        self._traffics = {
            each: self._site.traffic(f"traffic-{each}", each) for each in {each.client for each in readers}
        }
        self._create()
        if any(state.expired for state in self._topics.values()):
            self._let_expire()
        filled = [topic for topic, state in self._topics.items() if not state.is_empty]
        self._fill([topic for topic in filled if not self._topics[topic].expired], EARLY)
        moment = UNIX.unix_ms() // 1000 + 1
        wait_until(lambda: UNIX.unix_ms() > moment * 1000, seconds=5, what="the next second")
        #: As clients take it, in the zone of this machine.
        self._timestamp = time.strftime("%Y%m%d%H%M%S", time.localtime(moment))
        self._fill(filled, LATE)
        for topic, state in self._topics.items():
            self._wait_for_end(topic, state.end)
            assert self._site.min_offset(topic) == state.begin, topic

    def _create(self):
        site = self._site
        for each in self._readers:
            site.create_group(each.group)
        site.make_topics(*self._topics, "Filler")
        for each in self._readers:
            if each.stored is not None:
                fields = {"consumerGroup": each.group, "topic": each.state.name, "queueId": "0"}
                site.asked(UPDATE_CONSUMER_OFFSET, fields | {"commitOffset": str(each.stored)})

    def _let_expire(self):
        """Lose the first file of the log, as a broker does that removes it when its time is over."""
        site = self._site
        expiring = [topic for topic, state in self._topics.items() if state.expired]
        self._fill(expiring, EXPIRED)
        for _ in range(LOG_FILE_BYTES // FILLER_BYTES + 1):
            site.send("Filler", "filler", "x" * FILLER_BYTES)
        # A broker corrects the beginning of a queue at its start only where messages are left.
        self._fill(expiring, EARLY)
        for topic in expiring:
            self._wait_for_end(topic, EXPIRED + EARLY)
        stored = [each for each in self._readers if each.stored is not None]
        file = site.broker.store / "config" / "consumerOffset.json"
        on_disk = lambda: not stored or all(each.group in file.read_text() for each in stored)  # noqa: E731
        wait_until(lambda: file.exists() and on_disk(), seconds=SOON_S, what="offsets are on disk")
        site.broker.process.kill()
        min((site.broker.store / "commitlog").iterdir()).unlink()
        site.broker.start()
        site.ready()

    def _fill(self, topics, count):
        for topic in topics:
            for _ in range(count):
                self._site.send(topic, message_of(topic))

    def _wait_for_end(self, topic, end):
        at_end = lambda: self._site.max_offset(topic) == end  # noqa: E731
        wait_until(at_end, seconds=SOON_S, what=lambda: f"{topic} ends at {end}, not {self._site.max_offset(topic)}")

    def begins(self, readers):
        """Start these readers, and return where each has begun; their topics have to be of one temperature."""
        if any(each.state.is_cold for each in readers):
            self._site.asked(UPDATE_BROKER_CONFIG, body=b"accessMessageInMemoryMaxRatio=0\n")
        ids = {each: self._start(each) for each in readers}
        for each in readers:
            for topic in each.topics:
                wait_until(
                    lambda: self._holds(each.group, ids[each], topic),  # noqa: B023
                    seconds=SOON_S,
                    what=f"{each.group} holds its queue of {topic}",
                )
        for each in readers:
            if each.stored is not None and not each.state.begin <= each.stored <= each.state.end:
                self._wait_for_correction(each)
        for topic in sorted({topic for each in readers for topic in each.topics}):
            self._site.send(topic, message_of(topic))
        return {each: self._begin(each) for each in readers}

    def _start(self, reader):
        options = {"topic": reader.state.name, "group": reader.group, "kind": reader.kind, "from_": reader.policy}
        # Messages are recorded in their order: after the last one no other comes.
        options["consume_threads"] = 1
        name = f"{reader.client}-{next(_serial)}"
        return self._traffics[reader.client].receive(name, timestamp=self._timestamp, **options)

    def _holds(self, group, client_id, topic):
        fields = {"consumerGroup": group, "clientId": client_id, "jstackEnable": "false"}
        answer = self._site.caller.request(GET_RUNNING_INFO, fields)
        return answer.code == SUCCESS and f'"queueId":0,"topic":"{topic}"'.encode() in answer.body

    def _wait_for_correction(self, reader):
        """Wait until the client has stored where the broker sent it: what is the end depends on when it pulls."""
        fields = {"consumerGroup": reader.group, "topic": reader.state.name, "queueId": "0"}
        stored = lambda: int(self._site.asked(QUERY_CONSUMER_OFFSET, fields)["offset"])  # noqa: E731
        wait_until(lambda: stored() != reader.stored, seconds=SOON_S, what=f"{reader.group} is corrected")

    def _begin(self, reader):
        """Wait for the last message of each topic, and return the first ones; all between have to be there."""

        def got(topic):
            records = consumed(reader.group, self._traffics[reader.client])
            return sorted({each.offset for each in records if each.message == message_of(topic)})

        for topic in reader.topics:
            end = reader.state.end
            wait_until(lambda: end in got(topic), seconds=SOON_S, what=f"{reader.group} gets the end of {topic}")  # noqa: B023
        found = [got(topic) for topic in reader.topics]
        assert all(each == list(range(each[0], reader.state.end + 1)) for each in found), (reader, found)
        return Begin(found[0][0], found[1][0] if reader.has_retries else None)


def message_of(topic):
    return f"{'retry' if re.match('%RETRY%', topic) else 'topic'}:0"
