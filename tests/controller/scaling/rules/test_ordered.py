"""Ordered topics: pause, resize, go on."""

from dataclasses import replace

import pytest
from msgspec import structs
from scaling_builders import ADDRESS, BROKER, NAME_SERVER, an_ordered, observed, waited

from controller.scaling.resize.decision import ChangeCounts, PutOrderConf
from controller.scaling.resize.operation import QueueCounts, ResizePhase
from controller.scaling.rules.ordered import paused_order_conf, resized_order_conf
from controller.scaling.rules.phases import decide_step

CONF = "broker-a:2"


def test_writes_pause_before_the_order_conf_loses_its_queues():
    resize = an_ordered(ResizePhase.PAUSE, order_conf=CONF)
    open_yet = decide_step(resize, waited(0), observed(resize, 0, order_conf=CONF))
    assert open_yet.actions == (
        ChangeCounts(broker_name=BROKER, address=ADDRESS, before=QueueCounts(2, 2), after=QueueCounts(2, 2, 4)),
    )
    paused = decide_step(resize, waited(0), observed(resize, 1, order_conf=CONF))
    assert paused.actions == (PutOrderConf(address=NAME_SERVER, value="broker-a:0"),)
    without_queues = observed(resize, 1, order_conf="broker-a:0")
    assert decide_step(resize, waited(0), without_queues).operation.phase is ResizePhase.QUIESCE


def test_order_conf_has_the_new_numbers_before_writes_go_on():
    resize = an_ordered(ResizePhase.RESIZE, order_conf=CONF, reached=2)
    # Producers use the entry whatever the permission is: that there is no way back is stored first.
    first = decide_step(resize, waited(0), observed(resize, 2))
    assert (first.actions, first.operation.reached) == ((), 3)
    decision = decide_step(first.operation, waited(0), observed(resize, 2))
    assert decision.actions == (PutOrderConf(address=NAME_SERVER, value="broker-a:4"),)
    done = decide_step(first.operation, waited(0), observed(resize, 2, order_conf="broker-a:4")).operation
    assert (done.phase, done.reached) == (ResizePhase.UNPAUSE, 3)


def test_order_conf_keeps_brokers_that_are_not_resized():
    assert resized_order_conf(an_ordered(ResizePhase.RESIZE, order_conf="x:7;broker-a:2")) == "x:7;broker-a:4"
    assert resized_order_conf(an_ordered(ResizePhase.RESIZE)) is None


def test_order_conf_of_a_pause_has_no_queues_of_any_broker():
    assert paused_order_conf(an_ordered(ResizePhase.PAUSE, order_conf="x:7;broker-a:2")) == "x:0;broker-a:0"
    assert paused_order_conf(an_ordered(ResizePhase.PAUSE)) is None


# Broker sets beside the resize


def beside(observation, **perms):
    """Return an observation in which one more NameServer has sets beside the resize, with these permissions."""
    (view,) = observation.name_servers
    counts = {name.replace("_", "-"): QueueCounts(4, 4, perm) for name, perm in perms.items()}
    other = replace(view, address="10.0.0.8:9876", counts=view.counts | counts)
    return replace(observation, name_servers=(view, other))


BLOCKED, ROLLBACK = ResizePhase.BLOCKED, ResizePhase.ROLLBACK


@pytest.mark.parametrize(
    ("phase", "reached", "position", "conf", "after"),
    [
        (ResizePhase.PAUSE, 1, 0, None, ROLLBACK),
        (ResizePhase.QUIESCE, 1, 1, CONF, ROLLBACK),
        (ResizePhase.LATE, 1, 1, None, ROLLBACK),
        (ResizePhase.DRAIN, 1, 1, None, ROLLBACK),
        (ResizePhase.CONFIRM, 1, 1, None, ROLLBACK),
        (ResizePhase.SEED, 1, 1, None, ROLLBACK),
        (ResizePhase.RESIZE, 2, 1, CONF, BLOCKED),
        (ResizePhase.RESIZE, 2, 2, None, BLOCKED),
        (ResizePhase.UNPAUSE, 3, 2, None, BLOCKED),
        (ResizePhase.SEED, 3, 2, None, BLOCKED),
        # Producers may have the new queues: some of them by the entry, the others by a broker that is open.
        (ResizePhase.RESIZE, 3, 2, CONF, ResizePhase.RESIZE),
        (ResizePhase.UNPAUSE, 3, 2, CONF, ResizePhase.UNPAUSE),
        (ResizePhase.UNPAUSE, 3, 3, None, ResizePhase.VERIFY),
    ],
)
def test_set_that_takes_writes_in_a_pause_undoes_it_or_blocks_it_once_numbers_change(
    phase, reached, position, conf, after
):
    resize = an_ordered(phase, order_conf=conf, reached=reached)
    round_ = beside(observed(resize, position, order_conf=conf), broker_c=6, broker_b=4)
    operation = decide_step(resize, waited(0), round_).operation
    assert operation.phase is after
    if after in {BLOCKED, ROLLBACK}:
        assert operation.problem.startswith("broker-c takes writes of TopicTest and is not part of this resize")


def test_set_that_nobody_may_write_does_not_end_a_pause():
    resize = an_ordered(ResizePhase.QUIESCE)
    assert decide_step(resize, waited(0), beside(observed(resize, 1), broker_b=4)).operation == resize


@pytest.mark.parametrize(
    ("conf", "sends", "is_stopped"),
    [(CONF, (True, True), False), (CONF, (True, False), True), (None, (True, True), True)],
)
@pytest.mark.parametrize(("phase", "reached"), [(ResizePhase.QUIESCE, 1), (ResizePhase.RESIZE, 2)])
def test_set_beside_a_pause_gets_no_keys_where_name_servers_send_the_entry(conf, sends, is_stopped, phase, reached):
    resize = an_ordered(phase, order_conf=conf, reached=reached)
    round_ = beside(observed(resize, 1, order_conf=conf), broker_c=6)
    servers = [replace(each, sends_order_conf=sent) for each, sent in zip(round_.name_servers, sends, strict=True)]
    operation = decide_step(resize, waited(0), replace(round_, name_servers=tuple(servers))).operation
    assert (operation.phase in {BLOCKED, ROLLBACK}) is is_stopped


def test_pause_goes_on_by_itself_once_no_set_beside_it_takes_writes():
    resize = an_ordered(ResizePhase.UNPAUSE, reached=3)
    paused = observed(resize, 2)
    blocked = decide_step(resize, waited(0), beside(paused, broker_c=6)).operation
    assert decide_step(blocked, waited(0), beside(paused, broker_c=6)).operation == blocked
    # A NameServer that does not answer may know one.
    assert decide_step(blocked, waited(0), replace(paused, missing=("no answer",))).operation.phase is BLOCKED
    assert decide_step(blocked, waited(0), paused).operation.phase is ResizePhase.UNPAUSE


def test_pause_that_is_blocked_before_its_numbers_have_changed_is_undone_in_the_end():
    resize = structs.replace(an_ordered(ResizePhase.BLOCKED, reached=2), resume_phase=ResizePhase.RESIZE)
    late = beside(observed(resize, 1, now_ms=resize.waits.pause_ms + 1), broker_c=6)
    assert decide_step(resize, waited(0), late).operation.phase is ROLLBACK


def test_only_fewer_queues_have_to_be_drained_after_the_pause():
    grown, shrunk = an_ordered(ResizePhase.UNPAUSE, reached=3), an_ordered(ResizePhase.UNPAUSE, 4, 2, reached=3)
    assert decide_step(grown, waited(0), observed(grown, 3)).operation.phase is ResizePhase.VERIFY
    assert decide_step(shrunk, waited(0), observed(shrunk, 3)).operation.phase is ResizePhase.QUIESCE
