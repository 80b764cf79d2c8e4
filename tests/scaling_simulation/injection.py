"""What each fault does to a simulated world."""

from controller.scaling.resize.operation import QueueCounts
from scaling_simulation.admin import LOST
from scaling_simulation.clients import Group

#: How far a wall clock is wrong.
HOURS_MS = 2 * 3_600_000
#: A killed process, or a set without a master, is back so long after its time at the latest.
STARTED_MS = 30_000


def _brokers(world, fault):
    return list(world.covered.values())[fault.who % len(world.covered)]


def _group(world, fault):
    return world.groups[fault.who % len(world.groups)]


def _name_server(world, fault):
    return world.name_servers[fault.who % len(world.name_servers)]


def restart_master(world, fault):
    brokers = _brokers(world, fault)
    stopped = brokers.stop()
    if stopped is not None:
        world.later(min(fault.for_ms, 60_000), brokers.start, stopped)


def fail_over(world, fault):
    """Let a slave lead, with the log, the numbers and the offsets that it has copied."""
    brokers = _brokers(world, fault)
    # Where slaves copy so rarely, nobody elects them.
    may_follow = world.settings.copy_ms <= 10_000
    following = next((each for each in brokers.slaves if each.is_up and may_follow), None)
    if brokers.master is None:
        return
    stopped = brokers.stop()

    def lead():
        if brokers.master is None:
            may_lead = following is not None and following.is_up and brokers.is_in_sync(following)
            brokers.lead(following if may_lead else stopped)

    world.later(1_000 + fault.choice * 1_000, lead)
    if following is not None:
        world.later(12_500 + fault.for_ms, brokers.start, stopped)


def slow_copies(world, fault):
    """Let a slave copy nothing of the log for some time."""
    for slave in _brokers(world, fault).slaves:
        slave.behind_since_ms = slave.behind_since_ms or world.now_ms
        world.later(fault.for_ms, setattr, slave, "behind_since_ms", None)


def expire(world, fault):
    """Delete the older messages, whoever has not consumed them."""
    _brokers(world, fault).expire(world.now_ms - fault.for_ms)


def stop_dispatch(world, fault):
    """Let messages stay in the log for some time, and come into their queues after it."""
    brokers = _brokers(world, fault)
    brokers.dispatches_from_ms = world.now_ms + fault.for_ms
    world.later(fault.for_ms, brokers.dispatch)


def slow_appends(world, fault):
    _brokers(world, fault).slow_until_ms = world.now_ms + fault.for_ms


def stop_name_server(world, fault):
    server = _name_server(world, fault)
    server.is_up = False
    world.later(fault.for_ms, setattr, server, "is_up", True)


def lose_registrations(world, fault):
    _name_server(world, fault).loses_until_ms = world.now_ms + min(fault.for_ms, 70_000)


def empty_name_server(world, fault):
    server = _name_server(world, fault)
    server.counts.clear()
    server.addresses.clear()


def cut_producer(world, fault):
    producer = world.producers[fault.who % len(world.producers)]
    producer.cut_until_ms = max(producer.cut_until_ms, world.now_ms + 2 * fault.for_ms)
    if fault.choice % 2:
        # Its connection has ended; otherwise nobody can see it.
        for server in world.name_servers:
            server.left(producer)


def crash_consumer(world, fault):
    group = _group(world, fault)
    if group.members:
        group.members[fault.choice % len(group.members)].crash()
        world.later(fault.for_ms, _refill, group)


def _refill(group):
    if not group.members and group.world.now_ms >= group.returns_ms:
        group.join()


def join_consumer(world, fault):
    group = _group(world, fault)
    if group.members:
        group.join()


def join_group(world, fault):
    kinds = ("concurrent", "pull", "pop", "broadcast", "orderly")
    kind = "orderly" if world.settings.is_ordered else kinds[fault.choice % len(kinds)]
    group = Group(world, f"group-{len(world.groups)}", kind, 4)
    group.exists_ms = None
    group.slow_until_ms = world.now_ms + (fault.for_ms if fault.choice % 2 else 0)
    world.groups.append(group)
    group.join()


def stop_group(world, fault):
    """Stop all members; most groups come back."""
    group = _group(world, fault)
    group.leave()
    group.returns_ms = world.now_ms + 2 * fault.for_ms
    world.later(2 * fault.for_ms, _refill, group)


def slow_group(world, fault):
    _group(world, fault).slow_until_ms = world.now_ms + fault.for_ms


def kill_controller(world, fault):
    """Let another one lead, maybe with another clock, maybe only after all locks have ended."""
    control = world.controller
    control.kill_at(fault.choice % 3, min(fault.for_ms, 40_000 if fault.who else 90_000))
    control.skew_ms = (0, 0, -HOURS_MS, HOURS_MS)[fault.choice // 3]


def set_clock(world, fault):
    """Set the wall clock of the controller ahead or back, by hours or minutes."""
    step_ms = HOURS_MS if fault.choice % 4 < 2 else fault.for_ms
    world.controller.process.wall_offset_ms += step_ms if fault.choice % 2 else -step_ms


def lose_answers(world, fault):
    world.controller.lost[_brokers(world, fault).name, fault.choice % len(LOST)] = world.now_ms + fault.for_ms


def hide_clients(world, fault):
    world.controller.hides_until_ms = world.now_ms + fault.for_ms


def lose_actions(world, fault):
    world.controller.loses_until_ms = world.now_ms + fault.for_ms


def lose_action_answers(world, fault):
    world.controller.loses_answers_until_ms = world.now_ms + fault.for_ms


def delay_actions(world, fault):
    world.controller.delays_until_ms = world.now_ms + fault.for_ms


def slow_rounds(world, fault):
    world.controller.slow_until_ms = world.now_ms + fault.for_ms


def set_counts(world, fault):
    """Let an operator change the numbers in the middle."""
    brokers = _brokers(world, fault)
    if brokers.counts is None or world.controller.is_over:
        return
    before = brokers.counts
    read = (before.read, before.read + 3, max(before.read - 1, 1))[fault.choice % 3]
    counts = QueueCounts(read, min(read, before.write + fault.choice % 2), before.perm)
    if counts == before:
        return
    world.note("an operator sets %s of %s", counts, brokers.name)
    world.judge.operator_changed(brokers, counts)
    brokers.set_counts(counts)


def abort(world, _fault):
    world.controller.command("abort", "not now")


def resume(world, _fault):
    world.controller.command("resume", "go on")


def waive(world, fault):
    world.controller.command("waive", _group(world, fault).name)


def delete_topic(world, fault):
    """Let an operator delete the topic, and sometimes make it anew."""
    if world.is_deleted or any(each.counts is None for each in world.covered.values()):
        return
    world.is_deleted = True
    for brokers in world.covered.values():
        brokers.forget_topic()
        if fault.choice % 3 == 0:
            world.later(fault.for_ms, make_topic, brokers, QueueCounts(world.settings.before, world.settings.before))


def make_topic(brokers, counts):
    """Make it anew, once there is a master."""
    if brokers.master is None:
        brokers.world.later(1_000, make_topic, brokers, counts)
    else:
        brokers.is_remade = True
        brokers.world.judge.foreign.setdefault(brokers.name, counts)
        brokers.world.judge.foreign_ms = brokers.world.now_ms
        brokers.set_counts(counts)


def replace_set(world, fault):
    """Let a set be replaced by an empty one, or, if others are left, by none."""
    brokers = _brokers(world, fault)
    brokers.is_gone = fault.choice % 2 and len(world.covered) > 1
    brokers.stop()
    brokers.forget_topic()
    if brokers.is_gone:
        for each in brokers.replicas:
            brokers.stop_replica(each)
    else:
        world.later(min(fault.for_ms, 60_000), brokers.start, brokers.last_master)


def return_set(world, _fault):
    """Let a set come back that was down when the resize began."""
    if world.absent is not None:
        world.absent.mend()


ACTS = {
    act.__name__: act
    for act in (
        restart_master, fail_over, slow_copies, slow_appends, expire, stop_dispatch, stop_name_server,
        lose_registrations, empty_name_server, cut_producer, crash_consumer, join_consumer, join_group, stop_group,
        slow_group, kill_controller, lose_answers, hide_clients, lose_actions, lose_action_answers, delay_actions,
        slow_rounds, set_clock, set_counts, abort, resume, waive, delete_topic, replace_set, return_set,
    )
}  # fmt: skip


def mend_everything(world):
    """End all faults."""
    for brokers in world.sets.values():
        brokers.mend()
    for server in world.name_servers:
        server.is_up, server.loses_until_ms = True, 0
    for producer in world.producers:
        producer.cut_until_ms = 0
    control = world.controller
    control.loses_until_ms = control.loses_answers_until_ms = control.delays_until_ms = control.slow_until_ms = 0
    control.lost.clear()
    control.hides_until_ms = 0
    for group in world.groups:
        group.slow_until_ms, group.batch = 0, 1_000
        if not group.members and world.settings.returns:
            group.join()
