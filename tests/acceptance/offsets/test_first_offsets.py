"""Where real groups begin that have no offset: every line of docs/protocol/offsets.md 4, with the brokers named there.

CI has clients and a broker of 5.5.0 with topics from which nothing has expired.
"""

import contextlib

import pytest
from first_offsets import COLD, EMPTY, OLD, POLICIES, YOUNG, Begin, FirstOffsets, Reader
from peers.jars import V4_9, V5_1, V5_5
from peers.lab import Lab

pytestmark = [pytest.mark.java, pytest.mark.timeout(600)]

LAST, FIRST, TIMESTAMP = POLICIES
CLIENTS = (V5_5, V4_9)
STATES = (EMPTY, YOUNG, OLD, COLD)
#: Above and below what is in the queue, and within it.
ABOVE, BELOW, WITHIN = 100, 1, 2


def policy_readers(clients, states):
    return [Reader(client, policy, state) for state in states for client in clients for policy in POLICIES]


def broadcasting_readers(clients):
    return [Reader(client, policy, YOUNG, "broadcast") for client in clients for policy in POLICIES]


def stored_readers(clients):
    within = [Reader(client, policy, YOUNG, stored=WITHIN) for client in clients for policy in POLICIES]
    outside = [(YOUNG, ABOVE), (OLD, ABOVE), (OLD, BELOW)]
    return within + [Reader(client, LAST, state, stored=stored) for client in clients for state, stored in outside]


class Sets:
    """The readers of one broker, in the order in which they may come."""

    def __init__(self, lab, version, *, clients, states):
        self.version = version
        self.by_policy = policy_readers(clients, [state for state in states if not state.is_cold])
        self.cold = policy_readers(clients, [state for state in states if state.is_cold])
        self.broadcasting = broadcasting_readers(clients)
        self.stored = stored_readers(clients) if OLD in states else []
        readers = [*self.by_policy, *self.broadcasting, *self.stored, *self.cold]
        self._site = FirstOffsets(lab, version, readers)
        # A group that comes before all have come changes the end of the topic for the others.
        self._begins = self._site.begins([*self.by_policy, *self.broadcasting, *self.stored])
        self._begins |= self._site.begins(self.cold) if self.cold else {}

    def begins(self, readers):
        return {each: self._begins[each] for each in readers}


def expected(reader, *, has_shortcut):
    """Return where a group without an offset begins by the table."""
    state = reader.state
    if has_shortcut:
        return Begin(0, 0)
    begins = {
        LAST: Begin(state.end, state.begin),
        FIRST: Begin(state.begin, state.begin),
        TIMESTAMP: Begin(state.at_time, state.end),
    }
    return begins[reader.policy]


def expected_of_all(readers, version):
    """A broker answers 0 for a queue that begins with a message 0 that is in memory: no policy applies then.

    On Java 17 one of 5.x takes every message to be in memory, as it looks for a method that is not there any more.
    """
    shortcut = (YOUNG,) if version == V4_9 else (YOUNG, COLD)
    return {each: expected(each, has_shortcut=each.state in shortcut) for each in readers}


@pytest.fixture(scope="module")
def core(tmp_path_factory):
    with contextlib.closing(Lab(tmp_path_factory.mktemp("core"))) as lab:
        yield Sets(lab, V5_5, clients=[V5_5], states=[EMPTY, YOUNG])


def test_groups_of_5_5_0_begin_as_the_table_shows(core):
    assert core.begins(core.by_policy) == expected_of_all(core.by_policy, V5_5)


def test_broadcasting_groups_have_no_shortcut(core):
    assert core.begins(core.broadcasting) == expected_of_broadcasting(core.broadcasting)


def expected_of_broadcasting(readers):
    return {each: Begin(expected(each, has_shortcut=False).topic, None) for each in readers}


@pytest.fixture(scope="module", params=[V5_5, V5_1, V4_9])
def full(request, tmp_path_factory):
    with contextlib.closing(Lab(tmp_path_factory.mktemp("full"))) as lab:
        yield Sets(lab, request.param, clients=CLIENTS, states=STATES)


@pytest.mark.soak
def test_groups_of_each_client_begin_at_each_broker_as_the_table_shows(full):
    readers = [*full.by_policy, *full.cold]
    assert full.begins(readers) == expected_of_all(readers, full.version)


@pytest.mark.soak
def test_broadcasting_groups_of_each_client_begin_at_each_broker_as_the_table_shows(full):
    assert full.begins(full.broadcasting) == expected_of_broadcasting(full.broadcasting)


@pytest.mark.soak
def test_stored_offset_counts_whatever_the_policy_and_one_outside_of_the_queue_is_corrected(full):
    corrected = {WITHIN: WITHIN, BELOW: OLD.begin}
    assert {each: begin.topic for each, begin in full.begins(full.stored).items()} == {
        each: corrected.get(each.stored, each.state.end) for each in full.stored
    }
