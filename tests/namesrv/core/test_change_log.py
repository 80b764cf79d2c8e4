"""Changes of followed keys, and what a watcher reads, whatever is cut, slow or discarded."""

from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from namesrv.core import change_log
from namesrv.core.change_log import UNWATCHED_MS_MAX, Change, ChangeLog, GapReason, PresentState, WatchCursor, WatchGap

TOPICS = ("a", "b", "c")
MANY = 1_000_000


# The log


def a_log(*keys, changes_max=100, bytes_max=1000):
    log, cursor = ChangeLog(changes_max, bytes_max), WatchCursor(keys, 0)
    for key in keys:
        log.watch(key, cursor)
    return log, cursor


def append(log, key, text=b"x"):
    return log.append(key, lambda number: b"%d:%s" % (number, text))


def kept(log, key, number=0):
    return [change.text for change in log.after(key, number)]


def test_changes_are_kept_in_order_and_read_after_a_number():
    log, _ = a_log("a", "b")
    for key in "aabab":
        append(log, key)
    assert kept(log, "a") == [b"3:x", b"4:x", b"6:x"]
    assert kept(log, "a", 3) == [b"4:x", b"6:x"]
    assert kept(log, "b", 7) == []


def test_oldest_change_of_any_key_goes_first_and_its_key_knows():
    log, _ = a_log("a", "b", changes_max=2)
    for key in "abb":
        append(log, key)
    assert (kept(log, "a"), kept(log, "b")) == ([], [b"4:x", b"5:x"])
    assert (log.get("a").complete_since, log.get("b").complete_since) == (3, 2)


def test_changes_have_a_limit_in_bytes():
    log, _ = a_log("a", bytes_max=10)
    for _ in range(3):
        append(log, "a", b"123")
    assert kept(log, "a") == [b"3:123", b"4:123"][-2:]


def test_change_that_is_longer_than_the_limit_is_not_kept():
    log, _ = a_log("a", bytes_max=10)
    append(log, "a", b"1" * 20)
    assert kept(log, "a") == []
    assert log.get("a").complete_since == log.number


def test_only_watchers_that_had_nothing_to_read_are_returned():
    log, cursor = a_log("a")
    assert append(log, "a") == [cursor]
    assert append(log, "a") == []


def test_key_is_followed_for_a_while_after_its_last_watcher_left():
    log, cursor = a_log("a")
    log.unwatch("a", cursor, now_ms=0)
    append(log, "a")
    log.end_unwatched(UNWATCHED_MS_MAX - 1)
    assert kept(log, "a") == [b"2:x"]
    log.end_unwatched(UNWATCHED_MS_MAX)
    assert log.get("a") is None


def test_watched_key_is_followed_for_good():
    log, cursor = a_log("a")
    log.unwatch("a", cursor, now_ms=0)
    log.watch("a", cursor)
    log.end_unwatched(10 * UNWATCHED_MS_MAX)
    assert log.get("a") is not None


def test_keys_that_nobody_watches_have_a_limit(monkeypatch):
    monkeypatch.setattr(change_log, "UNWATCHED_KEYS_MAX", 2)
    log, cursor = a_log("a", "b", "c")
    for key in "bca":
        log.unwatch(key, cursor, now_ms=0)
    assert set(log.keys) == {"c", "a"}


def test_key_that_is_followed_anew_is_not_complete_for_who_read_before():
    log, cursor = a_log("a")
    read_to = log.number
    log.unwatch("a", cursor, now_ms=0)
    log.end_unwatched(UNWATCHED_MS_MAX)
    log.watch("a", cursor)
    assert log.get("a").complete_since > read_to
    assert kept(log, "a") == []


def test_old_change_of_a_key_that_is_followed_anew_takes_none_of_its_new_ones():
    log, cursor = a_log("a", changes_max=2)
    append(log, "a", b"old")
    log.unwatch("a", cursor, now_ms=0)
    log.end_unwatched(UNWATCHED_MS_MAX)
    log.watch("a", cursor)
    append(log, "a", b"new")
    append(log, "a", b"newer")
    assert kept(log, "a") == [b"4:new", b"5:newer"]


# Cursors


class Server:
    """Topics with a state each: a number that only grows."""

    def __init__(self, changes_max=100):
        self.log = ChangeLog(changes_max, MANY)
        self.states = dict.fromkeys(TOPICS, 0)

    def change(self, topic):
        self.states[topic] += 1
        if self.log.get(topic) is not None:
            state = b"%d" % self.states[topic]
            self.log.append(topic, lambda _: state)

    def present(self, topic):
        return b"%d" % self.states[topic]


class Client:
    """Takes events as a program does: it keeps the last state of each topic and the last id."""

    def __init__(self, server, topics=TOPICS):
        self.server, self.topics = server, topics
        self.cursor = None
        self.last_number = None
        self.states, self.read, self.gaps = {}, {topic: [] for topic in topics}, []
        self.connect()

    def connect(self):
        log = self.server.log
        self.cursor = WatchCursor(self.topics, 0)
        for topic in self.topics:
            log.watch(topic, self.cursor)
        if self.last_number is None:
            self.cursor.begin(log.number)
        else:
            self.cursor.position = self.last_number
            self.cursor.resume(log)

    def cut(self, now_ms=0):
        for topic in self.topics:
            self.server.log.unwatch(topic, self.cursor, now_ms)

    def read_some(self, bytes_max=1, steps_max=None):
        """Take what comes; only the first so many of it arrive if the connection is cut then."""
        for step in self.cursor.take(self.server.log, self.server.present, bytes_max)[:steps_max]:
            match step:
                case WatchGap():
                    self.gaps.append(step)
                case PresentState(key=topic, state=state, number=number):
                    self.states[topic] = int(state)
                    self.last_number = self.last_number if number is None else number
                case Change(key=topic, text=state, number=number):
                    self.states[topic] = int(state)
                    self.read[topic].append(int(state))
                    self.last_number = number

    def read_all(self):
        while self.cursor.has_more:
            self.read_some(MANY)

    def has_present_states(self):
        return self.states == {topic: self.server.states[topic] for topic in self.topics}


def test_watcher_begins_with_the_present_states_and_only_the_last_has_an_id():
    server = Server()
    server.change("b")
    client = Client(server)
    steps = client.cursor.take(server.log, server.present, MANY)
    assert [(step.key, step.state) for step in steps] == [("a", b"0"), ("b", b"1"), ("c", b"0")]
    assert [step.number for step in steps] == [None, None, server.log.number]
    assert not client.cursor.has_more


def test_resumed_watcher_gets_a_gap_and_present_states_when_changes_were_discarded():
    server = Server(changes_max=2)
    client = Client(server)
    client.read_all()
    client.cut()
    for topic in "abc":
        server.change(topic)
    client.connect()
    client.read_all()
    assert client.gaps == [WatchGap(GapReason.TOO_OLD, TOPICS)]
    assert client.has_present_states()


def test_changes_of_other_topics_that_push_nothing_of_its_own_out_leave_no_gap():
    server = Server(changes_max=2)
    client, other = Client(server, ("a",)), Client(server, ("b",))
    client.read_all()
    client.cut()
    for _ in range(10):
        server.change("b")
    client.connect()
    client.read_all()
    other.read_all()
    assert (client.gaps, client.has_present_states()) == ([], True)


def test_slow_watcher_gets_a_gap_and_the_last_state_of_each_topic_that_changed():
    server = Server(changes_max=3)
    client = Client(server)
    client.read_all()
    for _ in range(5):
        server.change("a")
    server.change("b")
    client.read_all()
    assert client.gaps == [WatchGap(GapReason.SLOW_READER, ("a", "b"))]
    assert client.read == {"a": [], "b": [], "c": []}
    assert client.has_present_states()


def test_what_is_taken_at_a_time_is_hardly_more_than_the_limit():
    server = Server()
    client = Client(server)
    client.read_all()
    for _ in range(9):
        server.change("a")
    assert len(client.cursor.take(server.log, server.present, 3)) == 3


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("change"), st.sampled_from(TOPICS)),
        st.tuples(st.just("read"), st.integers(1, 4)),
        st.tuples(st.just("cut"), st.integers(0, 3)),
        st.just(("connect", 0)),
        st.just(("forget", 0)),
    ),
    max_size=60,
)


class Run:
    """A client whose connection is cut and made again."""

    def __init__(self, changes_max):
        self.server = Server(changes_max)
        self.client, self.is_connected = Client(self.server), True

    def change(self, topic):
        self.server.change(topic)

    def read(self, bytes_max):
        if self.is_connected:
            self.client.read_some(bytes_max)

    def cut(self, steps):
        """Cut the connection; of what was sent last so many steps arrive."""
        if self.is_connected:
            self.client.read_some(MANY, steps)
            self.client.cut()
            self.is_connected = False

    def connect(self, _=0):
        if not self.is_connected:
            self.client.connect()
            self.is_connected = True

    def forget(self, _):
        if not self.is_connected:
            self.server.log.end_unwatched(UNWATCHED_MS_MAX)


@settings(max_examples=300, deadline=None)
@given(changes_max=st.integers(1, 8), steps=STEPS)
def test_no_change_is_lost_for_any_cut_resume_or_pace(changes_max, steps):
    run = Run(changes_max)
    for step, argument in steps:
        getattr(run, step)(argument)
    run.connect()
    run.client.read_all()
    assert run.client.has_present_states()
    for topic, states in run.client.read.items():
        if not run.client.gaps and states:
            # After each state comes the next one, or again what came before a cut.
            assert all(after - before <= 1 for before, after in pairwise(states))
            assert states[-1] == run.server.states[topic]
