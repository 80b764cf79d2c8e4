"""How each fault is done, and how it ends."""

from contextlib import suppress

from controller.switchover.record import SwitchoverRequest
from controller.switchover.rolling_restarts import RestartRefused, RestartRequest
from controller.switchover.service import SetNotFound, SwitchoverRefused
from remoting.protocol.codes import RequestCode
from remoting.protocol.command import RemotingCommand
from remoting.protocol.errors import RequestRefused
from remoting.protocol.shapes.controller import BrokerHeartbeatHeader
from simulation.controllers import CLUSTER
from simulation.links import Peer
from store.store import StoreError

PAUSE_MS = 2_000
#: After a pause a broker beats at least once before the next.
WELL_AGAIN_MS = 1_500
#: How long it takes to put a snapshot back, and after which times brokers come back that lost power together.
PUT_BACK_MS = 700
TURN_MS = (200, 1_500, 5_000)
#: How long a broker is away that its operator restarts.
RESTART_MS = 800
#: How often somebody lies; where nothing is a reason for another master, for less than is waited before it is believed.
LIE_EVERY_MS = 300
LIE_AMONG_THE_WELL_MS = 2_500
#: Longer than it takes until another broker leads a set that was lost.
LATE_MS = 16_000
#: Which of the lies is the largest epoch that there is.
LARGEST = 2


def controller_of(world, number):
    return world.controllers[number % len(world.controllers)]


def request(of_set, controller, code, peer, body=b"", **fields):
    """Let a request about a set come whose answer nobody reads."""
    texts = {"clusterName": CLUSTER, "brokerName": of_set.name} | {key: str(value) for key, value in fields.items()}
    command = RemotingCommand(code, ext_fields=texts, body=body)
    controller.receive(controller.take, command, peer, lambda _: None)


def set_of(world, fault):
    return broker_of(world, fault).set


def operator(world):
    return Peer(world.next_number(), "10.0.8.8")


def broker_of(world, fault):
    return world.brokers[fault.who % len(world.brokers)]


def end_after(world, for_ms, act):
    """End a fault, unless nothing is mended any more."""
    world.at(world.now_ms + for_ms, lambda: act() if not world.is_left_alone else None)


# Brokers


def crash_broker(world, fault):
    broker = broker_of(world, fault)
    broker.crash()
    end_after(world, fault.for_ms, broker.start)


def crash_master(world, fault):
    master = set_of(world, fault).master
    if master is not None:
        master.crash()
        end_after(world, fault.for_ms, master.start)


def freeze_broker(world, fault):
    broker, starts = broker_of(world, fault), broker_of(world, fault).starts
    broker.freeze()

    def thaw():
        if broker.starts == starts and broker.is_frozen:
            broker.thaw()

    end_after(world, fault.for_ms, thaw)


def pause_broker(world, fault):
    """Let it stand still for 2 s, as a long garbage collection does; then it is well for a while."""
    broker = broker_of(world, fault)
    if not broker.is_frozen and world.now_ms - max(broker.fine_since_ms, broker.reset_ms) > WELL_AGAIN_MS:
        freeze_broker(world, fault._replace(for_ms=PAUSE_MS))


def cut(world, fault, controllers):
    broker = broker_of(world, fault)
    broker.end_copy()
    broker.cut_controllers |= controllers

    def mend():
        broker.cut_controllers -= controllers
        broker.fine_since_ms = world.now_ms

    end_after(world, fault.for_ms, mend)


def cut_broker_from_controllers(world, fault):
    cut(world, fault, {0, 1, 2})


def cut_broker_from_controller(world, fault):
    cut(world, fault, {fault.other % len(world.controllers)})


def cut_broker_from_broker(world, fault):
    one = broker_of(world, fault)
    other = one.set.brokers[fault.other % len(one.set.brokers)]
    if one is other:
        return
    one.cut_brokers.add(other.index)
    other.cut_brokers.add(one.index)

    def mend():
        one.cut_brokers.discard(other.index)
        other.cut_brokers.discard(one.index)

    end_after(world, fault.for_ms, mend)


def copy_broker(world, fault):
    """Start another broker with a copy of the disk of one that is well: two of one id."""
    broker = broker_of(world, fault)
    if broker.is_running and broker.reaches(controller_of(world, 0)) and not broker.cut_controllers:
        broker.end_copy()
        copy = broker.copied_to(len(world.brokers) + len(world.copies))
        world.copies.append(copy)
        copy.start()
        world.every(world.now_ms + 300, 1_000, copy.live)
        end_after(world, fault.for_ms, copy.crash)


# Disks


def lose_log(world, fault):
    """Lose the disk of the commit log; identity and epoch file are elsewhere, the latter not always."""
    broker = broker_of(world, fault)
    replace_disk(world, broker, [], [] if fault.other == LARGEST else broker.epochs, fault.for_ms)


def roll_back_log(world, fault):
    """Put back a snapshot of a disk, as old as the fault lasts."""
    broker = broker_of(world, fault)
    log, epochs = list(broker.log), list(broker.epochs)

    end_after(world, fault.for_ms, lambda: replace_disk(world, broker, log, epochs, PUT_BACK_MS))


def cut_log(world, fault):
    """Lose power: the tail that was not flushed is gone (ASYNC_FLUSH), and the epoch file tells of it all the same."""
    broker = broker_of(world, fault)
    replace_disk(world, broker, broker.log[: broker.flushed], broker.epochs, fault.for_ms)


def replace_disk(world, broker, log, epochs, for_ms):
    broker.replace_disk(log, epochs)
    end_after(world, for_ms, broker.start)


def on_all(act):
    """Return the fault that comes to all brokers at once: they come back one after the other."""

    def done(world, fault):
        for i in range(len(world.brokers)):
            turn = (i + fault.who) % len(world.brokers)
            act(world, fault._replace(who=i, for_ms=fault.for_ms + turn * TURN_MS[fault.other]))

    return done


lose_all_logs, roll_back_all_logs, cut_all_logs = on_all(lose_log), on_all(roll_back_log), on_all(cut_log)


def cut_requests(world, fault):
    """Let nothing that a broker sends come to a controller, which it answers all the same."""
    broker, controllers = broker_of(world, fault), {0, 1, 2} if fault.other else {of_leader(world).index}
    broker.unheard_by |= controllers

    def mend():
        broker.unheard_by -= controllers
        broker.fine_since_ms = world.now_ms

    end_after(world, fault.for_ms, mend)


# Hosts


def host_of(world, fault):
    """Return the brokers of a host, and the controllers on it."""
    place = broker_of(world, fault).place
    controllers = [each for each in world.controllers if world.settings.are_beside and each.index == place]
    return [each for each in world.brokers if each.place == place], controllers


def crash_host(world, fault):
    brokers, controllers = host_of(world, fault)
    for each in (*brokers, *controllers):
        each.crash()
        end_after(world, fault.for_ms, each.start)


def freeze_host(world, fault):
    brokers, controllers = host_of(world, fault)
    for each in brokers:
        freeze_broker(world, fault._replace(who=world.brokers.index(each)))
    for each in controllers:
        freeze_controller(world, fault._replace(who=each.index))


def cut_host(world, fault):
    """Cut a host off: its brokers serve whoever is there, and reach a controller there only."""
    brokers, controllers = host_of(world, fault)
    others = {each.index for each in world.controllers if each not in controllers}
    for each in brokers:
        cut(world, fault._replace(who=world.brokers.index(each)), others)
        for other in range(world.settings.brokers):
            cut_broker_from_broker(world, fault._replace(who=world.brokers.index(each), other=other))
    for each in controllers:
        cut_controller_from_store(world, fault._replace(who=each.index))
        for broker in world.brokers:
            if broker not in brokers:
                cut(world, fault._replace(who=world.brokers.index(broker)), {each.index})


# Connections and requests


def reset_connection(world, fault):
    """Close the connection to a controller; the broker opens another."""
    broker = broker_of(world, fault)
    broker.end_copy()
    if broker.is_up and not broker.is_frozen:
        broker.reset_connection(controller_of(world, fault.other))
        broker.reset_ms = world.now_ms


def reset_and_query(world, fault):
    """Close the connection between the master and the leading controller, just as another broker asks for a master."""
    master, controller = set_of(world, fault).master, of_leader(world)
    if master is not None and master.is_up and not master.is_frozen:
        master.end_copy()
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
        request(
            broker.set,
            controller,
            RequestCode.CONTROLLER_ELECT_MASTER,
            broker.connection(controller),
            brokerId=broker.id,
        )


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
    broker, peer = broker_of(world, fault), Peer(world.next_number(), "10.0.9.9")
    broker_set = broker.set.entry.broker_set
    if broker.id is None or broker_set is None:
        return
    claim = 2**31 - 1 if fault.other == LARGEST else broker_set.master_epoch + 1 + 200 * fault.other
    for_ms = min(fault.for_ms, LIE_AMONG_THE_WELL_MS) if world.settings.profile == "calm" else fault.for_ms
    until_ms = world.now_ms + for_ms
    heartbeat_header = BrokerHeartbeatHeader(
        cluster_name=CLUSTER,
        broker_addr=broker.address,
        broker_name=broker.set.name,
        broker_id=broker.id,
        epoch=claim,
        max_offset=10**6,
        heartbeat_timeout_mills=world.settings.heartbeat_timeout_ms,
    )

    def heartbeat():
        if world.now_ms < until_ms:
            for controller in world.controllers:
                controller.receive(controller.heartbeat, heartbeat_header, peer)
            end_after(world, LIE_EVERY_MS, heartbeat)

    heartbeat()


def move_from_another_set(world, fault):
    """Put a machine of another set in the place of a broker that is not in sync: its log begins with a higher epoch."""
    broker = broker_of(world, fault)
    broker_set = broker.set.entry.broker_set
    if broker_set is None or broker.id is None or broker.id in broker_set.sync_state_set or broker.is_leading:
        return
    broker.crash()
    broker.is_foreign = True
    epoch = broker_set.master_epoch + 1 + 200 * fault.other
    broker.epochs, broker.log = [(epoch, 0)], [(epoch, world.next_number()) for _ in range(5)]
    end_after(world, fault.for_ms, broker.start)


# Controllers and their store


def crash_controller(world, fault):
    controller = controller_of(world, fault.who)
    controller.crash()
    end_after(world, fault.for_ms, controller.start)


def freeze_controller(world, fault):
    controller = controller_of(world, fault.who)
    if controller.is_up:
        controller.freeze()
        end_after(world, fault.for_ms, controller.thaw)


def cut_controller_from_store(world, fault):
    controller = controller_of(world, fault.who)
    controller.is_cut_from_store = True

    end_after(world, fault.for_ms, controller.mend_store)


def stop_store(world, fault):
    world.etcd.stop()

    def start():
        world.etcd.is_down = False

    end_after(world, fault.for_ms, start)


def of_leader(world):
    """Return the controller that leads; a fault of a commit of another one would hardly ever be seen."""
    return next((each for each in world.controllers if each.is_up and each.leads), world.controllers[0])


def fail_commit(world, _fault):
    """Break the connection as the next commit is sent: it does not arrive, and its sender cannot know that."""
    of_leader(world).next_calls.append((True, "fail", 0))


def delay_commit(world, fault):
    of_leader(world).next_calls.append((True, "delay", fault.for_ms))


def lose_commit_answer(world, fault):
    """Let the next commit be stored, and its answer never come; or the connection breaks instead."""
    of_leader(world).next_calls.append((True, "swallow" if fault.other else "lose", 0))


def lose_store_answer(world, fault):
    """As that, of any call: a renewal, a lease that is granted, the campaign for the lead."""
    controller = controller_of(world, fault.who)
    controller.next_calls.append((False, ("lose", "swallow", "fail")[fault.other], 0))


def delay_store_answer(world, fault):
    """Let the answer to the next call, of whatever kind, come late, though it was done at once."""
    controller_of(world, fault.who).next_calls.append((False, "delay answer", fault.for_ms))


def slow_store(world, fault):
    """Let all answers of etcd to a controller come late, and cut it off at the end."""
    controller = of_leader(world)
    controller.slow_store_ms = (300, 900, 1_700)[fault.other]

    def cut_off():
        controller.slow_store_ms = 0
        controller.is_cut_from_store = True
        end_after(world, fault.for_ms, controller.mend_store)

    end_after(world, 3_000, cut_off)


def freeze_in_call(world, fault):
    """Let a controller stand still while the answer to its question for the lead is on its way."""
    controller = of_leader(world) if fault.who else controller_of(world, fault.other)
    kind = ("LeaseKeepAlive", "LeaseGrant", "Txn")[fault.other]
    controller.freeze_at_call = kind, min(fault.for_ms, 3_000), lambda: None


def renew_and_cut(world, fault):
    """As that at its next renewal, and cut it off from the store as it goes on: its lease ends when etcd says."""
    controller = of_leader(world)
    controller.freeze_at_call = "LeaseKeepAlive", 2_000, lambda: cut_off_after(world, controller, 2_100, fault)


def grant_and_cut(world, fault):
    """The same of a lease that is granted: the leader resigns, and the others are not there for a while."""
    leader, controllers = of_leader(world), [each for each in world.controllers if each.is_up]
    heirs = [each for each in controllers if each is not leader]
    if not heirs or not leader.leads:
        return
    heir = heirs[fault.who % len(heirs)]
    heir.freeze_at_call = "LeaseGrant", 2_500, lambda: cut_off_after(world, heir, 3_000, fault)
    for each in heirs:
        if each is not heir:
            each.freeze()
            end_after(world, 4_000, each.thaw)
    stop_in_order(world, leader, 4_000)


def cut_off_after(world, controller, ms, fault):
    def cut_off():
        controller.is_cut_from_store = True
        end_after(world, max(fault.for_ms, 5_000), controller.mend_store)

    end_after(world, ms, cut_off)


def resign(world, _fault):
    """Stop the leading controller in order; it starts again."""
    stop_in_order(world, of_leader(world), 1_000)


def stop_in_order(world, controller, for_ms):
    runs = controller.runs

    def stopped():
        if controller.runs == runs:
            controller.crash()
            if world.is_left_alone:
                # It has taken its time: meanwhile everything was mended that could be.
                controller.start()
            else:
                end_after(world, for_ms, controller.start)

    if controller.is_up and not controller.is_frozen:
        controller.resign(stopped)


def set_clock(world, fault):
    """Set the wall clock of a controller, back or ahead."""
    controller = controller_of(world, fault.who)
    if controller.is_up:
        controller.process.wall_offset_ms += (fault.other - 1) * 3_600_000 - fault.for_ms


# Ways from controllers to brokers


def block_queries(world, fault):
    """Let a firewall keep a controller from the port of a broker, whose heartbeats come all the same."""
    pair = controller_of(world, fault.other).index, broker_of(world, fault).place
    if pair not in world.blocked:
        world.was_blocked.add(pair)
        world.blocked[pair] = "refused" if fault.for_ms in (700, 2_500) else "silent"
        end_after(world, fault.for_ms, lambda: world.blocked.pop(pair, None))


def mute_broker(world, fault):
    """Let a broker beat, and not answer how far its log is."""
    broker_of(world, fault).mute_until_ms = world.now_ms + fault.for_ms


def restore_backup(world, fault):
    world.etcd.restore(1 + fault.who + fault.other)


def wipe_store(world, _fault):
    world.etcd.restore(10**6)


def lose_store_and_master(world, fault):
    """Lose all that is stored, and for long the broker that knows the highest epoch: it comes back late."""
    crash_master(world, fault._replace(for_ms=LATE_MS))
    wipe_store(world, fault)


# Operators


def designate(world, fault):
    """Let an operator want a master. Where any replicas confirm, who is in sync may lack messages: nobody is asked."""
    broker = broker_of(world, fault)
    if broker.id is not None and not world.settings.confirmed_on:
        fields = {"brokerId": broker.id, "designateElect": "true"}
        broker.set.wished = broker, world.now_ms
        request(broker.set, of_leader(world), RequestCode.CONTROLLER_ELECT_MASTER, operator(world), **fields)


def ask(world, controller, plan):
    """Let an operator plan something at a controller, which may refuse."""

    async def asked():
        with suppress(SwitchoverRefused, RestartRefused, SetNotFound, RequestRefused, StoreError):
            await plan()

    if controller.is_up:
        controller.receive(lambda: controller.tasks.start(asked(), "plan"))


def switch_over(world, fault):
    leader, broker = of_leader(world), broker_of(world, fault)
    wanted = SwitchoverRequest(broker_id=broker.id if fault.other else None, catch_up_ms_max=5_000)
    ask(world, leader, lambda: leader.switchovers.begin(broker.set.name, wanted))


def restart_set(world, fault):
    leader, name = of_leader(world), set_of(world, fault).name
    ask(world, leader, lambda: leader.restarts.begin(name, RestartRequest()))


def restart_whom_controllers_name(world):
    """Let operators restart the brokers that rolling restarts name."""
    leader = of_leader(world)
    under_way = leader.restarts.under_way() if leader.is_up and not world.is_left_alone else ()
    for restart in under_way:
        broker = world.set_of(restart.broker_name).by_id.get(restart.broker_id)
        if broker is not None and broker.is_up and broker.started_ms == restart.boot_unix_ms:
            broker.crash()
            end_after(world, RESTART_MS, broker.start)


def clean(world, fault):
    """Take a broker out of the set; a living one is refused."""
    broker = broker_of(world, fault)
    if broker.id is not None:
        code = RequestCode.CLEAN_BROKER_DATA
        request(broker.set, of_leader(world), code, operator(world), brokerControllerIdsToClean=broker.id)


def clean_all(world, fault):
    fields = {"isCleanLivingBroker": "true"}
    request(set_of(world, fault), of_leader(world), RequestCode.CLEAN_BROKER_DATA, operator(world), **fields)


def clean_unused_ids(world):
    """Take out of the set whom no broker is any more."""
    for of_set in world.sets:
        broker_set = of_set.entry.broker_set
        unused = broker_set.replicas.keys() - {each.id for each in of_set.brokers} if broker_set is not None else ()
        if unused:
            ids, leader = ";".join(map(str, sorted(unused))), of_leader(world)
            request(of_set, leader, RequestCode.CLEAN_BROKER_DATA, operator(world), brokerControllerIdsToClean=ids)


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
        copy_broker,
        reset_connection,
        reset_and_query,
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
        lose_store_answer,
        delay_store_answer,
        slow_store,
        freeze_in_call,
        renew_and_cut,
        grant_and_cut,
        set_clock,
        block_queries,
        mute_broker,
        lose_log,
        roll_back_log,
        cut_log,
        cut_requests,
        resign,
        restore_backup,
        wipe_store,
        lose_store_and_master,
        designate,
        clean,
        clean_all,
        crash_host,
        freeze_host,
        cut_host,
        switch_over,
        restart_set,
    )
} | {"lose_all_logs": lose_all_logs, "roll_back_all_logs": roll_back_all_logs, "cut_all_logs": cut_all_logs}


def mend_core(world, brokers):
    """Mend etcd, so many controllers that they are most, and these brokers with all ways to them."""
    world.etcd.is_down = False
    world.late_reports_ms.clear()
    broken = [each for each in world.controllers if not each.is_up or each.is_frozen or each.is_cut_from_store]
    spared = broken[: (len(world.controllers) - 1) // 2]
    for controller in world.controllers:
        if controller not in spared:
            mend_controller(controller)
    for broker in world.brokers:
        broker.end_copy()
        if broker in brokers:
            mend_broker(world, broker)
    places, kept = {broker.place for broker in brokers}, dict(world.settings.blocked)
    world.blocked = {pair: how for pair, how in world.blocked.items() if pair[1] not in places} | kept


def mend_controller(controller):
    controller.slow_store_ms, controller.freeze_at_call = 0, None
    controller.mend_store()
    controller.thaw()
    controller.start()
    controller.next_calls.clear()


def mend_everything(world):
    world.etcd.is_down = False
    world.late_reports_ms.clear()
    # Where messages are confirmed on a fixed number of replicas, controllers have to reach them: else sets wait.
    world.blocked = {} if world.settings.confirmed_on else dict(world.settings.blocked)
    for controller in world.controllers:
        mend_controller(controller)
    for broker in world.brokers:
        broker.end_copy()
        mend_broker(world, broker)


def mend_broker(world, broker):
    broker_set = broker.set.entry.broker_set
    if not world.is_kept:
        # After a lost or restored store: a master that knows higher epochs than the store is refused for ever.
        broker.crash()
    if broker.is_up and broker_set is not None and broker.id not in broker_set.replicas:
        # An operator took it out of the set while it could not be heard. It does not notice
        # (docs/protocol/controller.md 2.5), and its master asks for a stranger in sync for ever: who takes a broker out
        # has to stop it.
        broker.crash()
    if broker.is_foreign:
        # Its operator finds out.
        broker.crash()
        broker.epochs, broker.log, broker.is_foreign = [], [], False
    broker.cut_controllers.clear()
    broker.cut_brokers.clear()
    broker.unheard_by.clear()
    if broker.is_frozen:
        broker.thaw()
    broker.start()
    broker.fine_since_ms = world.now_ms
    broker.next_requests.clear()
    broker.next_notices.clear()
    broker.next_answers = broker.lags_until_ms = broker.mute_until_ms = 0
