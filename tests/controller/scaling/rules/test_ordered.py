"""Ordered topics: pause, resize, go on."""

from dataclasses import replace

import pytest
from msgspec import structs
from scaling_builders import ADDRESS, BROKER, MASTER, NAME_SERVER, an_ordered, observed, waited, with_set

from controller.scaling.resize.decision import ChangeCounts, PutOrderConf
from controller.scaling.resize.observation import NameServerView, SetView
from controller.scaling.resize.operation import MasterIdentity, QueueCounts
from controller.scaling.rules.commands import aborted
from controller.scaling.rules.ordered import LAST_ROUNDS_MAX, paused_order_conf, resized_order_conf
from controller.scaling.rules.phases import decide_step
from serving.shapes.scaling import ResizePhase

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


CONF, PAUSED = "broker-a:2", "broker-a:0"


def aborted_in_conflict(**values):
    conflict = an_ordered(ResizePhase.CONFLICT, **values)
    return aborted(conflict, conflict.phase_since_unix_ms, "")


def two_sets(observation):
    """Return an observation in which a second set shows what the first one does."""
    view = observation.sets[BROKER]
    return replace(observation, sets={BROKER: view, "broker-b": replace(view, broker_name="broker-b")})


def ended(resize, observation):
    """Return the resize after the second check, and what it says to have left."""
    operation = decide_step(resize, waited(resize.waits.confirm_ms, agreed_at_ms=0), observation).operation
    return operation.phase, operation.steps[-1].evidence


@pytest.mark.parametrize(
    ("position", "reached", "after", "conf"),
    [(1, 1, QueueCounts(2, 2), CONF), (2, 2, QueueCounts(4, 4), "broker-a:4"), (2, 3, QueueCounts(4, 4), "broker-a:4")],
)
def test_pause_of_the_resize_itself_is_undone(position, reached, after, conf):
    resize = aborted_in_conflict(reached=reached, order_conf=CONF)
    put = PutOrderConf(address=NAME_SERVER, value=conf)
    opened = ChangeCounts(
        broker_name=BROKER, address=ADDRESS, before=QueueCounts(after.read, after.write, 4), after=after
    )
    # First the entry: with it producers use all queues again at once.
    paused = observed(resize, position, order_conf=PAUSED)
    assert decide_step(resize, waited(0), paused).actions == (put,)
    assert decide_step(resize, waited(0), observed(resize, position, order_conf=conf)).actions == (opened,)
    # A NameServer that does not take it holds up no writes.
    assert decide_step(resize, waited(0), replace(paused, failures=("no",))).actions == (put, opened)
    given_back = with_set(observed(resize, position, order_conf=conf), counts=after)
    phase, evidence = ended(resize, given_back)
    assert phase is ResizePhase.ABORTED
    if reached == 1:
        assert evidence == ("every broker has its former numbers and permission",)
    else:
        assert evidence == (
            "broker-a stays with read 4, write 4, perm 6; before the resize it had read 2, write 2, perm 6",
            f"orderTopicConf of {NAME_SERVER} stays broker-a:4; before the resize it was broker-a:2",
        )


@pytest.mark.parametrize("conf", ["broker-a:2", None])
def test_entry_without_queues_that_names_a_set_that_was_given_up_goes_too(conf):
    resize = aborted_in_conflict(order_conf=conf)
    paused = observed(resize, 1, order_conf="broker-a:0;broker-b:0")
    assert PutOrderConf(address=NAME_SERVER, value=conf) in decide_step(resize, waited(0), paused).actions


def test_numbers_of_somebody_else_stay_and_are_named():
    resize = aborted_in_conflict(order_conf=CONF)
    counts = QueueCounts(7, 7, 4)
    foreign = with_set(observed(resize, 1, order_conf=PAUSED), counts=counts)
    # The entry without queues goes: no entry of this resize fits the numbers, and producers use what brokers show.
    removed = PutOrderConf(address=NAME_SERVER, value=None)
    assert decide_step(resize, waited(0), foreign).actions == (removed,)
    phase, (numbers, conf) = ended(resize, with_set(observed(resize, 1), counts=counts))
    assert phase is ResizePhase.ABORTED
    assert numbers.startswith("broker-a stays with read 7, write 7, perm 4, so producers get no queue there; before")
    assert conf == f"orderTopicConf of {NAME_SERVER} stays none; before the resize it was broker-a:2"


def test_order_conf_of_somebody_else_stays_and_is_named():
    resize = aborted_in_conflict(order_conf=CONF)
    foreign = observed(resize, 0, order_conf="broker-a:9")
    assert decide_step(resize, waited(0), foreign).actions == ()
    _, evidence = ended(resize, foreign)
    assert evidence[0] == f"orderTopicConf of {NAME_SERVER} stays broker-a:9; before the resize it was broker-a:2"


def test_pause_that_arrives_late_is_undone_again():
    resize = aborted_in_conflict()
    progress = decide_step(resize, waited(0), observed(resize, 0)).progress
    late = decide_step(resize, progress, observed(resize, 1))
    assert len(late.actions) == 1
    assert late.progress.agreed_at_ms is None


def test_broker_that_does_not_answer_does_not_keep_the_resize_for_ever():
    resize = aborted_in_conflict()
    now_ms = resize.waits.verify_ms
    silent = with_set(observed(resize, 1, now_ms=now_ms, missing=("no answer",)), counts=None, master=None)
    silent = replace(silent, name_servers=(NameServerView(address=NAME_SERVER, counts=None),))
    assert decide_step(resize, waited(0), replace(silent, now_ms=now_ms - 1)).operation.phase is ResizePhase.ROLLBACK
    after = decide_step(resize, waited(0), silent).operation
    assert (after.phase, after.steps[-1].evidence) == (
        ResizePhase.ABORTED,
        (
            "broker-a does not answer: check its numbers, and that its perm is 6",
            f"NameServer {NAME_SERVER} does not answer: check its orderTopicConf; before the resize it was none",
        ),
    )


def test_entry_without_queues_waits_for_the_numbers_of_a_silent_set_and_goes_in_the_end():
    one = aborted_in_conflict(order_conf=CONF)
    sets = (*one.sets, structs.replace(one.sets[0], broker_name="broker-b"))
    resize = structs.replace(one, sets=sets)
    # The other set takes writes already, which producers do not see.
    silent = observed(resize, 0, order_conf=PAUSED, missing=("no answer",))
    assert decide_step(resize, waited(0), silent).actions == ()
    removed = PutOrderConf(address=NAME_SERVER, value=None)
    assert decide_step(resize, waited(resize.waits.verify_ms), silent).actions == (removed,)


def test_what_can_be_given_back_is_tried_however_late():
    resize = aborted_in_conflict()
    paused = observed(resize, 1, now_ms=resize.waits.verify_ms)
    assert len(decide_step(resize, waited(0), paused).actions) == 1
    failed = decide_step(resize, waited(0), replace(paused, failures=("no answer",))).operation
    assert failed.phase is ResizePhase.ABORTED
    assert "so producers get no queue there" in failed.steps[-1].evidence[0]


def test_no_set_is_opened_alone_while_another_one_does_not_answer():
    one = aborted_in_conflict()
    masters = dict.fromkeys([BROKER, "broker-b", "broker-c"], MASTER)
    sets = (*one.sets, structs.replace(one.sets[0], broker_name="broker-b"))
    resize = structs.replace(one, sets=sets, masters=masters)
    paused, verify_ms = two_sets(observed(resize, 1)), resize.waits.verify_ms
    silent = replace(paused, sets=paused.sets | {"broker-b": SetView(broker_name="broker-b")}, missing=("no answer",))
    decision = decide_step(resize, waited(0), silent)
    assert (decision.actions, decision.waits_for) == ((), (f"writes at {ADDRESS}", "no answer"))
    assert len(decide_step(resize, waited(0), paused).actions) == 2
    # It is not held up for ever.
    late = replace(silent, now_ms=verify_ms, unix_ms=silent.unix_ms + verify_ms)
    assert [each.broker_name for each in decide_step(resize, waited(0), late).actions] == [BROKER]
    # Producers that have one set already get the other one too.
    third = structs.replace(one.sets[0], broker_name="broker-c")
    resize = structs.replace(resize, sets=(*resize.sets, third))
    is_open = replace(paused.sets[BROKER], broker_name="broker-c", counts=one.sets[0].before)
    one_open = replace(silent, sets=silent.sets | {"broker-c": is_open})
    assert [each.broker_name for each in decide_step(resize, waited(0), one_open).actions] == [BROKER]


def test_tool_that_takes_writes_away_again_and_again_does_not_keep_the_resize_for_ever():
    resize = aborted_in_conflict()
    paused = observed(resize, 1, now_ms=resize.waits.verify_ms)
    progress = waited(0)
    for _ in range(LAST_ROUNDS_MAX):
        decision = decide_step(resize, progress, paused)
        assert (decision.operation.phase, len(decision.actions)) == (ResizePhase.ROLLBACK, 1)
        progress = decision.progress
    after = decide_step(resize, progress, paused).operation
    assert after.phase is ResizePhase.ABORTED
    assert "so producers get no queue there" in after.steps[-1].evidence[0]


def test_another_master_changes_nothing_about_it():
    resize = aborted_in_conflict(reached=3)
    other = with_set(observed(resize, 2), master=MasterIdentity(ADDRESS, 2))
    assert decide_step(resize, waited(0), other).operation.phase is ResizePhase.ROLLBACK
