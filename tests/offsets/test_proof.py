"""How far the log of a broker is the log that was read before: a table of cases, then any history of two logs."""

from typing import NamedTuple

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from offsets.proof import Fingerprint, LogBefore, LogNow, LogProof, NoMessage, prove
from remoting.admin.log_epochs import LogEpoch

ABSENT, UNKNOWN = NoMessage.ABSENT, NoMessage.UNKNOWN


def at(place, *, length=10, crc=0):
    return Fingerprint(place, length, "TopicTest", 0, place // 10, 1_700_000_000_000 + place, crc)


#: A message of another log at the same place: only its body differs.
OTHER = at(0, crc=1)


def epochs(*rows):
    return tuple(LogEpoch(epoch=epoch, start_offset=start) for epoch, start in rows)


ONE = epochs((1, 0))
TWO = epochs((1, 0), (2, 100))


def the_proof(looks, *, fingerprints=(0, 90, 140), begin=0, end=200, before_end=160, before=None, now=None, epoch=None):
    kept = [at(place) for place in fingerprints]
    shown = [kept[number] if look == "same" else look for number, look in enumerate(looks)]
    return prove(LogBefore(kept, before_end, before), LogNow(begin, end, now, epoch), shown)


def exact(same_until, parted_at):
    """Return what epochs say."""
    return LogProof(same_until, parted_at, is_exact=True)


SAME = ["same", "same", "same"]


@pytest.mark.parametrize(
    ("case", "expected"),
    {
        "all match": (the_proof(SAME), LogProof(150, None)),
        "the last one differs": (the_proof(["same", "same", OTHER]), LogProof(100, 100)),
        "the last one is absent": (the_proof(["same", "same", ABSENT]), LogProof(100, 100)),
        "one in the middle differs, and a later one matches": (the_proof(["same", OTHER, "same"]), LogProof(10, 10)),
        "the first one differs": (the_proof([OTHER, "same", "same"]), LogProof(0, 0)),
        "none matches, and the log begins later": (the_proof([OTHER] * 3, begin=95), LogProof(0, 95, begin=95)),
        "the first ones have expired": (the_proof([ABSENT, ABSENT, "same"], begin=100), LogProof(150, None, begin=100)),
        "expired ones need no answer": (
            the_proof([UNKNOWN, UNKNOWN, "same"], begin=100),
            LogProof(150, None, begin=100),
        ),
        "an empty store": (the_proof([ABSENT] * 3, end=0), LogProof(0, 0)),
        "parted before one that is unknown": (the_proof(["same", OTHER, UNKNOWN]), LogProof(10, 10)),
        "a shorter log without epochs": (the_proof(SAME, end=155), LogProof(150, 150)),
        "as long as it was": (the_proof(SAME, end=160), LogProof(150, None)),
    }.values(),
)
def test_messages_prove_how_far_two_logs_are_the_same(case, expected):
    assert case == expected


def test_a_look_without_an_answer_leaves_everything_unknown():
    found = the_proof(["same", UNKNOWN, "same"])

    assert found == LogProof(0, None, "the message at 90 of the log could not be looked at")


@pytest.mark.parametrize(("fingerprints", "begin"), [((), 0), ((0, 90, 140), 150)])
def test_nothing_is_proved_without_a_message_that_is_still_there(fingerprints, begin):
    found = the_proof([ABSENT] * len(fingerprints), fingerprints=fingerprints, begin=begin, end=151)

    assert (found.same_until, found.parted_at) == (0, None)
    assert found.problem == "no message that was read before is still in the log"


@pytest.mark.parametrize(
    ("before", "now", "epoch", "expected"),
    {
        "the next epoch begins behind all that was read": (ONE, epochs((1, 0), (2, 170)), 2, exact(170, None)),
        "it begins within what was read": (ONE, epochs((1, 0), (2, 155)), 2, exact(155, 155)),
        "it begins below a message that matches": (
            ONE,
            epochs((1, 0), (2, 120)),
            2,
            LogProof(0, None, "the epochs diverge at 120, but the messages match"),
        ),
        "an epoch without a master, or one that is not listed": (ONE, epochs((1, 0), (3, 170)), 3, LogProof(150, None)),
        "the former master had a later epoch": (TWO, epochs((1, 0), (3, 155)), 3, LogProof(0, None, "?")),
        "the present epoch is not listed": (ONE, ONE, 2, LogProof(150, None)),
        "the same epoch goes on": (TWO, TWO, 2, LogProof(150, None)),
        "nothing in common": (epochs((1, 0)), epochs((2, 0)), 2, LogProof(150, None)),
        "without a controller now": (ONE, None, None, LogProof(150, None)),
        "without a controller before": (None, epochs((1, 0), (2, 155)), 2, LogProof(150, None)),
        "which epoch is present is unknown": (ONE, epochs((1, 0), (2, 155)), None, LogProof(150, None)),
        "an empty list": (ONE, (), 1, LogProof(150, None)),
    }.values(),
)
def test_epochs_say_exactly_where_logs_part_if_they_have_no_gap(before, now, epoch, expected):
    found = the_proof(SAME, before=before, now=now, epoch=epoch)

    assert found._replace(problem="") == expected._replace(problem="")
    assert bool(found.problem) == bool(expected.problem)


@pytest.mark.parametrize(
    ("starts_at", "expected"),
    [
        (120, exact(120, 120)),
        (100, exact(100, 100)),
        # It contradicts the messages: they count.
        (80, LogProof(100, 100)),
        (145, LogProof(100, 100)),
    ],
)
def test_epochs_narrow_where_logs_part_between_two_messages(starts_at, expected):
    now = epochs((1, 0), (2, starts_at))

    assert the_proof(["same", "same", OTHER], before=ONE, now=now, epoch=2) == expected


def test_a_reading_is_proved_by_its_first_end():
    assert LogProof(150, None).proves(150)
    assert not LogProof(150, None).proves(151)


@pytest.mark.parametrize(
    ("proof", "own", "expected", "lasted"),
    [
        (LogProof(150, None), (90, 140), 150, False),
        # Another master wrote since: what this one has of its own proves nothing of that.
        (LogProof(150, None), (90,), 100, True),
        (LogProof(150, None), (), 0, True),
        # Of another log.
        (LogProof(150, None), (90, 145), 100, False),
        (exact(155, 155), (), 155, True),
        # It may have lost the end of its log, and gone on in the same epoch.
        (exact(155, 155), (90,), 100, False),
    ],
)
def test_readings_of_one_run_are_proved_by_its_own_messages_or_by_epochs(proof, own, expected, lasted):
    found = proof.of_run([at(place) for place in own], lasted=lasted)
    assert (found.same_until, found.parted_at) == (expected, proof.parted_at)


def test_an_expired_message_of_a_run_does_not_show_from_where_on_its_master_wrote_the_log():
    # A tail of the broker's own may lie there: 321 shows the first message that is left as if it lay behind it.
    found = the_proof([ABSENT, "same", "same"], begin=50)
    assert found.of_run([at(0), at(90), at(140)]).same_from == 90


# Any history of a set: what is proved has to be true of the bytes.


class Message(NamedTuple):
    place: int
    length: int
    number: int


class Log:
    """The log of a broker and its list of epochs, which it changes as Java does."""

    def __init__(self):
        self.messages, self.begin, self.epochs = [], 0, []

    @property
    def end(self):
        return self.messages[-1].place + self.messages[-1].length if self.messages else self.begin

    def list_epoch(self, number, start):
        # EpochFileCache.appendEntry: anything else is only logged.
        if not self.epochs or (number > self.epochs[-1].epoch and start > self.epochs[-1].start_offset):
            self.epochs.append(LogEpoch(epoch=number, start_offset=start))

    def cut(self, end, *, with_epochs):
        self.messages = [each for each in self.messages if each.place + each.length <= end]
        if with_epochs:
            self.epochs = [each for each in self.epochs if each.start_offset < self.end]

    def copy(self, master, epoch, count):
        """Follow a master: leave what it does not have, and copy the next messages."""
        common = max((each for each in {*self.epochs} & {*master.epochs}), default=None)
        ends = [log.epochs[log.epochs.index(common) + 1 :] for log in (self, master)] if common else []
        consistent = min([self.end, master.end, *(later[0].start_offset for later in ends if later)]) if common else 0
        self.cut(consistent, with_epochs=True)
        for message in [each for each in master.messages if each.place >= self.end][:count]:
            self.messages.append(message)
            covering = [each for each in master.epochs if each.start_offset <= message.place]
            if covering:
                self.list_epoch(covering[-1].epoch, covering[-1].start_offset)
        if self.end == master.end:
            self.list_epoch(epoch, master.end)

    def look(self, place):
        found = next((each for each in self.messages if each.place == place and place >= self.begin), None)
        return ABSENT if found is None else fingerprint_of(found)


def fingerprint_of(message):
    return Fingerprint(message.place, message.length, "t", 0, 0, 0, message.number)


class BrokerSet:
    """Two brokers that take turns as master, and what a manager reads of the first one before the last election."""

    def __init__(self, steps, kept, has_epochs):
        self.logs, self.master, self.epoch, self.number = [Log(), Log()], 0, 1, 0
        self.has_epochs = has_epochs
        self.run_began = 0
        self.logs[0].list_epoch(1, 0)
        for step, amount in steps:
            getattr(self, step)(amount)
        self.before = self.logs[self.master]
        self.read = [*self.before.messages], [*self.before.epochs], self.before.end
        taken = [each for each in self.before.messages if each.place >= self.before.begin]
        self.fingerprints = [fingerprint_of(each) for each, is_kept in zip(taken, kept, strict=False) if is_kept]
        # The first reading of a run may take a message from before it.
        self.began_at, earlier = self.run_began, [mark for mark in self.fingerprints if mark.place < self.run_began]
        self.own = earlier[-1:] + [mark for mark in self.fingerprints if mark.place >= self.began_at]

    def write(self, count):
        log = self.logs[self.master]
        for _ in range(count):
            self.number += 1
            # Few lengths: logs that have parted meet again at equal borders.
            log.messages.append(Message(log.end, 10 + self.number % 2, self.number))

    def copy(self, count):
        self.logs[1 - self.master].copy(self.logs[self.master], self.epoch, count)

    def elect_other(self, _=0):
        self.master = 1 - self.master
        self.elect_again()

    def elect_again(self, _=0):
        self.epoch += 1
        self.run_began = self.logs[self.master].end
        self.logs[self.master].list_epoch(self.epoch, self.run_began)

    def no_master(self, _):
        self.epoch += 1

    def lose_end_of_slave(self, count):
        log = self.logs[1 - self.master]
        log.cut(log.end - 10 * count, with_epochs=count % 2 == 0)

    def expire(self, count):
        for log in self.logs:
            log.begin = max(log.begin, min(log.begin + 10 * count, log.end))

    def prove(self):
        """Return the proof at the present master, read now."""
        _, read_epochs, read_end = self.read
        log, epochs_ = self.logs[self.master], self.has_epochs
        before = LogBefore(self.fingerprints, read_end, read_epochs if epochs_ else None)
        now = LogNow(log.begin, log.end, log.epochs if epochs_ else None, self.epoch if epochs_ else None)
        return prove(before, now, [log.look(each.place) for each in self.fingerprints])

    def common_end(self):
        """Return where the bytes of the log that was read and those of the present one really part."""
        log = self.logs[self.master]
        # An emptied replica copies from where the master's log begins by then.
        read, now = ([each for each in logged if each.place >= log.begin] for logged in (self.read[0], log.messages))
        end = 0
        for former, present in zip(read, now, strict=False):
            if former != present:
                return end
            end = former.place + former.length
        return end

    def can_show(self, parts_at):
        """Return whether a sample shows the parting: not if both logs have all of it, as they met again behind it."""
        (read, _, _), log = self.read, self.logs[self.master]
        both = {*read} & {*log.messages}
        has_met = any(each.place >= parts_at for each in both)
        return not has_met or any(
            log.look(each.place) != each for each in self.fingerprints if each.place < max(both).place
        )


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["write", "write", "copy", "copy", "elect_other", "elect_again", "no_master"]),
        st.integers(1, 6),
    ),
    max_size=14,
)
AFTER = st.lists(
    st.tuples(st.sampled_from(["lose_end_of_slave", "copy", "no_master", "expire"]), st.integers(1, 6)), max_size=3
)


@settings(max_examples=500)
@given(STEPS, AFTER, st.integers(0, 12), st.lists(st.booleans(), max_size=40), st.booleans())
def test_a_proof_never_claims_more_than_the_bytes_show(steps, after, refilled, kept, has_epochs):
    brokers = BrokerSet(steps, kept, has_epochs)
    for step, amount in after:
        getattr(brokers, step)(amount)
    brokers.elect_other()
    brokers.write(refilled)
    found, parts_at, read_end = brokers.prove(), brokers.common_end(), brokers.read[2]
    log = brokers.logs[brokers.master]

    for lasted in (False, True):
        proof = found.of_run(brokers.own, brokers.began_at, lasted=lasted)
        # What has expired is not skipped.
        claimed = range(max(proof.same_from, log.begin), min(proof.same_until, read_end))
        assert all(log.look(each.place) == fingerprint_of(each) for each in brokers.read[0] if each.place in claimed)
    if found.problem:
        assert (found.same_until, found.parted_at) == (0, None)
    # A replica kept messages of its own, and copies what comes behind them.
    assume(brokers.can_show(parts_at))
    parts_at = max(parts_at, log.begin)
    if found.parted_at is not None:
        assert found.parted_at <= parts_at
    if any(parts_at <= each.place for each in brokers.fingerprints):
        assert found.parted_at is not None
