"""What no resize may exceed: kinds of topics, waits, and what is stored of it."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.scaling.execution.operations import decode_operation, encode_operation
from controller.scaling.resize.observation import TopicTraits
from controller.scaling.resize.operation import (
    STEPS_MAX,
    LateMark,
    MasterIdentity,
    QueueCounts,
    QueueOffset,
    ReleasedQueue,
    ResizeOperation,
    SetResize,
    limited_sentences,
    limited_text,
)
from controller.scaling.rules.path import all_queues, dropped_queues, new_queues, reversed_grow
from controller.scaling.rules.plan import SETS_BYTES_MAX, size_problems, topic_problems, wait_problems, wait_warnings
from serving.shapes.scaling import WAIT_MS_MAX, ResizeKind, ResizeOptions, ResizePhase, ResizeRequest, ResizeWaits
from store.documents import DOCUMENT_BYTES_MAX

TRAITS = TopicTraits(counts={"broker-a": QueueCounts(4, 4)}, clusters={"broker-a": "DefaultCluster"})
MOST = 2**63 - 1


def sets(number, before, target, name=20):
    return tuple(
        SetResize(
            broker_name=f"{each:0{name}d}", cluster="DefaultCluster", before=QueueCounts(before, before), target=target
        )
        for each in range(number)
    )


# Topics


@pytest.mark.parametrize(
    ("topic", "reason"),
    [
        ("TBW102", "is a system topic: brokers rely on its number of queues"),
        ("SCHEDULE_TOPIC_XXXX", "is a system topic"),
        ("RMQ_SYS_TRANS_HALF_TOPIC", "is a system topic"),
        ("rmq_sys_REVIVE_LOG_DefaultCluster", "is a system topic"),
        ("%RETRY%g1", "is a retry topic: its queues follow retryQueueNums of its group; change that"),
        ("%DLQ%g1", "holds dead letters, which brokers write into one queue"),
        ("DefaultCluster", "is a system topic: brokers rely on its number of queues"),
        ("broker-a", "is a system topic: brokers rely on its number of queues"),
        ("DefaultCluster_REPLY_TOPIC", "is a system topic: brokers rely on its number of queues"),
    ],
)
def test_topic_of_brokers_is_refused_with_the_reason(topic, reason):
    (problem,) = topic_problems(topic, TRAITS)
    assert problem.startswith(f"{topic} {reason}")


@pytest.mark.parametrize("topic", ["TopicTest", "broker-b", "Other_REPLY_TOPIC", "DefaultCluster2", "RETRY"])
def test_topic_of_users_is_not_refused(topic):
    assert list(topic_problems(topic, TRAITS)) == []


@pytest.mark.parametrize("topic", ["", "a" * 128, "a b", "orders\n", "é", "a/b", "a@b", "\ud7ff"])
def test_name_that_brokers_refuse_is_no_topic(topic):
    with pytest.raises(msgspec.ValidationError, match=r"\$\.topic"):
        msgspec.convert({"topic": topic, "queues": 8}, ResizeRequest)


@pytest.mark.parametrize("topic", ["a" * 127, "%RETRY%g1", "a|b_c-D9"])
def test_name_that_brokers_take_is_a_topic(topic):
    assert msgspec.convert({"topic": topic, "queues": 8}, ResizeRequest).topic == topic


@pytest.mark.parametrize("reason", ["a" * 501, "two\nlines", "ends\n", "\x7f"])
@pytest.mark.parametrize("field", ["reason", "requestedBy"])
def test_remark_is_one_short_line(field, reason):
    with pytest.raises(msgspec.ValidationError, match=rf"\$\.{field}"):
        msgspec.convert({"topic": "t", "queues": 8, field: reason}, ResizeRequest)
    assert msgspec.convert({"topic": "t", "queues": 8, field: "é" * 500}, ResizeRequest)


@pytest.mark.parametrize("groups", [["g"] * 101, [""], ["g" * 256], ["a b"], ["g\n"]])
def test_waived_groups_are_names_and_not_too_many(groups):
    with pytest.raises(msgspec.ValidationError, match=r"\$\.waivedGroups"):
        msgspec.convert({"waivedGroups": groups}, ResizeOptions)
    assert msgspec.convert({"waivedGroups": ["%RETRY%g"] * 100}, ResizeOptions)


# Waits


@pytest.mark.parametrize("wait", [each.encode_name for each in msgspec.structs.fields(ResizeWaits)])
def test_wait_is_between_nothing_and_a_week(wait):
    for wait_ms in (-1, WAIT_MS_MAX + 1, 2**70):
        with pytest.raises(msgspec.ValidationError, match=rf"\$\.{wait}"):
            msgspec.convert({wait: wait_ms}, ResizeWaits)
    for wait_ms in (0, WAIT_MS_MAX):
        msgspec.convert({wait: wait_ms}, ResizeWaits)


def test_default_waits_are_neither_a_problem_nor_a_warning():
    assert [*wait_problems(ResizeWaits()), *wait_warnings(ResizeWaits())] == []


@pytest.mark.parametrize("name", ["verify_ms", "seed_ms", "quiesce_ms", "drain_ms", "pause_ms"])
def test_limit_in_which_no_broker_can_answer_is_a_problem(name):
    (problem,) = wait_problems(ResizeWaits(**{name: 999}))
    assert problem.endswith("of 999 is shorter than 1000: no broker could answer in time")
    assert list(wait_problems(ResizeWaits(**{name: 1000}))) == []


@pytest.mark.parametrize(
    "name", ["producers_ms", "stable_ms", "confirm_ms", "watch_ms", "pop_ms", "process_ms", "transaction_ms"]
)
def test_wait_below_its_default_is_a_warning_that_says_what_it_risks(name):
    default_ms = getattr(ResizeWaits(), name)
    (warning,) = wait_warnings(ResizeWaits(**{name: default_ms - 1}))
    assert f"of {default_ms - 1} is shorter than the default of {default_ms}: " in warning
    assert list(wait_warnings(ResizeWaits(**{name: default_ms + 1}))) == []


def test_wait_is_named_as_in_the_request():
    (warning,) = wait_warnings(ResizeWaits(producers_ms=0))
    assert warning.startswith("producersMs of 0 ")


# Size


@pytest.mark.parametrize(
    ("number", "before", "target"), [(1, 4, 1024), (10, 4, 128), (50, 8, 16), (90, 4, 6), (2, 1024, 512)]
)
@pytest.mark.parametrize("kind", [ResizeKind.GROW, ResizeKind.SHRINK])
def test_usual_resizes_can_be_stored(kind, number, before, target):
    assert list(size_problems(kind, sets(number, before, target), ())) == []


@pytest.mark.parametrize("kind", list(ResizeKind))
def test_resize_that_no_document_can_hold_is_refused_with_its_size(kind):
    (problem,) = size_problems(kind, sets(1000, 4, 1024), ["g1"])
    assert problem.startswith("1000 broker sets with 10")
    assert f"one resize can store {SETS_BYTES_MAX}: change fewer queues at a time" in problem


def at_the_limit(kind, wanted, before, target):
    """Return an operation with everything that may be stored of it."""
    groups = ["g" * 30, "h" * 200]
    evidence = ["é" * 300, '"\\' * 400, "x" * 5000]
    operation = ResizeOperation(
        id="t" * 127 + ".1700000000000",
        topic="t" * 127,
        kind=kind,
        sets=wanted,
        phase=ResizePhase.PLANNED,
        phase_since_unix_ms=1_700_000_000_000,
        created_unix_ms=1_700_000_000_000,
        requested_by="𝄞" * 500,
        reason="𝄞" * 500,
        waits=ResizeWaits(**dict.fromkeys(ResizeWaits.__struct_fields__, WAIT_MS_MAX)),
        options=ResizeOptions(waived_groups=tuple("w" * 255 for _ in range(100))),
        masters={each.broker_name: MasterIdentity("m" * 64 + ":65535", MOST) for each in wanted},
        seeds=offsets(wanted, new_queues),
        confirmed=offsets(wanted, all_queues if kind in {ResizeKind.ORDERED, ResizeKind.GATED} else dropped_queues),
        late_marks=tuple(LateMark(each.broker_name, level, MOST) for each in wanted for level in range(1, 19)),
        order_conf=";".join(f"{each.broker_name}:1024" for each in wanted),
        gated_groups=tuple(groups) if kind is ResizeKind.GATED else (),
        released=tuple(
            ReleasedQueue(group, each.broker_name, queue)
            for each in wanted
            for queue in new_queues(each)
            for group in groups
            if kind is ResizeKind.GATED
        ),
    )
    for _ in range(STEPS_MAX + 5):
        operation = operation.entered(ResizePhase.QUIESCE, 1_700_000_000_000, evidence, problem="𝄞\n" * 5000)
    return operation


def offsets(wanted, queues):
    return tuple(QueueOffset(each.broker_name, queue, MOST) for each in wanted for queue in queues(each))


@pytest.mark.parametrize("kind", list(ResizeKind))
@pytest.mark.parametrize("number", [1, 10, 70])
@pytest.mark.parametrize("name", [8, 60])
def test_largest_resize_that_is_not_refused_fits_a_document(kind, number, name):
    before, groups = 4, ["g" * 30, "h" * 200]
    fitting = [
        target
        for target in range(4, 1025, 4)
        if not list(size_problems(kind, sets(number, before, target, name), groups))
    ]
    if kind is ResizeKind.SHRINK:
        wanted = sets(number, fitting[-1], before, name) if fitting else ()
    else:
        wanted = sets(number, before, fitting[-1], name) if fitting else ()
    stored = encode_operation(at_the_limit(kind, wanted, before, 0))
    assert len(stored) <= DOCUMENT_BYTES_MAX
    assert len(decode_operation("", stored).steps) == STEPS_MAX


@pytest.mark.parametrize(("number", "name"), [(1, 8), (90, 8), (40, 60), (50, 60)])
def test_largest_grow_fits_a_document_while_it_is_undone(number, name):
    fitting = [
        target
        for target in range(5, 1025)
        if not list(size_problems(ResizeKind.GROW, sets(number, 4, target, name), ()))
    ]
    grow = at_the_limit(ResizeKind.GROW, sets(number, 4, fitting[-1], name), 4, 0)
    back = msgspec.structs.replace(grow, **reversed_grow(grow, "𝄞\n" * 5000))
    confirmed = msgspec.structs.replace(back, confirmed=offsets(back.sets, dropped_queues))
    assert len(encode_operation(confirmed)) <= DOCUMENT_BYTES_MAX


@pytest.mark.parametrize("again", [ResizePhase.QUIESCE, ResizePhase.DRAIN])
def test_shrink_that_looks_at_its_queues_again_still_fits_a_document(again):
    before = next(
        each for each in range(1024, 300, -4) if not list(size_problems(ResizeKind.SHRINK, sets(3, each, 300), ()))
    )
    wanted = sets(3, before, 300)
    entered = at_the_limit(ResizeKind.SHRINK, wanted, before, 0).entered(again, 1_700_000_000_000)
    looks = msgspec.structs.replace(entered, seen_ends=offsets(wanted, dropped_queues))
    assert len(encode_operation(looks)) <= DOCUMENT_BYTES_MAX


# Text


@given(st.text(), st.integers(20, 200))
def test_text_is_cut_to_its_bytes_and_no_more(text, bytes_max):
    cut = limited_text(text, bytes_max)
    assert len(msgspec.json.encode(cut)) <= max(bytes_max, len(msgspec.json.encode("...")))
    assert cut == text or (cut.endswith("...") and text.startswith(cut[:-3]))
    assert (cut == text) == (len(msgspec.json.encode(text)) <= bytes_max) or text.endswith("...")


@given(st.lists(st.text(max_size=80)), st.integers(100, 400))
def test_sentences_beyond_the_limit_are_counted(sentences, bytes_max):
    kept = limited_sentences(sentences, bytes_max)
    assert len(msgspec.json.encode(kept)) <= bytes_max + 2
    if kept == tuple(sentences):
        return
    *first, last = kept
    if len(sentences) == 1:
        assert last.endswith("...")
        return
    assert last == f"and {len(sentences) - len(first)} more"
    assert first[1:] == sentences[1 : len(first)]
