"""What a controller answers about masters is read whole, or refused with what is wrong."""

import json

import pytest
from topology_builders import SET, answer_fields, answer_text, followed, set_fields

from controller.http.master_shapes import MasterListing, SetMasterView
from controller.offsets.topology.answers import AnswerUnreadable, decode_answer


def test_answer_is_read_with_all_its_sets():
    text = answer_text(set_fields(), set_fields(None, 9, name="other"), removed=["gone"], unreadable=["odd"])
    read = decode_answer(text)
    assert (read.revision, read.complete, read.removed, read.unreadable) == ("run:1", True, ("gone",), ("odd",))
    assert read.sets == (followed(), followed(None, 9, name="other"))


@pytest.mark.parametrize(("unclean", "epoch"), [(True, 5), (False, None), (None, None)])
def test_epoch_is_unclean_where_the_controller_knows_that_its_master_was_not_in_sync(unclean, epoch):
    (read,) = decode_answer(answer_text(set_fields(electedUnclean=unclean))).sets
    assert read.unclean_epoch == epoch


def test_fields_of_a_later_release_are_ignored():
    assert decode_answer(answer_text(set_fields(later=1), later={})).sets == (followed(),)


def test_every_field_that_is_read_is_one_that_a_controller_writes():
    assert set(answer_fields()) == set(MasterListing.__struct_encode_fields__)
    assert set(set_fields()) == set(SetMasterView.__struct_encode_fields__)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (b"", "truncated"),
        (b"\xff", "malformed"),
        (b"[" * 100_000, "array"),
        (b"<html>", "malformed"),
        (b"{}", "controllerGroup"),
        (answer_text(revision=""), "revision"),
        (answer_text(revision="r" * 101), "revision"),
        (answer_text(set_fields(brokerName="")), "brokerName"),
        (answer_text(set_fields(brokerName="n" * 256)), "brokerName"),
        (answer_text(set_fields(masterEpoch=-1)), "masterEpoch"),
        (answer_text(set_fields(masterEpoch=2**31)), "masterEpoch"),
        (answer_text(set_fields(masterEpoch="5")), "masterEpoch"),
        (answer_text(set_fields(masterBrokerId=2**63)), "masterBrokerId"),
        (answer_text(set_fields(masterAddress=None)), "the master of broker-a has no address host:port"),
        (answer_text(set_fields(masterAddress="10.0.0.1")), "the master of broker-a has no address host:port"),
        (answer_text(set_fields(members=[{}])), "members"),
        (answer_text(set_fields(members=None)), "members"),
        (answer_text(set_fields(), set_fields(2, 6)), "broker-a is in it more than once"),
        (answer_text(set_fields(), removed=[SET]), "broker-a is in it more than once"),
        (answer_text(removed=["a"], unreadable=["a"]), "a is in it more than once"),
        (answer_text(removed=["n"] * 20_001), "removed"),
    ],
)
def test_anything_else_is_refused_as_a_whole(text, why):
    with pytest.raises(AnswerUnreadable, match=why):
        decode_answer(text)


@pytest.mark.parametrize("cut", [1, 30, 100, 200])
def test_answer_that_is_cut_anywhere_is_refused(cut):
    text = json.dumps(answer_fields(set_fields())).encode()
    with pytest.raises(AnswerUnreadable):
        decode_answer(text[:-cut])
