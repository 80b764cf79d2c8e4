"""Never two holders, and rising tokens, under any sequence of requests, pauses, restarts and changes of the leader."""

import contextlib

from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from lock_builders import GROUP, Locks, a_session
from offset_builders import UNIX_MS, Offsets, a_queue, a_scope

from controller.offsets.commits.freezes import Freeze, decide_freeze, decide_thaw
from controller.offsets.commits.results import OffsetNotFound, OffsetStatus
from controller.offsets.locks.sessions.acquire import AcquireStatus
from controller.offsets.locks.sessions.lock_table import load_locks
from controller.offsets.locks.sessions.operator_rules import (
    decide_fences_end,
    declare_orderly,
    fences_of,
    withdraw_orderly,
)
from controller.offsets.locks.sessions.refusals import GroupRefused, LocksRefused, SessionEnded
from controller.offsets.locks.sessions.session_rules import decide_expiry
from controller.offsets.locks.sessions.values import Lead

TTLS = {"a": 12_000, "b": 18_000, "c": 60_000}
SESSIONS = st.sampled_from(sorted(TTLS))
QUEUES = [a_queue(0), a_queue(1)]
KEYS = st.sampled_from(QUEUES)
KEY_LISTS = st.sampled_from([QUEUES, QUEUES[:1]])
TIMES = st.sampled_from([5_000, 1_000, 7_000, 13_000])


class Client:
    """What a client believes, on its own clock: it consumes a queue for half a ttl after it sent a renewal."""

    def __init__(self):
        self.session = 0
        self.tokens = {}
        self.valid_until_ms = -1


class AnyRequests(RuleBasedStateMachine):
    """Three clients and their manager; `real_ms` is the time of the world, of which the manager sees its own part."""

    def __init__(self):
        super().__init__()
        self.locks = Locks()
        self.offsets = Offsets(tokens=self.locks.table)
        self.real_ms = 0
        self.former = None
        self.clients = {each: Client() for each in TTLS}
        #: Queue -> the last token that was granted.
        self.tokens = {}
        self.commits = {}
        #: Queue -> the token of its last forced release, if it had an offset.
        self.fences = {}
        for name in TTLS:
            self.open(name)

    def id_of(self, name):
        return f"{name}-{self.clients[name].session}"

    def renewed(self, name, queues, valid_ms=None):
        client = self.clients[name]
        client.tokens = dict(queues)
        client.valid_until_ms = self.real_ms + (TTLS[name] // 2 if valid_ms is None else valid_ms)

    def open(self, name):
        """Begin anew with another session, as a client does whose session has ended."""
        client = self.clients[name]
        client.session += 1
        opened = self.locks.open(a_session(self.id_of(name), client_id=name, ttl_ms=TTLS[name]))
        self.renewed(name, opened.queues)

    @rule(name=SESSIONS)
    def renew(self, name):
        try:
            self.renewed(name, self.locks.renew(self.id_of(name)))
        except SessionEnded:
            self.open(name)

    @rule(name=SESSIONS, keys=KEY_LISTS)
    def acquire(self, name, keys):
        try:
            results = self.locks.acquire_all(self.id_of(name), *keys)
        except SessionEnded:
            self.open(name)
            results = self.locks.acquire_all(self.id_of(name), *keys)
        for key, result in zip(keys, results, strict=True):
            if result.status is AcquireStatus.GRANTED:
                self.granted(name, key, result.token)
            else:
                self.clients[name].tokens.pop(key, None)

    def granted(self, name, key, token):
        client = self.clients[name]
        if client.tokens.get(key) != token:
            last = self.tokens.get(key, 0)
            assert token > last or self.locks.table.lock_of(key).session_id == self.id_of(name)
        self.tokens[key] = max(token, self.tokens.get(key, 0))
        client.tokens[key] = token

    @rule(after_ms=TIMES)
    def time_passes(self, after_ms):
        self.real_ms += after_ms
        self.locks.now_ms += after_ms
        if self.former is not None:
            self.former.now_ms += after_ms

    @rule(down_ms=TIMES, clock_ms=st.integers(0, 10))
    def restart(self, down_ms, clock_ms):
        self.real_ms += down_ms
        old = self.locks.table
        locks = {} if not old.count else dict(old.locks_of(GROUP))
        table = load_locks(old.sessions.values(), locks, old.orderly_groups, last_token=old.last_token, now_ms=clock_ms)
        self.locks.table, self.locks.now_ms = table, clock_ms
        self.offsets.tokens = table

    @rule(name=SESSIONS, key=KEYS, ahead=st.integers(0, 5))
    def commit(self, name, key, ahead):
        """Also by a client whose lease is over, or that was paused."""
        token = self.clients[name].tokens.get(key)
        if token is None:
            return
        before = self.offsets.read(key)
        offset = ahead + (0 if before == OffsetNotFound() else before.offset)
        result = self.offsets.commit(offset, key, token=token)
        lock = self.locks.table.lock_of(key)
        if lock is not None and lock.token > token:
            assert result.status is OffsetStatus.FENCED
            assert self.offsets.read(key) == before
        if result.status is OffsetStatus.OK:
            assert token >= self.commits.get(key, 0)
            self.commits[key] = token

    @invariant()
    def one_client_at_a_time_consumes_a_queue(self):
        for key in QUEUES:
            consuming = [
                name
                for name, client in self.clients.items()
                if key in client.tokens and self.real_ms <= client.valid_until_ms
            ]
            assert len(consuming) <= 1

    @invariant()
    def tokens_are_never_given_twice(self):
        table = self.locks.table
        tokens = [lock.token for lock in table.locks_of(GROUP).values()]
        assert len(set(tokens)) == len(tokens)
        assert all(token <= table.last_token for token in tokens)

    @invariant()
    def sessions_and_locks_agree(self):
        table = self.locks.table
        held = {key for session in table.sessions for key in table.queues_of(session)}
        locks = table.locks_of(GROUP)
        assert held == {key for key, lock in locks.items() if lock.session_id}
        assert len(locks) == table.count

    @rule(name=SESSIONS)
    def open_again(self, name):
        """Repeat the request for a session: its client counts from it as from any other."""
        try:
            opened = self.locks.open(a_session(self.id_of(name), client_id=name, ttl_ms=TTLS[name]))
        except SessionEnded:
            self.open(name)
        else:
            self.renewed(name, opened.queues, opened.valid_ms)

    @rule(name=SESSIONS, key=KEYS)
    def release(self, name, key):
        self.locks.release(self.id_of(name), key)
        self.clients[name].tokens.pop(key, None)

    @rule(name=SESSIONS, to=SESSIONS)
    def transfer(self, name, to):
        try:
            token = self.locks.transfer(self.id_of(name), to)
        except LocksRefused:
            return
        assert token > self.tokens.get(a_queue(), 0)
        self.tokens[a_queue()] = token
        self.clients[name].tokens.pop(a_queue(), None)

    @rule(name=SESSIONS)
    def close(self, name):
        self.locks.close(self.id_of(name))
        self.clients[name].tokens = {}

    @rule(key=KEYS)
    def force_release(self, key):
        token = self.locks.force_release(key)
        assert token > self.tokens.get(key, 0)
        self.tokens[key] = token
        parts = [(fences, self.offsets.fence(*fences)) for fences in fences_of(self.locks.table)]
        if self.offsets.read(key) != OffsetNotFound():
            self.fences[key] = token
        for fences, stored in parts:
            self.locks.table.apply(decide_fences_end(self.locks.table, fences, stored, UNIX_MS), self.locks.now_ms)
        # Its holder is not notified: what protects the queue is that its commits are fenced.
        for client in self.clients.values():
            client.tokens.pop(key, None)

    @rule(key=KEYS, earlier=st.integers(1, 3))
    def former_holder_commits(self, key, earlier):
        token = self.fences.get(key, 0) - earlier
        if token > 0:
            assert self.offsets.commit(1_000_000, key, token=token).status is not OffsetStatus.OK

    @rule()
    def expire(self):
        self.locks.table.apply(decide_expiry(self.locks.table, self.locks.now_ms), self.locks.now_ms)

    @rule(paused_for_ms=TIMES)
    def manager_is_paused(self, paused_for_ms):
        paused_ms = self.locks.now_ms
        self.time_passes(paused_for_ms)
        self.locks.table.begin_leases(paused_ms, self.locks.now_ms, self.locks.lead)

    @rule(after_ms=TIMES)
    def another_manager_leads(self, after_ms):
        """The former one is paused as long as its lead lasts, and has its table still."""
        paused_ms = self.locks.now_ms
        self.former = Locks(table=self.locks.table)
        self.former.now_ms, self.former.lead = paused_ms, Lead(0, paused_ms)
        self.restart(after_ms, paused_ms + after_ms)
        self.former.now_ms += after_ms

    @rule(name=SESSIONS)
    def former_manager_goes_on(self, name):
        if self.former is None:
            return
        former = self.former
        with contextlib.suppress(LocksRefused):
            former.table.begin_leases(former.lead.until_ms, former.now_ms, former.lead)
        with contextlib.suppress(LocksRefused):
            self.renewed(name, former.renew(self.id_of(name)))

    @rule(frozen=st.booleans())
    def freeze_or_thaw(self, frozen):
        freezes = self.locks.table.freezes
        if frozen:
            freeze = Freeze(operation="op-1", reason="queues grow", scopes=(a_scope("billing"),))
            freezes.apply(decide_freeze(freezes, freeze), self.locks.now_ms)
            return
        for change in decide_thaw(freezes, "op-1"):
            freezes.apply(change, self.locks.now_ms)

    @rule()
    def withdraw_and_declare(self):
        table = self.locks.table
        try:
            table.apply(withdraw_orderly(table, GROUP, self.locks.now_ms), self.locks.now_ms)
        except GroupRefused:
            return
        table.apply(declare_orderly(table, GROUP), self.locks.now_ms)


TestAnyRequests = AnyRequests.TestCase
TestAnyRequests.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
#: What clients do most of the time; any of these steps may be followed by any other.
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["acquire", "wait", "acquire", "wait", "renew", "open", "commit", "restart"]), SESSIONS, TIMES
    ),
    min_size=12,
    max_size=30,
)
#: A client repeats its first request late, and counts on the answer; a deposed manager goes on after the lease is over.
TAKEN_OVER = [("renew", "b", 0), ("acquire", "b", 0)]
REPEATED = [("acquire", "a", 0), ("wait", "a", 10_000), ("open", "a", 0), ("wait", "a", 5_000), *TAKEN_OVER]
DEPOSED = [("acquire", "a", 0), ("depose", "a", 5_000), ("wait", "a", 13_000), *TAKEN_OVER, ("resume", "a", 0)]


@settings(max_examples=150, deadline=None)
@given(STEPS)
@example(REPEATED)
@example(DEPOSED)
def test_clients_that_come_and_go_never_consume_a_queue_together(steps):
    machine = AnyRequests()
    does = {
        "acquire": lambda name, _: machine.acquire(name, QUEUES),
        "wait": lambda _, after_ms: machine.time_passes(after_ms),
        "renew": lambda name, _: machine.renew(name),
        "open": lambda name, _: machine.open_again(name),
        "depose": lambda _, after_ms: machine.another_manager_leads(after_ms),
        "resume": lambda name, _: machine.former_manager_goes_on(name),
        "commit": lambda name, _: machine.commit(name, QUEUES[0], 3),
        "restart": lambda _, after_ms: machine.restart(after_ms, 0),
    }
    for what, name, after_ms in steps:
        does[what](name, after_ms)
        machine.one_client_at_a_time_consumes_a_queue()
        machine.tokens_are_never_given_twice()
