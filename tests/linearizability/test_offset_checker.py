"""The checker of offsets finds what is not linearizable, and nothing else: histories written by hand."""

import itertools

import pytest
from linearizability.offset_checker import check_offset
from linearizability.offset_model import (
    ABSENT,
    COMMIT,
    DELETE,
    OK,
    READ,
    RESET,
    STALE,
    OffsetOperation,
    Position,
)


class QueueStory:
    """A history as it is told: each operation a step after the last one, unless it says when it was."""

    def __init__(self):
        self.operations = []
        self._now = itertools.count(1)

    def add(self, kind, wanted=Position(), *, answer=None, begin=None, end=None):  # noqa: B008  # a value
        begin = next(self._now) if begin is None else begin
        end = (begin + 0.5 if end is None else end) if answer is not None else None
        number = len(self.operations)
        operation = OffsetOperation(number, f"client{number}", kind, wanted, begin, end, answer)
        self.operations.append(operation)
        return operation

    def commits(self, offset, epoch=0, answer=(OK, None), **when):
        return self.add(COMMIT, Position(epoch, offset), answer=answer, **when)

    def reads(self, offset, epoch=0, **when):
        return self.add(READ, answer=Position(epoch, offset), **when)

    def reads_nothing(self, epoch=0):
        return self.add(READ, answer=Position(epoch))

    def resets(self, offset, before, epoch, **when):
        return self.add(RESET, Position(0, offset), answer=(OK, before, Position(epoch, offset)), **when)


@pytest.fixture
def story():
    return QueueStory()


def holds(story):
    verdict = check_offset(story.operations)
    assert verdict.holds, str(verdict)


def finds(story, operation):
    verdict = check_offset(story.operations)
    assert verdict.is_decided
    assert verdict.violation == operation, str(verdict)
    assert str(operation) in str(verdict)


def test_offsets_of_one_client_are_linearizable(story):
    story.reads_nothing()
    story.commits(5)
    story.reads(5)
    story.commits(3, answer=(STALE, Position(0, 5)))
    story.commits(5)
    story.resets(2, Position(0, 5), 7)
    story.commits(6, answer=(STALE, Position(7, 2)))
    story.commits(6, 7)
    story.add(DELETE, answer=(OK, Position(7, 6)))
    story.commits(9, 7, answer=(STALE, None))
    story.reads_nothing(8)
    story.add(DELETE, answer=(ABSENT, None))
    story.resets(4, None, 9)
    story.reads(4, 9)
    holds(story)


def test_concurrent_commits_may_be_read_in_one_order_only(story):
    story.commits(5, begin=1, end=9)
    story.commits(7, begin=1, end=9)
    story.reads(5, begin=2, end=3)
    story.reads(7, begin=4, end=5)
    holds(story)
    finds(story, story.reads(5, begin=6, end=7))


def test_acknowledged_commit_that_is_lost_is_found(story):
    story.commits(5)
    story.commits(8)
    finds(story, story.reads(5))


def test_reset_that_is_undone_is_found(story):
    story.commits(5)
    story.resets(2, Position(0, 5), 7)
    finds(story, story.reads(5))


def test_deleted_offset_that_comes_again_is_found(story):
    story.commits(5)
    story.add(DELETE, answer=(OK, Position(0, 5)))
    finds(story, story.reads(5))


def test_commit_without_an_answer_may_apply_at_once_late_or_never(story):
    story.commits(5)
    story.commits(8)
    story.operations[-1] = OffsetOperation(1, "client1", COMMIT, Position(0, 8), 2)
    story.reads(5)
    holds(story)
    story.reads(8)
    holds(story)
    finds(story, story.reads(5))


def test_many_commits_without_answers_are_decided(story):
    for offset in range(1, 400):
        story.add(COMMIT, Position(0, offset))
    story.reads(200)
    story.reads(399)
    holds(story)
    finds(story, story.reads(300))
