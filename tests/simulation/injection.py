"""How each fault is done, and how it ends."""

from controller.decisions.election import Call
from controller.decisions.membership import Cleaning
from controller.live_table import Heard
from simulation.controllers import SET

PAUSE_MS = 2_000
#: After a pause a broker beats at least once before the next.
WELL_AGAIN_MS = 1_500
#: How often somebody lies; where nothing is a reason for another master, for less than is waited before it is believed.
LIE_EVERY_MS = 300
LIE_AMONG_THE_WELL_MS = 2_500
#: Longer than it takes until another broker leads a set that was lost.
LATE_MS = 16_000
#: Within so long a report arrives, or never.
REPORTS_ARRIVE_MS = 10_000
#: Which of the lies is the largest epoch that there is.
LARGEST = 2


def broker_of(world, fault):
    return world.brokers[fault.who % len(world.brokers)]


def end_after(world, for_ms, act):
    world.at(world.now_ms + for_ms, act)


# Brokers


def crash_broker(world, fault):
    broker = broker_of(world, fault)
    broker.crash()
    end_after(world, fault.for_ms, broker.start)


def crash_master(world, fault):
    broker_set = world.store.kept.entry.broker_set
    master = world.by_id.get(broker_set.master) if broker_set is not None else None
    if master is not None:
        master.crash()
        end_after(world, fault.for_ms, master.start)


def freeze_broker(world, fault):
    broker, starts = broker_of(world, fault), broker_of(world, fault).starts
    broker.is_frozen = broker.is_up

    def thaw():
        if broker.starts == starts and broker.is_frozen:
            broker.is_frozen = False
            broker.fine_since_ms = world.now_ms

    end_after(world, fault.for_ms, thaw)


def pause_broker(world, fault):
    """Let it stand still for 2 s, as a long garbage collection does; then it is well for a while."""
    broker = broker_of(world, fault)
    if not broker.is_frozen and world.now_ms - max(broker.fine_since_ms, broker.reset_ms) > WELL_AGAIN_MS:
        freeze_broker(world, fault._replace(for_ms=PAUSE_MS))


def cut(world, fault, controllers):
    broker = broker_of(world, fault)
    broker.cut_controllers |= controllers

    def mend():
        broker.cut_controllers -= controllers
        broker.fine_since_ms = world.now_ms

    end_after(world, fault.for_ms, mend)


def cut_broker_from_controllers(world, fault):
    cut(world, fault, {0, 1, 2})


def cut_broker_from_controller(world, fault):
    cut(world, fault, {fault.other})


def cut_broker_from_broker(world, fault):
    one, other = broker_of(world, fault), world.brokers[fault.other % len(world.brokers)]
    if one is other:
        return
    one.cut_brokers.add(other.index)
    other.cut_brokers.add(one.index)

    def mend():
        one.cut_brokers.discard(other.index)
        other.cut_brokers.discard(one.index)

    end_after(world, fault.for_ms, mend)


def reset_connection(world, fault):
    """Close the connection to a controller; the broker opens another."""
    broker = broker_of(world, fault)
    if broker.is_up and not broker.is_frozen:
        broker.reset_connection(world.controllers[fault.other])
        broker.reset_ms = world.now_ms


def reset_and_ask(world, fault):
    """Close the connection between the master and the leading controller, just as another broker asks for a master."""
    broker_set, controller = world.store.kept.entry.broker_set, of_leader(world)
    master = world.by_id.get(broker_set.master) if broker_set is not None else None
    if master is not None and master.is_up and not master.is_frozen:
        master.reset_connection(controller)
        master.reset_ms = world.now_ms
        end_after(world, 100, lambda: stray_election(world, fault))


def lose_request(world, fault):
    broker_of(world, fault).next_requests.append(("lose", 0))


def delay_request(world, fault):
    broker_of(world, fault).next_requests.append(("delay", fault.for_ms))


def repeat_request(world, fault):
    broker_of(world, fault).next_requests.append(("repeat", fault.for_ms))


def delay_report(world, fault):
    """Let the next report of a SyncStateSet, whosever it is, come late."""
    world.late_reports_ms.append(fault.for_ms)


def stray_election(world, fault):
    """Let a request for a master arrive that its sender has long given up."""
    broker, controller = broker_of(world, fault), of_leader(world)
    if broker.id is not None and broker.reaches(controller):
        connection_id = broker.connections[controller.index]
        controller.receive(lambda: controller.elect_for(broker.id, connection_id, lambda _: None))


def lose_answer(world, fault):
    broker_of(world, fault).next_answers += 1


def lose_notice(world, fault):
    broker_of(world, fault).next_notices.append(("lose", 0))


def delay_notice(world, fault):
    broker_of(world, fault).next_notices.append(("delay", fault.for_ms))


def lag(world, fault):
    broker_of(world, fault).lags_until_ms = world.now_ms + fault.for_ms


def lie(world, fault):
    """Send heartbeats of a member over a connection of somebody else, with an epoch that it has not seen."""
    broker, connection_id = broker_of(world, fault), world.next_number()
    broker_set = world.store.kept.entry.broker_set
    if broker.id is None or broker_set is None:
        return
    claim = 2**31 - 1 if fault.other == LARGEST else broker_set.master_epoch + 1 + 200 * fault.other
    for_ms = min(fault.for_ms, LIE_AMONG_THE_WELL_MS) if world.settings.profile == "calm" else fault.for_ms
    until_ms = world.now_ms + for_ms
    heard = Heard(
        0,
        world.settings.heartbeat_timeout_ms,
        claim,
        10**6,
        address=broker.address,
        connection_id=connection_id,
    )

    def beat():
        if world.now_ms < until_ms:
            for controller in world.controllers:
                controller.receive(lambda controller=controller: controller.beat(broker.id, heard))
            end_after(world, LIE_EVERY_MS, beat)

    beat()


def move_from_another_set(world, fault):
    """Put a machine of another set in the place of a broker that is not in sync: its log begins with a higher epoch."""
    broker, broker_set = broker_of(world, fault), world.store.kept.entry.broker_set
    if broker_set is None or broker.id is None or broker.is_leading:
        return
    # The report that brings it in sync may be under way.
    is_reported = world.now_ms - world.reported_ms.get(broker.id, -REPORTS_ARRIVE_MS) < REPORTS_ARRIVE_MS
    if broker.id in broker_set.sync_state_set or is_reported:
        return
    broker.crash()
    broker.is_foreign = True
    epoch = broker_set.master_epoch + 1 + 200 * fault.other
    broker.epochs, broker.log = [(epoch, 0)], [(epoch, world.next_number()) for _ in range(5)]
    end_after(world, fault.for_ms, broker.start)


# Controllers and their store


def crash_controller(world, fault):
    controller = world.controllers[fault.who]
    controller.crash()
    end_after(world, fault.for_ms, controller.start)


def freeze_controller(world, fault):
    controller = world.controllers[fault.who]
    if controller.is_up:
        controller.freeze()
        end_after(world, fault.for_ms, controller.thaw)


def cut_controller_from_store(world, fault):
    controller = world.controllers[fault.who]
    controller.is_cut_from_store = True

    def mend():
        controller.is_cut_from_store = False

    end_after(world, fault.for_ms, mend)


def stop_store(world, fault):
    world.store.is_down = True

    def start():
        world.store.is_down = False

    end_after(world, fault.for_ms, start)


def of_leader(world):
    """Return the controller that leads; a fault of a commit of another one would hardly ever be seen."""
    return next((each for each in world.controllers if each.is_up and each.leadership.token), world.controllers[0])


def fail_commit(world, _fault):
    of_leader(world).next_commits.append(("fail", 0))


def delay_commit(world, fault):
    of_leader(world).next_commits.append(("delay", fault.for_ms))


def lose_commit_answer(world, _fault):
    of_leader(world).next_commits.append(("lose", 0))


def resign(world, _fault):
    """Stop the leading controller in order; it starts again."""
    controller = of_leader(world)
    if controller.is_up and not controller.is_frozen and not controller.is_cut_from_store and not world.store.is_down:
        world.store.release(controller.leadership.token)
        controller.crash()
        end_after(world, 1_000, controller.start)


def restore_backup(world, fault):
    world.store.restore(1 + fault.who + fault.other)


def wipe_store(world, _fault):
    world.store.restore(10**6)


def lose_store_and_master(world, fault):
    """Lose all that is stored, and for long the broker that knows the highest epoch: it comes back late."""
    crash_master(world, fault._replace(for_ms=LATE_MS))
    wipe_store(world, fault)


# Operators


def designate(world, fault):
    broker, controller = broker_of(world, fault), of_leader(world)
    if broker.id is not None:
        controller.receive(
            lambda: controller.leads and controller.elect(Call, None, broker_id=broker.id, is_designated=True)
        )


def clean(world, fault):
    """Take a broker out of the set; a living one is refused."""
    broker, controller = broker_of(world, fault), of_leader(world)
    if broker.id is not None:
        wanted = Cleaning(broker_name=SET, broker_ids=frozenset({broker.id}), even_living=False)
        controller.receive(lambda: controller.clean(wanted))


def clean_all(world, _fault):
    controller = of_leader(world)
    controller.receive(lambda: controller.clean(Cleaning(broker_name=SET, broker_ids=None, even_living=True)))


ACTS = {
    act.__name__: act
    for act in (
        crash_broker,
        crash_master,
        freeze_broker,
        pause_broker,
        cut_broker_from_controllers,
        cut_broker_from_controller,
        cut_broker_from_broker,
        reset_connection,
        reset_and_ask,
        lose_request,
        delay_request,
        repeat_request,
        delay_report,
        stray_election,
        lose_answer,
        lose_notice,
        delay_notice,
        lag,
        lie,
        move_from_another_set,
        crash_controller,
        freeze_controller,
        cut_controller_from_store,
        stop_store,
        fail_commit,
        delay_commit,
        lose_commit_answer,
        resign,
        restore_backup,
        wipe_store,
        lose_store_and_master,
        designate,
        clean,
        clean_all,
    )
}


def mend_everything(world):
    world.store.is_down = False
    world.late_reports_ms.clear()
    for controller in world.controllers:
        controller.is_cut_from_store = False
        controller.thaw()
        controller.start()
        controller.next_commits.clear()
    broker_set = world.store.kept.entry.broker_set
    for broker in world.brokers:
        if not world.is_kept:
            # After a lost or restored store: a master that knows higher epochs than the store is refused for ever.
            broker.crash()
        if broker.is_up and broker_set is not None and broker.id not in broker_set.replicas:
            # An operator took it out of the set while it could not be heard. It does not notice (controller.md 2.5),
            # and its master asks for a stranger in sync for ever: who takes a broker out has to stop it.
            broker.crash()
        if broker.is_foreign:
            # Its operator finds out.
            broker.crash()
            broker.epochs, broker.log, broker.is_foreign = [], [], False
        broker.cut_controllers.clear()
        broker.cut_brokers.clear()
        broker.is_frozen = False
        broker.start()
        broker.fine_since_ms = world.now_ms
        broker.next_requests.clear()
        broker.next_notices.clear()
        broker.next_answers = broker.lags_until_ms = 0
