"""The record of epochs finds what it is there for: it judges soak tests that should never show it anything."""

from broker_epochs import EpochRecord, Epochs, StoredSend, stored_sends

A, B, C = "127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:3"
#: A, then B, then A again.
EPOCHS = Epochs(starts=[(1, 0), (2, 100), (3, 200)], masters={1: A, 2: B, 3: A})


def send(unix_ms, broker, log_offset):
    return StoredSend(unix_ms, f"key-{unix_ms}", broker, log_offset)


def problems(*checks, epochs=EPOCHS):
    record = EpochRecord()
    return [problem for sends in checks for problem in record.problems(sends, epochs)]


def test_acknowledgements_are_read_from_what_a_load_prints():
    text = "READY 1\nOK 5 load-0 10911 127.0.0.1 4096\nNO 6 load-1 10 a reason\nOK 7 load-2 109"

    assert stored_sends(text) == [StoredSend(5, "load-0", "127.0.0.1:10911", 4096)]


def test_masters_in_turn_break_nothing():
    assert problems({"one": [send(1, A, 0), send(2, B, 100), send(3, A, 200)]}, {"one": [send(4, A, 300)]}) == []


def test_old_epoch_after_a_newer_one_is_found():
    (problem,) = problems({"one": [send(1, A, 0), send(2, B, 100), send(3, A, 50)]})

    assert problem.startswith("one: epoch 1 acknowledged after epoch 2: StoredSend(unix_ms=3,")
    assert "    epoch 2 StoredSend(unix_ms=2," in problem


def test_old_epoch_is_found_by_the_next_check():
    assert len(problems({"one": [send(1, A, 0), send(2, B, 100)]}, {"one": [send(3, A, 50)]})) == 1


def test_old_epoch_of_another_producer_is_found_from_the_next_millisecond_on():
    assert problems({"one": [send(2, B, 100)], "two": [send(2, A, 50)]}) == []
    (problem,) = problems({"one": [send(2, B, 100)], "two": [send(3, A, 50)]})
    assert problem.startswith("two: epoch 1 acknowledged 1 ms after another producer's newer one")


def test_epoch_that_no_log_names_is_that_of_its_master():
    """Nothing was sent in epoch 2, so epoch 3 begins where it did and is not noted."""
    epochs = Epochs(starts=[(1, 0), (2, 100), (4, 200)], masters={1: A, 2: B, 3: A, 4: B})

    assert [epochs.of(each) for each in (send(1, A, 50), send(2, A, 150), send(3, B, 250))] == [1, 3, 4]


def test_acknowledgement_from_a_part_of_the_log_that_was_replaced_is_of_the_epoch_before():
    """The old master acknowledged what its successor never had: it breaks this rule only if it came later."""
    assert problems({"one": [send(1, A, 150), send(2, B, 100)]}) == []
    (problem,) = problems({"one": [send(1, B, 100), send(2, A, 150)]})
    assert problem.startswith("one: epoch 1 acknowledged after epoch 2")


def test_acknowledgement_of_a_broker_that_was_never_the_master_is_found():
    (problem,) = problems({"one": [send(1, A, 0), send(2, C, 50), send(3, B, 100)]})
    assert problem.startswith("one: acknowledged by no master: StoredSend(unix_ms=2,")


def test_acknowledgement_of_a_broker_before_it_became_the_master_is_found():
    (problem,) = problems({"one": [send(1, B, 50)]})
    assert problem.startswith("one: acknowledged by no master: StoredSend(unix_ms=1,")


def test_epoch_of_the_log_whose_election_is_not_in_the_logs_is_found():
    epochs = Epochs(starts=[(1, 0), (2, 100)], masters={1: A})
    assert problems({"one": [send(1, A, 0)]}, epochs=epochs) == ["no controller logged the master of epoch 2"]
