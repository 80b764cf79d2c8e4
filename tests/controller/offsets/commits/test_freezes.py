"""Freezes: what they cover, when they end, and what is refused."""

import pytest
from offset_builders import Offsets, a_queue, a_scope

from controller.offsets.commits.freezes import (
    FREEZES_MAX,
    FROZEN_KEYS_MAX,
    FROZEN_SCOPES_MAX,
    Freeze,
    FreezeTable,
    decide_freeze,
    decide_thaw,
)
from controller.offsets.commits.refusals import FreezeRefused
from controller.offsets.commits.results import OffsetStatus


def a_freeze(operation="op-1", scopes=(), keys=(), lease_ms=60_000, reason="moves"):
    return Freeze(operation=operation, reason=reason, scopes=scopes, keys=frozenset(keys), lease_ms=lease_ms)


def freeze(table, each, now_ms=0):
    table.apply(decide_freeze(table, each), now_ms)


def is_frozen(table, key, now_ms):
    return table.of_row(key.of, now_ms).of_queue(key) is not None


@pytest.mark.parametrize(
    ("scope", "covered"),
    [
        (a_scope("billing"), [True, True, True, False]),
        (a_scope(topic="orders"), [True, False, True, True]),
        (a_scope("billing", "orders", "broker-a"), [True, False, False, False]),
        (a_scope(), [True, True, True, True]),
    ],
)
def test_scope_freezes_what_it_names_and_new_queues_of_it(scope, covered):
    offsets = Offsets()
    freeze(offsets.freezes, a_freeze(scopes=(scope,)))
    keys = [a_queue(), a_queue(topic="payments"), a_queue(broker_name="broker-b"), a_queue(group="audit")]
    assert [offsets.commit(1, key).status is OffsetStatus.FENCED for key in keys] == covered
    assert offsets.commit(1, a_queue(namespace="other")).status is OffsetStatus.OK
    assert offsets.commit(1, a_queue(cluster="other")).status is OffsetStatus.OK


def test_thawed_queues_take_commits_again():
    offsets = Offsets()
    freeze(offsets.freezes, a_freeze(keys=[a_queue()]))
    for change in decide_thaw(offsets.freezes, "op-1"):
        offsets.freezes.apply(change, 0)
    assert offsets.commit(1).status is OffsetStatus.OK
    assert decide_thaw(offsets.freezes, "op-1") == ()


def test_queue_frozen_twice_stays_frozen_until_both_operations_thaw_it():
    offsets = Offsets()
    freeze(offsets.freezes, a_freeze("op-1", keys=[a_queue()]))
    freeze(offsets.freezes, a_freeze("op-2", keys=[a_queue()]))
    (change,) = decide_thaw(offsets.freezes, "op-1")
    offsets.freezes.apply(change, 0)
    assert "op-2" in offsets.commit(1).reason


def test_renewed_freeze_lasts_for_its_lease_from_then_on():
    table = FreezeTable()
    freeze(table, a_freeze(keys=[a_queue()], lease_ms=10_000))
    table.renew("op-1", 9_000)
    assert is_frozen(table, a_queue(), 19_000)
    assert not is_frozen(table, a_queue(), 19_001)
    assert [each.operation for each in table.ended(19_001)] == ["op-1"]
    assert table.ended(19_000) == ()


def test_ended_freeze_cannot_be_renewed_but_made_again():
    table = FreezeTable()
    freeze(table, a_freeze(keys=[a_queue()], lease_ms=10_000))
    with pytest.raises(FreezeRefused, match="check the offsets, then freeze again"):
        table.renew("op-1", 10_001)
    with pytest.raises(FreezeRefused, match="operation op-9 has ended"):
        table.renew("op-9", 0)
    freeze(table, a_freeze(keys=[a_queue()]), now_ms=10_001)
    assert is_frozen(table, a_queue(), 10_001)


def test_second_freeze_of_an_operation_replaces_the_first():
    table = FreezeTable()
    freeze(table, a_freeze(scopes=(a_scope("billing"),)))
    freeze(table, a_freeze(scopes=(a_scope("audit"),)))
    assert not is_frozen(table, a_queue(), 0)
    assert is_frozen(table, a_queue(group="audit"), 0)


def test_operation_does_not_freeze_itself():
    offsets = Offsets()
    freeze(offsets.freezes, a_freeze("op-1", scopes=(a_scope("billing"),)))
    assert offsets.seed(5).status is OffsetStatus.FENCED
    assert offsets.seed(5, operation="op-1").status is OffsetStatus.OK


def test_restart_begins_every_lease_again():
    table = FreezeTable()
    stored = decide_freeze(table, a_freeze(keys=[a_queue()], lease_ms=10_000))
    restarted = FreezeTable()
    restarted.apply(stored, 500_000)
    assert is_frozen(restarted, a_queue(), 510_000)


@pytest.mark.parametrize(
    ("each", "match"),
    [
        (a_freeze(operation=" ", keys=[a_queue()]), "operation of the freeze is blank"),
        (a_freeze(operation="o" * 256, keys=[a_queue()]), "the operation has 256 characters"),
        (a_freeze(reason="r" * 501, keys=[a_queue()]), "the reason has 501 characters, at most 500"),
        (a_freeze(keys=[a_queue()], lease_ms=9_999), "a lease of 9999 ms is not in 10000 to 600000 ms"),
        (a_freeze(), "covers nothing"),
        (a_freeze(keys=[a_queue(each) for each in range(FROZEN_KEYS_MAX + 1)]), "10001 queues in one freeze"),
        (a_freeze(scopes=(a_scope("billing"),) * (FROZEN_SCOPES_MAX + 1)), "101 scopes in one freeze"),
    ],
)
def test_bad_freeze_is_refused_with_what_is_wrong(each, match):
    with pytest.raises(FreezeRefused, match=match):
        decide_freeze(FreezeTable(), each)


def test_number_of_freezes_is_limited():
    table = FreezeTable()
    for number in range(FREEZES_MAX):
        freeze(table, a_freeze(f"op-{number}", keys=[a_queue()]))
    with pytest.raises(FreezeRefused, match="64 operations have frozen"):
        freeze(table, a_freeze("one-more", keys=[a_queue()]))
    freeze(table, a_freeze("op-0", keys=[a_queue(1)]))


def test_queues_that_one_freeze_names_and_another_covers_stay_frozen_after_the_first_thaw():
    table = FreezeTable()
    freeze(table, a_freeze("op-1", scopes=(a_scope("billing"),), keys=[a_queue(group="audit")]))
    freeze(table, a_freeze("op-2", scopes=(a_scope("billing"),)))
    for change in decide_thaw(table, "op-1"):
        table.apply(change, 0)
    assert is_frozen(table, a_queue(), 0)
    assert not is_frozen(table, a_queue(group="audit"), 0)
