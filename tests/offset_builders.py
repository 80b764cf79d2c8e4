"""A table of offsets with what keeps writers away; a test writes only what it is about."""

from controller.offsets.commits.commit import CommitEntry, CommitFences, CommitRequest, NoLocks, decide_commit
from controller.offsets.commits.delete import decide_deletion
from controller.offsets.commits.entry_checks import OffsetLimits
from controller.offsets.commits.fence import decide_fence
from controller.offsets.commits.freezes import FreezeTable
from controller.offsets.commits.managed_offsets import ManagedOffsets
from controller.offsets.commits.reset import decide_reset, decide_undo
from controller.offsets.commits.scopes import OffsetScope
from controller.offsets.commits.seed import OffsetEntry, decide_seed
from controller.offsets.commits.writing import LEADS, OffsetWriter
from controller.offsets.values import GroupTopic, OffsetSource, QueueKey, StoredOffset

CLUSTER, BROKER = "DefaultCluster", "broker-a"
UNIX_MS = 1_772_409_600_000
#: The first reset epoch that `a_writer` begins.
EPOCH = UNIX_MS * LEADS


def a_row(group="billing", topic="orders", broker_name=BROKER, namespace="", cluster=CLUSTER):
    return GroupTopic(cluster, namespace, group, topic, broker_name)


def a_queue(queue_id=0, **row):
    return QueueKey(a_row(**row), queue_id)


def a_scope(group=None, topic=None, broker_name=None):
    return OffsetScope(CLUSTER, "", group, topic, broker_name)


def an_offset(offset, epoch=0, token=0, source=OffsetSource.CLIENT, writer="client-1"):
    return StoredOffset(offset, epoch, source, writer, token, UNIX_MS)


def a_writer(operation="", now_ms=0, source=OffsetSource.OPERATOR, unix_ms=UNIX_MS):
    return OffsetWriter(writer="alice", source=source, operation=operation, now_ms=now_ms, unix_ms=unix_ms)


class Tokens(NoLocks):
    """Tokens as a lock table would have granted them."""

    def __init__(self, held=None, last=0):
        self.held = held or {}
        self.last_token = max([last, *self.held.values()])

    def required_token(self, key):
        return self.held.get(key, 0)


class Offsets:
    """A table whose changes are durable as soon as they are decided, unless a test stages them itself."""

    def __init__(self, *, tokens=None, freezes=None, rows_max=1_000_000, is_loaded=True, lead=0):
        self.table = ManagedOffsets(OffsetLimits(rows_max=rows_max), lead)
        if is_loaded:
            self.table.finish_loading()
        self.freezes = freezes or FreezeTable()
        self.tokens = tokens or NoLocks()

    def decide_commits(self, *entries, source=OffsetSource.CLIENT, writer="client-1", now_ms=0):
        request = CommitRequest(entries=entries, writer=writer, source=source, now_ms=now_ms, unix_ms=UNIX_MS)
        return decide_commit(self.table, request, CommitFences(self.tokens, self.freezes))

    def store(self, decision):
        self.table.stage(decision.changes)
        self.table.confirm(decision.changes)
        return decision.results

    def commits(self, *entries, **request):
        return self.store(self.decide_commits(*entries, **request))

    def commit(self, offset, key=None, *, epoch=0, token=0, **request):
        return self.commits(CommitEntry(key or a_queue(), offset, epoch, token), **request)[0]

    def seed(self, offset, key=None, **writer):
        return self.store(self._decide(decide_seed, offset, key, writer))[0]

    def reset(self, offset, key=None, **writer):
        """Return the decision: its changes are what an undo needs."""
        decision = self._decide(decide_reset, offset, key, writer)
        self.store(decision)
        return decision

    def undo(self, decision, **writer):
        return self.store(decide_undo(self.table, self.freezes, decision.changes, a_writer(**writer)))

    def delete(self, scope, **writer):
        decision = decide_deletion(self.table, self.freezes, scope, a_writer(**writer))
        self.store(decision)
        return decision

    def fence(self, *fences):
        """Put tokens into offsets, and return a result for each."""
        return self.store(decide_fence(self.table, fences, a_writer()))

    def read(self, key=None):
        return self.table.read(key or a_queue())

    def _decide(self, decide, offset, key, writer):
        return decide(self.table, self.freezes, [OffsetEntry(key or a_queue(), offset)], a_writer(**writer))
