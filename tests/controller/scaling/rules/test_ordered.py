"""Ordered topics: pause, resize, go on."""

from scaling_builders import ADDRESS, BROKER, NAME_SERVER, an_ordered, observed, waited

from controller.scaling.resize.decision import ChangeCounts, PutOrderConf
from controller.scaling.resize.operation import QueueCounts, ResizePhase
from controller.scaling.rules.ordered import resized_order_conf
from controller.scaling.rules.step import decide_step

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


def test_only_fewer_queues_have_to_be_drained_after_the_pause():
    grown, shrunk = an_ordered(ResizePhase.UNPAUSE, reached=3), an_ordered(ResizePhase.UNPAUSE, 4, 2, reached=3)
    assert decide_step(grown, waited(0), observed(grown, 3)).operation.phase is ResizePhase.VERIFY
    assert decide_step(shrunk, waited(0), observed(shrunk, 3)).operation.phase is ResizePhase.QUIESCE
