"""The record of role checks finds what it is there for: it judges soak tests that should never show it anything."""

from role_check_record import UpAnswers

ONE, TWO = "broker-a/1", "broker-a/2"


def up(epoch):
    return f"up ready #epoch {epoch}"


def problems(*answers):
    ups = UpAnswers()
    found = [ups.problem(broker, answer, ups.newest) for broker, answer in answers]
    return [each for each in found if each is not None]


def test_masters_in_turn_break_nothing():
    assert problems((ONE, up(2)), (TWO, "down #superseded epoch 2"), (TWO, up(3)), (TWO, up(3)), (ONE, up(4))) == []


def test_superseded_master_that_is_up_is_found():
    assert problems((ONE, up(2)), (TWO, up(3)), (ONE, up(2))) == [
        "'up ready #epoch 2' about broker-a/1 after one of epoch 3"
    ]


def test_second_master_of_one_epoch_is_found():
    assert problems((ONE, up(3)), (TWO, up(3))) == [
        "'up ready #epoch 3' about broker-a/2, but the master of that epoch is broker-a/1"
    ]


def test_answer_that_was_sent_for_before_a_newer_one_came_contradicts_nothing():
    ups = UpAnswers()
    assert ups.problem(TWO, up(3), 0) is None
    assert ups.problem(ONE, up(2), 0) is None
    assert (ups.count, ups.newest) == (2, 3)
