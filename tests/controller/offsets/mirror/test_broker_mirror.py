"""The mirror of a broker set over elections and restarts."""

import pytest
from mirror_builders import BOOT_MS, SET, a_reading, a_run

from controller.offsets.entry_keys import EntryKey
from controller.offsets.mirror.broker_mirror import FORMER_RUNS_MAX, BrokerMirror, OlderRun

OTHER_ADDRESS = "10.0.0.2:10911"


def offsets_of(saved):
    return {each.key: dict(each.offsets) for each in saved.entries() if each is not None}


def test_mirror_without_a_reading_has_nothing_saved_rather_than_an_empty_table():
    assert BrokerMirror(SET).saved is None


@pytest.mark.parametrize(
    ("body", "offsets"),
    [
        (
            b'{"offsetTable":{"orders@readers-1":{0:5,1:5},"%RETRY%readers-1@readers-1":{0:0}}}',
            {EntryKey("orders", "readers-1"): {0: 5, 1: 5}, EntryKey("%RETRY%readers-1", "readers-1"): {0: 0}},
        ),
        (
            b'{"dataVersion":{"counter":0},"groupTopicMap":{},"offsetTable":{"orders@readers-1":{1:1}},"pullOffsetTable":{"orders@readers-1":{0:5}}}',
            {EntryKey("orders", "readers-1"): {1: 1}},
        ),
    ],
)
def test_answers_of_4_9_and_5_5_are_mirrored(body, offsets):
    mirror = BrokerMirror(SET)
    mirror.take(a_reading(body=body))
    assert offsets_of(mirror.saved) == offsets


def test_decrease_within_a_run_is_somebody_who_went_back():
    mirror = BrokerMirror(SET)
    mirror.take(a_reading({"t@g": {0: 5}}))
    changes = mirror.take(a_reading({"t@g": {0: 3}}))
    assert changes.is_same_run
    assert changes.moved.decreased
    assert mirror.former_runs == ()


@pytest.mark.parametrize(
    "other",
    [{"epoch": 2, "address": OTHER_ADDRESS}, {"boot_ms": BOOT_MS + 1}, {"epoch": 2}, {"address": OTHER_ADDRESS}],
)
def test_what_the_last_run_had_is_kept_when_another_one_begins(other):
    mirror = BrokerMirror(SET)
    mirror.take(a_reading({"t@g": {0: 5}}))
    changes = mirror.take(a_reading({"t@g": {0: 3}}, **other))
    assert not changes.is_same_run
    assert changes.former.run == a_run()
    assert [offsets_of(each) for each in mirror.former_runs] == [{EntryKey("t", "g"): {0: 5}}]


def test_what_is_to_be_set_right_is_there_before_and_after_the_new_master_was_read():
    mirror = BrokerMirror(SET)
    assert mirror.saved_before(a_run(epoch=2)) == ()
    mirror.take(a_reading({"t@g": {0: 5}}))
    assert [each.read.run for each in mirror.saved_before(a_run(epoch=2))] == [a_run()]
    mirror.take(a_reading({"t@g": {0: 3}}, epoch=2))
    assert [each.read.run for each in mirror.saved_before(a_run(epoch=2))] == [a_run()]
    assert [each.read.run for each in mirror.saved_before(a_run(epoch=3))] == [a_run(), a_run(epoch=2)]


def test_last_reading_of_a_run_is_kept_and_not_an_earlier_one():
    mirror = BrokerMirror(SET)
    for offset in (9, 5):
        mirror.take(a_reading({"t@g": {0: offset}}))
    mirror.take(a_reading({}, epoch=2))
    assert [offsets_of(each) for each in mirror.former_runs] == [{EntryKey("t", "g"): {0: 5}}]


def test_former_runs_are_forgotten_once_they_are_settled_in_the_present_one():
    mirror = BrokerMirror(SET)
    mirror.take(a_reading({"t@g": {0: 5}}, epoch=1))
    mirror.take(a_reading({}, epoch=2))
    mirror.settle(a_run(epoch=1))
    assert len(mirror.former_runs) == 1
    mirror.settle(a_run(epoch=2))
    assert mirror.former_runs == ()


def test_first_run_is_kept_through_many_failovers():
    mirror = BrokerMirror(SET)
    for epoch in range(1, 9):
        mirror.take(a_reading({"t@g": {0: epoch}}, epoch=epoch))
    kept = [offsets_of(each)[EntryKey("t", "g")][0] for each in mirror.former_runs]
    assert kept == [1, 5, 6, 7]
    assert len(kept) == FORMER_RUNS_MAX


def test_reading_of_an_epoch_that_is_over_is_refused():
    mirror = BrokerMirror(SET)
    mirror.take(a_reading({"t@g": {0: 5}}, epoch=2))
    with pytest.raises(OlderRun, match=r"DefaultCluster/broker-a are of master epoch 1, and epoch 2"):
        mirror.take(a_reading({"t@g": {0: 9}}, epoch=1))
    assert offsets_of(mirror.saved) == {EntryKey("t", "g"): {0: 5}}


def test_set_without_epochs_follows_addresses_and_boot_times():
    mirror = BrokerMirror(SET)
    mirror.take(a_reading({"t@g": {0: 5}}, epoch=None))
    assert mirror.take(a_reading({"t@g": {0: 6}}, epoch=None)).is_same_run
    assert not mirror.take(a_reading({"t@g": {0: 6}}, epoch=None, boot_ms=BOOT_MS + 1)).is_same_run


def test_saved_offsets_are_decoded_in_slices():
    mirror = BrokerMirror(SET)
    mirror.take(a_reading({f"t{number}@g": {0: number} for number in range(1000)}))
    found = list(mirror.saved.entries())
    assert len([each for each in found if each is not None]) == len(mirror.saved) == 1000
    assert found.count(None) == 10


def test_entries_that_stand_still_are_the_same_text_in_memory():
    mirror = BrokerMirror(SET)
    mirror.take(a_reading({"t@g": {0: 5}, "u@g": {0: 6}}))
    first = mirror.saved.tables[0].entries[0]
    mirror.take(a_reading({"t@g": {0: 5}, "u@g": {0: 7}}))
    assert mirror.saved.tables[0].entries[0] is first


def test_what_an_earlier_process_had_is_of_runs_before_those_that_were_read_without_it():
    earlier, mirror = BrokerMirror(SET), BrokerMirror(SET)
    earlier.take(a_reading({"t@g": {0: 9}}))
    earlier.take(a_reading({"t@g": {0: 7}}, epoch=2, address=OTHER_ADDRESS))
    mirror.take(a_reading({"t@g": {0: 5}}, epoch=4))
    mirror.take_earlier(earlier.saved, earlier.former_runs)
    key = EntryKey("t", "g")
    assert [offsets_of(each) for each in mirror.saved_before(a_run(epoch=4))] == [{key: {0: 9}}, {key: {0: 7}}]


@pytest.mark.parametrize(("epoch", "offsets"), [(2, [9]), (4, [9, 7])])
def test_newest_reading_of_an_earlier_process_is_no_former_one_where_the_same_run_goes_on(epoch, offsets):
    earlier, mirror = BrokerMirror(SET), BrokerMirror(SET)
    earlier.take(a_reading({"t@g": {0: 9}}))
    earlier.take(a_reading({"t@g": {0: 7}}, epoch=2, address=OTHER_ADDRESS))
    mirror.take(a_reading({"t@g": {0: 7}}, epoch=epoch, address=OTHER_ADDRESS))
    mirror.take_earlier(earlier.saved, earlier.former_runs)
    assert [offsets_of(each) for each in mirror.former_runs] == [{EntryKey("t", "g"): {0: each}} for each in offsets]
