"""The invariants of docs/protocol/offsets.md 7 under any sequence of operations, failures and crashes."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from offset_builders import BROKER, CLUSTER, EPOCH, Offsets, Tokens, a_queue, a_scope, a_writer, an_offset

from controller.offsets.commits.clone import CloneRequest, IfExists, decide_clone
from controller.offsets.commits.commit import CommitEntry
from controller.offsets.commits.delete import decide_deletion
from controller.offsets.commits.freezes import Freeze, FreezeTable, decide_freeze, decide_thaw
from controller.offsets.commits.refusals import CloneRefused, RowsUnavailable
from controller.offsets.commits.reset import decide_reset, decide_undo
from controller.offsets.commits.results import OffsetNotFound, OffsetStatus, OffsetUnavailable
from controller.offsets.commits.seed import OffsetEntry, decide_seed
from controller.offsets.commits.writing import LEADS
from controller.offsets.storage.dirty_offsets import settled, superseding

ROWS_MAX = 6
KEYS = st.builds(
    a_queue,
    st.integers(0, 1),
    group=st.sampled_from(["billing", "audit"]),
    broker_name=st.sampled_from([BROKER, "broker-b"]),
)
OFFSETS = st.integers(0, 12)
EPOCHS = st.sampled_from((0, EPOCH, EPOCH + LEADS, EPOCH + 2 * LEADS))
ENTRIES = st.lists(
    st.builds(CommitEntry, KEYS, OFFSETS, reset_epoch=EPOCHS, token=st.integers(0, 3)),
    min_size=1,
    max_size=3,
)
FORCED = st.lists(st.builds(OffsetEntry, KEYS, OFFSETS), min_size=1, max_size=2)


def shown(stored):
    """What readers see of a stored value."""
    if stored is None:
        return OffsetNotFound()
    return OffsetNotFound(stored.reset_epoch) if stored.is_deleted else stored


class AnyOperations(RuleBasedStateMachine):
    """A manager with its journal and its remote store, of which each step may be the last one before a crash."""

    def __init__(self):
        super().__init__()
        self.offsets = Offsets(rows_max=ROWS_MAX, tokens=Tokens(last=3))
        #: Decisions that are on their way to the journal, oldest first.
        self.pending = []
        #: What the journal has and the remote store may not.
        self.journal = {}
        self.remote = {}
        #: What readers are to see.
        self.durable = {}
        #: Queue -> the newest commit that was acknowledged.
        self.acknowledged = {}
        self.undoable = []

    def stage(self, decision, commits=()):
        self.offsets.table.stage(decision.changes)
        self.pending.append((decision, commits))

    @rule(entries=ENTRIES)
    def commit(self, entries):
        before = {each.key: self.offsets.table.queues_of(each.key.of).get(each.key.queue_id) for each in entries}
        decision = self.offsets.decide_commits(*entries)
        for change in decision.changes:
            old, new = before[change.key], change.after
            assert change.before == old
            if old is not None:
                assert (new.reset_epoch, new.offset >= old.offset, new.token >= old.token) == (
                    old.reset_epoch,
                    True,
                    True,
                )
        for entry, result in zip(entries, decision.results, strict=True):
            if result.status is OffsetStatus.OK and (old := before[entry.key]) is not None:
                assert entry.reset_epoch == old.reset_epoch
                assert not 0 < entry.token < old.token
        self.stage(decision, entries)

    @rule(entries=FORCED)
    def seed(self, entries):
        decision = decide_seed(self.offsets.table, self.offsets.freezes, entries, a_writer())
        for each in decision.changes:
            assert each.before is None or each.before.is_deleted or each.before == each.after
        self.stage(decision)

    @rule(entries=FORCED)
    def reset(self, entries):
        decision = decide_reset(self.offsets.table, self.offsets.freezes, entries, a_writer())
        for each in decision.changes:
            assert each.after.reset_epoch > (0 if each.before is None else each.before.reset_epoch)
        self.stage(decision)
        self.undoable.append(decision)

    @precondition(lambda self: self.undoable)
    @rule(data=st.data())
    def undo(self, data):
        undone = data.draw(st.sampled_from(self.undoable))
        self.stage(decide_undo(self.offsets.table, self.offsets.freezes, undone.changes, a_writer()))

    @rule(group=st.sampled_from(["billing", "audit"]), broker=st.sampled_from([None, BROKER]))
    def delete(self, group, broker):
        scope = a_scope(group, broker_name=broker)
        decision = decide_deletion(self.offsets.table, self.offsets.freezes, scope, a_writer())
        assert all(scope.covers(each.key.of) for each in decision.changes)
        self.stage(decision)

    @rule(if_exists=st.sampled_from(IfExists))
    def clone(self, if_exists):
        request = CloneRequest(cluster=CLUSTER, source_group="billing", to_group="audit", if_exists=if_exists)
        try:
            cloned, decision = decide_clone(self.offsets.table, self.offsets.freezes, request, a_writer())
        except (CloneRefused, RowsUnavailable):
            # An offset that is being deleted is not there yet, and not gone either.
            return
        for each in cloned:
            source = self.offsets.read(each.key._replace(of=each.key.of._replace(group="billing")))
            assert each.result.status is not OffsetStatus.OK or each.result.stored.offset == source.offset
        self.stage(decision)

    @rule(key=KEYS)
    def freeze(self, key):
        freeze = Freeze(operation="op-1", reason="moves", keys=frozenset({key}))
        self.offsets.freezes.apply(decide_freeze(self.offsets.freezes, freeze), 0)
        assert self.offsets.decide_commits(CommitEntry(key, 12)).results[0].status is not OffsetStatus.OK

    @rule()
    def thaw(self):
        for change in decide_thaw(self.offsets.freezes, "op-1"):
            self.offsets.freezes.apply(change, 0)

    @precondition(lambda self: self.pending)
    @rule()
    def journal_has_it(self):
        decision, commits = self.pending.pop(0)
        self.write(decision.changes)
        self.offsets.table.confirm(decision.changes)
        for change in decision.changes:
            self.durable[change.key] = change.after
            if change.after.reset_epoch != self.acknowledged.get(change.key, (None, 0))[0]:
                self.acknowledged.pop(change.key, None)
        for entry, result in zip(commits, decision.results, strict=bool(commits)):
            if result.status is OffsetStatus.OK:
                epoch, offset = self.acknowledged.get(entry.key, (entry.reset_epoch, 0))
                self.acknowledged[entry.key] = (epoch, max(offset, entry.offset))

    def write(self, changes):
        for change in changes:
            self.journal[change.key] = superseding(self.journal.get(change.key), change, 1)

    @precondition(lambda self: self.pending)
    @rule(data=st.data())
    def disk_is_full(self, data):
        decision, _ = self.pending.pop(data.draw(st.integers(0, len(self.pending) - 1)))
        self.offsets.table.withdraw(decision.changes)

    @precondition(lambda self: self.journal)
    @rule(data=st.data())
    def flush(self, data):
        key = data.draw(st.sampled_from(sorted(self.journal)))
        self.push(key)
        del self.journal[key]

    def push(self, key):
        self.remote[key] = settled(self.journal[key], self.remote.get(key))

    @rule(repeats=st.integers(1, 2), is_written=st.booleans())
    def crash(self, repeats, is_written):
        # The last transaction may have reached the disk without an answer: a reset or a deletion counts then.
        written = [change for decision, _ in self.pending[:is_written] for change in decision.changes]
        self.write(written)
        self.pending.clear()
        for _ in range(repeats):
            for key in self.journal:
                self.push(key)
        self.journal.clear()
        self.undoable.clear()
        self.restart()
        self.check_acknowledged({each.key for each in written})

    def restart(self):
        self.offsets = Offsets(rows_max=ROWS_MAX, tokens=Tokens(last=3), freezes=FreezeTable(), is_loaded=False)
        table = self.offsets.table
        assert isinstance(table.read(a_queue()), OffsetUnavailable)
        rows = {}
        for key, stored in self.remote.items():
            rows.setdefault(key.of, {})[key.queue_id] = stored
        for of, queues in rows.items():
            table.load(of, queues)
        table.finish_loading()
        self.durable = dict(self.remote)

    def check_acknowledged(self, overtaken):
        for key, (epoch, offset) in self.acknowledged.items():
            stored = self.offsets.read(key)
            if key not in overtaken:
                assert (stored.reset_epoch, stored.offset) >= (epoch, offset)
        self.acknowledged.clear()

    @invariant()
    def readers_see_what_is_durable(self):
        for group in ("billing", "audit"):
            for broker in (BROKER, "broker-b"):
                for queue_id in (0, 1):
                    key = a_queue(queue_id, group=group, broker_name=broker)
                    assert self.offsets.read(key) == shown(self.durable.get(key))

    @invariant()
    def table_is_bounded(self):
        assert self.offsets.table.count <= ROWS_MAX


TestAnyOperations = AnyOperations.TestCase
TestAnyOperations.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)


def test_a_crash_leaves_the_commit_that_was_acknowledged_and_not_flushed():
    machine = AnyOperations()
    machine.commit([CommitEntry(a_queue(), 5)])
    machine.journal_has_it()
    machine.crash(repeats=1, is_written=False)
    assert machine.offsets.read() == an_offset(5)
