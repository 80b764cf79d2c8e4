"""A lock table with an orderly group, and clients of it; a test writes only what it is about."""

from offset_builders import CLUSTER, UNIX_MS, a_queue

from controller.offsets.locks.sessions.acquire import AcquireRequest, decide_acquire
from controller.offsets.locks.sessions.handover import TransferRequest, decide_release, decide_transfer
from controller.offsets.locks.sessions.lock_table import LockTable
from controller.offsets.locks.sessions.operator_rules import decide_force_release, declare_orderly
from controller.offsets.locks.sessions.session_rules import decide_close, decide_open, held
from controller.offsets.locks.sessions.values import Lead, LockGroup, LockSession

GROUP = LockGroup(CLUSTER, "", "billing")
TTL_MS = 60_000
#: Of a manager that nobody can depose.
ENDLESS = Lead(0, 2**63 - 1)


def a_session(session_id="s1", client_id=None, group=GROUP, ttl_ms=TTL_MS):
    return LockSession(
        session_id=session_id,
        group=group,
        client_id=client_id or f"client-of-{session_id}",
        ttl_ms=ttl_ms,
        opened_unix_ms=UNIX_MS,
    )


def queues(*queue_ids, **row):
    return [a_queue(each, **row) for each in queue_ids]


class Locks:
    """A table to which each decision is applied at once; `now_ms` is a test's to change."""

    def __init__(self, *sessions, table=None):
        self.table = LockTable() if table is None else table
        self.now_ms = 0
        self.lead = ENDLESS
        self.table.apply(declare_orderly(self.table, GROUP), 0)
        for session in sessions:
            self.open(session)

    def open(self, session):
        decision = decide_open(self.table, session, self.now_ms)
        self.table.apply(decision.changes, self.now_ms)
        return decision.answer

    def renew(self, session_id):
        return dict(held(self.table, self.table.renew(session_id, self.now_ms, self.lead)).queues)

    def acquire_all(self, session_id, *keys, operation=""):
        request = AcquireRequest(
            session_id=session_id,
            keys=keys,
            lead=self.lead,
            operation=operation,
            now_ms=self.now_ms,
            unix_ms=UNIX_MS,
        )
        decision = decide_acquire(self.table, request)
        self.table.apply(decision.changes, self.now_ms)
        return decision.answer

    def acquire(self, session_id, *keys, **request):
        """The status of each queue."""
        return [each.status for each in self.acquire_all(session_id, *keys or [a_queue()], **request)]

    def token(self, session_id, key=None):
        """The token of a queue that is granted."""
        (result,) = self.acquire_all(session_id, key or a_queue())
        return result.token

    def release(self, session_id, *keys, committed=None):
        decision = decide_release(self.table, session_id, keys or [a_queue()], committed or {})
        self.table.apply(decision.changes, self.now_ms)
        return [each.status for each in decision.answer]

    def transfer(self, session_id, to_client, *, committed=None, operation=""):
        request = TransferRequest(
            session_id=session_id,
            key=a_queue(),
            to_client=to_client,
            operation=operation,
            now_ms=self.now_ms,
            unix_ms=UNIX_MS,
        )
        decision = decide_transfer(self.table, request, committed or {})
        self.table.apply(decision.changes, self.now_ms)
        return decision.answer

    def close(self, session_id):
        self.table.apply(decide_close(self.table, session_id), self.now_ms)

    def force_release(self, key=None):
        decision = decide_force_release(self.table, key or a_queue(), UNIX_MS)
        self.table.apply(decision.changes, self.now_ms)
        return decision.answer
