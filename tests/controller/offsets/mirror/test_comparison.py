"""What differs between two answers of a master."""

import json
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mirror_builders import SET, a_reading, body_of, unreadable

from controller.offsets.entry_keys import EntryKey, EntryKind
from controller.offsets.mirror import comparison
from controller.offsets.mirror.broker_mirror import BrokerMirror
from controller.offsets.mirror.changes import MovedEntries
from controller.offsets.mirror.comparison import SLICE_WORK, Comparison
from controller.offsets.values import OFFSET_MAX, QUEUES_MAX
from remoting.admin.admin_request import decode_broker_body
from remoting.protocol.errors import BodyError
from remoting.protocol.shapes.broker_admin import DelayOffsets

NAMES = st.text(st.characters(exclude_characters="@", exclude_categories=["Cs"]), min_size=1, max_size=6).filter(
    str.strip
)
KEYS = st.builds("{}@{}".format, NAMES, NAMES) | st.builds("{}@{}@broadcast".format, NAMES, NAMES)
QUEUES = st.dictionaries(st.integers(0, 3), st.integers(0, 5) | st.integers(0, OFFSET_MAX), max_size=4)
TABLES = st.dictionaries(KEYS, QUEUES, max_size=4)


def key(text):
    group, _, suffix = text.partition("@")[2].partition("@")
    return EntryKey(text.partition("@")[0], group, EntryKind.BROADCAST if suffix else EntryKind.CLUSTERING)


def moved_between(*tables, **options):
    """Return what the last of these answers has moved."""
    mirror = BrokerMirror(SET)
    changes = None
    for table in tables:
        reading = a_reading(table, **options) if isinstance(table, dict) else a_reading(body=table, **options)
        changes = mirror.take(reading)
    return changes.moved


def flat(entries):
    return {(each.key, move.queue_id): (move.before, move.after) for each in entries for move in each.moves}


def saved(mirror):
    return {each.key: dict(each.offsets) for each in mirror.saved.entries() if each is not None}


def test_offset_that_grew_has_advanced():
    moved = moved_between({"t@g": {0: 5, 1: 7}}, {"t@g": {0: 6, 1: 7}})
    assert flat(moved.advanced) == {(EntryKey("t", "g"), 0): (5, 6)}
    assert moved == MovedEntries(advanced=moved.advanced)


def test_group_that_stands_still_moves_nothing():
    assert moved_between({"t@g": {0: 5}}, {"t@g": {0: 5}}).is_empty


def test_first_answer_is_all_new_and_none_of_it_comes_from_0():
    assert flat(moved_between({"t@g": {0: 0}}).new) == {(EntryKey("t", "g"), 0): (None, 0)}


def test_offset_that_shrank_has_decreased_and_is_saved_as_it_is():
    mirror = BrokerMirror(SET)
    mirror.take(a_reading({"t@g": {0: 5}}))
    assert flat(mirror.take(a_reading({"t@g": {0: 3}})).moved.decreased) == {(EntryKey("t", "g"), 0): (5, 3)}
    assert saved(mirror) == {EntryKey("t", "g"): {0: 3}}


def test_group_that_is_gone_has_vanished_and_is_not_at_0():
    moved = moved_between({"t@g": {0: 5, 1: 6}, "u@g": {0: 1}}, {"u@g": {0: 1}})
    assert flat(moved.vanished) == {(EntryKey("t", "g"), 0): (5, None), (EntryKey("t", "g"), 1): (6, None)}


def test_positions_pulled_from_are_no_offsets():
    mirror = BrokerMirror(SET)
    mirror.take(a_reading(body=body_of({"t@g": {0: 5}}, pulled={"t@g": {0: 9}, "u@g": {0: 9}})))
    assert saved(mirror) == {EntryKey("t", "g"): {0: 5}}


def test_light_message_queues_are_mirrored_as_queue_0():
    lmq = EntryKey("%LMQ%x", "%LMQ%x", EntryKind.LMQ)
    mirror = BrokerMirror(SET)
    assert flat(mirror.take(a_reading({}, lmq={"%LMQ%x@%LMQ%x": 10})).moved.new) == {(lmq, 0): (None, 10)}
    assert flat(mirror.take(a_reading({}, lmq={"%LMQ%x@%LMQ%x": 12})).moved.advanced) == {(lmq, 0): (10, 12)}
    assert saved(mirror) == {lmq: {0: 12}}
    assert flat(mirror.take(a_reading({})).moved.vanished) == {(lmq, 0): (12, None)}


@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        ('"t@g":{0:-1}', "queue 0 has offset -1"),
        (f'"t@g":{{0:{2**63}}}', f"queue 0 has offset {2**63}"),
        (f'"t@g":{{{QUEUES_MAX}:1}}', f"queue id {QUEUES_MAX}"),
        ('"t@g":{-1:1}', "queue id -1"),
        ('"t@g":{"$ref":"$"}', "no offsets"),
        ('"t@g":7', "no offsets"),
        ('"t":{0:1}', "no @"),
        ('"t@":{0:1}', "blank group"),
        ('"t@\\q":{0:1}', "not readable"),
    ],
)
def test_odd_entry_is_refused_once_and_the_others_are_used(entry, reason):
    body = f'{{"offsetTable":{{{entry},"u@g":{{0:1}}}}}}'.encode()
    mirror = BrokerMirror(SET)
    refused = mirror.take(a_reading(body=body)).moved.refused
    assert [reason in each.reason for each in refused] == [True]
    assert saved(mirror) == {EntryKey("u", "g"): {0: 1}}
    assert mirror.take(a_reading(body=body)).moved.is_empty


def test_offset_that_was_unusable_for_a_while_is_compared_with_the_last_usable_one():
    """A group that goes back by way of -1 has gone back."""
    odd, odder = ({"t@g": {0: number}} for number in (-1, -2))
    assert flat(moved_between({"t@g": {0: 5}}, odd, odder, odder, {"t@g": {0: 3}}).decreased) == {
        (EntryKey("t", "g"), 0): (5, 3)
    }
    assert flat(moved_between({"t@g": {0: 5}}, odd, {}).vanished) == {(EntryKey("t", "g"), 0): (5, None)}
    assert moved_between(odd, {}).is_empty


def test_entry_that_occurs_twice_is_refused_and_hides_no_other():
    """Two odd names of an old broker can have the same text."""
    twice = b'{"offsetTable":{"t@g":{0:7},"u@g":{0:1},"t@g":{0:8},"?":{0:1},"?":{0:2},"?@g":{},"?@g":{}}}'
    mirror = BrokerMirror(SET)
    mirror.take(a_reading({"gone@g": {0: 3}, "t@g": {0: 5}}))
    moved = mirror.take(a_reading(body=twice)).moved
    assert sorted(each.key for each in moved.refused) == ["'?'", "'?@g'", "'t@g'"]
    assert flat(moved.new) == {(EntryKey("u", "g"), 0): (None, 1)}
    assert flat(moved.vanished) == {(EntryKey("gone", "g"), 0): (3, None)}
    assert moved.advanced == []
    assert mirror.take(a_reading(body=twice)).moved.is_empty
    assert saved(mirror) == {EntryKey("u", "g"): {0: 1}}
    again = mirror.take(a_reading({"t@g": {0: 7}, "u@g": {0: 1}})).moved
    assert flat(again.advanced) == {(EntryKey("t", "g"), 0): (5, 7)}
    assert again.vanished == []
    assert saved(mirror) == {EntryKey("t", "g"): {0: 7}, EntryKey("u", "g"): {0: 1}}


@pytest.mark.parametrize("queues", ["{0:7,0:8}", "{0:7,0:7}", '{0:7,"0":8}', '{ "0" : 7 , "0" : 8 }'])
def test_entry_with_a_queue_twice_is_refused_as_in_files(queues):
    mirror = BrokerMirror(SET)
    mirror.take(a_reading({"t@g": {0: 5}}))
    moved = mirror.take(a_reading(body=b'{"offsetTable":{"t@g":%b}}' % queues.encode())).moved
    assert (moved.advanced, moved.decreased) == ([], [])
    (refused,) = moved.refused
    assert "a queue occurs more than once: which offset counts is unknown" in refused.reason


def test_entry_that_occurs_twice_with_the_same_offsets_is_refused_too():
    twice = b'{"offsetTable":{"t@g":{0:5},"t@g":{0:5}}}'
    moved = moved_between({"t@g": {0: 5}}, twice)
    assert [each.reason[:26] for each in moved.refused] == ["it occurs more than once: "]
    assert moved_between({"t@g": {0: 5}}, twice, {"t@g": {0: 5}}).is_empty


@pytest.mark.parametrize("lmq", [None, {"%LMQ%x@g": 10}])
def test_answer_that_is_cut_anywhere_is_an_error_and_changes_nothing(lmq):
    before, body = {"t@g": {0: 5}}, body_of({"t@g": {0: 6}, 'u"{@g': {0: 1, 1: 2}}, lmq)
    for cut in range(len(body)):
        mirror = BrokerMirror(SET)
        mirror.take(a_reading(before))
        with pytest.raises(BodyError):
            mirror.take(a_reading(body=body[:cut]))
        assert saved(mirror) == {EntryKey("t", "g"): {0: 5}}


@pytest.mark.parametrize(
    ("body", "error"),
    [
        (b"", "no offsetTable"),
        (b"{}", "no offsetTable"),
        (b'{"offsetTable":null}', "no offsetTable"),
        (b'{"offsetTable":{"t@g":[1]}}', "not readable from byte 16"),
        (b'{"offsetTable":{}}}', "something follows"),
        (b'{"offsetTable":{}}7', "something follows"),
        (b'{"offsetTable":{}} {"offsetTable":{}}', "something follows"),
        (b'{"offsetTable":{},"x":"', "ends in the middle"),
        (b'{"offsetTable":{},"lmqOffsetTable":{"a@b":"x"}}', "lmqOffsetTable of a response is not readable"),
    ],
)
def test_text_that_is_no_table_is_an_error_and_not_empty(body, error):
    with pytest.raises(BodyError, match=error):
        moved_between(body)


@pytest.mark.parametrize("body", [b'{"offsetTable":{}}', b' { "offsetTable" : { } , "x":{"y":[{"z":{}}]} } \n'])
def test_broker_without_offsets_has_an_empty_table(body):
    assert moved_between(body).is_empty
    assert flat(moved_between({"t@g": {0: 5}}, body).vanished) == {(EntryKey("t", "g"), 0): (5, None)}


def test_answer_in_other_layout_changes_nothing():
    pretty = json.dumps({"offsetTable": {"t@g": {0: 5}, "u@g": {0: 6}}}, indent="\t").encode()
    moved = moved_between({"t@g": {0: 5}, "u@g": {0: 6}}, pretty)
    assert moved.is_empty


@given(st.lists(TABLES, min_size=2, max_size=3), st.randoms())
def test_changes_are_those_between_the_tables_whatever_their_order(tables, random):
    mirror = BrokerMirror(SET)
    before = {}
    for table in tables:
        shuffled = dict(random.sample(list(table.items()), len(table)))
        moved = mirror.take(a_reading(shuffled)).moved
        after = {(key(text), queue): offset for text, queues in table.items() for queue, offset in queues.items()}
        found = flat(moved.advanced) | flat(moved.new) | flat(moved.decreased) | flat(moved.vanished)
        assert found == {
            each: (before.get(each), after.get(each))
            for each in before.keys() | after.keys()
            if before.get(each) != after.get(each)
        }
        assert all(earlier < later for earlier, later in flat(moved.advanced).values())
        assert all(earlier > later for earlier, later in flat(moved.decreased).values())
        assert saved(mirror) == {key(text): queues for text, queues in table.items()}
        before = after


#: Where a line of a long table is replaced, inserted or left out, and by which key with which offset; -1: unreadable.
EDITS = st.lists(
    st.tuples(st.integers(0, 39), st.sampled_from("ril"), st.integers(0, 80), st.integers(-1, 3)), max_size=3
)


@given(st.integers(10, 40), EDITS, EDITS)
def test_blocks_of_entries_are_compared_as_entries_one_by_one(length, edits, more):
    tables = [[(number, 7) for number in range(length)]]
    for each in (edits, (), more):
        tables.append(list(tables[-1]))
        for place, how, number, offset in each:
            tables[-1][place : place + (how != "i")] = [] if how == "l" else [(number, offset)]
    found = []
    for block in (comparison._BLOCK, 1_000_000):
        with patch.object(comparison, "_BLOCK", block):
            mirror = BrokerMirror(SET)
            moved = [mirror.take(a_reading(body=long_text(each))).moved for each in tables]
            found.append((moved, mirror.saved.tables))
    assert found[0] == found[1]


def long_text(lines):
    entries = (f'"t{number}@g":{{0:{offset if offset >= 0 else "null"}}}' for number, offset in lines)
    return f'{{"offsetTable":{{{",".join(entries)}}}}}'.encode()


@given(QUEUES, st.sampled_from(['{"%s":%d', "{%s:%d", "{ %s : %d"]))
def test_offsets_are_read_as_by_the_full_decoder(queues, form):
    entries = (form % each for each in queues.items())
    text = "{" + ",".join(each[1:] for each in entries) + "}"
    body = f'{{"offsetTable":{{"t@g":{text}}}}}'.encode()
    mirror = BrokerMirror(SET)
    mirror.take(a_reading(body=body))
    full = decode_broker_body(DelayOffsets, f'{{"offsetTable":{text}}}'.encode()).offset_table
    assert saved(mirror) == {EntryKey("t", "g"): full}


@pytest.mark.parametrize("move", [0, 1])
def test_caller_gets_a_turn_after_each_slice(move):
    """One where nothing moved is compared in few slices, one where all did in many."""
    count = 4 * SLICE_WORK
    mirror = BrokerMirror(SET)
    mirror.take(a_reading({f"t{number}@g": {0: number} for number in range(count)}))
    comparison = mirror.compare(a_reading({f"t{number}@g": {0: number + move} for number in range(count)}))
    slices = len(list(comparison.slices()))
    assert slices >= (4 if move == 0 else 40)


def test_caller_gets_turns_while_many_groups_are_gone():
    mirror = BrokerMirror(SET)
    mirror.take(a_reading({f"t{number}@g": {0: number} for number in range(SLICE_WORK)}))
    comparison = mirror.compare(a_reading({}))
    assert len(list(comparison.slices())) > 10
    assert len(flat(comparison.moved.vanished)) == SLICE_WORK


@pytest.mark.parametrize(
    ("before", "after", "moves"),
    [
        ("{0:5,1:6}", "{0:5,2:7}", {1: (6, None), 2: (None, 7)}),
        ("{0:5,1:6}", "{1:6,0:5}", {}),
        ("{0:5}", "{0:05}", {}),
        ('{"0":5}', "{0:6}", {0: (5, 6)}),
        ("{0:5}", '{"0":6}', {0: (5, 6)}),
        ("{0:5}", f"{{0:{OFFSET_MAX}}}", {0: (5, OFFSET_MAX)}),
        ("{0:5,1:6,2:7}", "{0:4,1:9,2:7}", {0: (5, 4), 1: (6, 9)}),
        ("{}", "{0:6}", {0: (None, 6)}),
    ],
)
def test_moves_are_found_however_the_two_values_are_written(before, after, moves):
    moved = moved_between({"t@g": before}, {"t@g": after})
    found = flat(moved.advanced) | flat(moved.new) | flat(moved.decreased) | flat(moved.vanished)
    assert {queue: move for (_, queue), move in found.items()} == moves


def test_number_with_a_leading_zero_is_refused_and_nothing_that_is_saved_has_it():
    mirror = BrokerMirror(SET)
    mirror.take(a_reading({"t@g": {0: 5, 1: 6}}))
    (refused,) = mirror.take(a_reading({"t@g": "{0:07,1:6}"})).moved.refused
    assert "these are no offsets" in refused.reason
    assert mirror.take(a_reading({"t@g": "{0:07,1:6}"}, boot_ms=1)).moved.is_empty
    assert saved(mirror) == {}
    assert mirror.saved.tables[0].last_usable(b"t@g") == b"{0:5,1:6}"
    assert flat(mirror.take(a_reading({"t@g": {0: 9, 1: 0}})).moved.advanced) == {(EntryKey("t", "g"), 0): (5, 9)}


@pytest.mark.parametrize("table", [{"t@g": {0: 9, 1: 1}}, {}])
def test_saved_offsets_that_are_not_readable_do_not_keep_the_next_reading_from_counting(table):
    mirror = BrokerMirror(SET)
    mirror.take(a_reading({"t@g": {0: 5}}))
    mirror.saved = unreadable(mirror.saved)
    mirror.take(a_reading(table))
    assert saved(mirror) == {key(text): queues for text, queues in table.items()}


def test_nothing_is_found_before_all_slices_are_done():
    comparison = Comparison(None, a_reading({f"t{number}@g": {0: 1} for number in range(SLICE_WORK)}))
    next(comparison.slices())
    with pytest.raises(AssertionError):
        _ = comparison.found
