"""What NameServers, brokers and clients answer a controller in virtual time: results of its requests without bytes.

Stands for `remoting.admin.client.AdminClient`, whose requests it takes as they are. Encoding and decoding answers would
take several times as long; `fakes/scaled_topic.py` does it.
"""

import asyncio

import msgspec

from controller.scaling.execution.broker_views import HALF_TOPIC, ROCKSDB_HALF_TOPIC
from controller.scaling.resize.operation import QueueCounts
from remoting.admin.brokers import BrokerRuntime, DelayLevel
from remoting.admin.groups import GroupClient, GroupConnections
from remoting.admin.locks import LockRequestBody
from remoting.admin.message_queues import MessageQueue
from remoting.admin.offset_table import GroupOffsets
from remoting.admin.offsets import OffsetCommit
from remoting.admin.route_fetches import ClientFetch, ClientFetches
from remoting.admin.routes import ClusterBrokers, RoutedBrokerSet, TopicRoute
from remoting.admin.topics import QueueOffsets, TopicDefinition
from remoting.client import send_always
from remoting.protocol.codes import BrokerRequestCode, RequestCode, ResponseCode
from remoting.protocol.errors import ConnectionRefused, InvokeTimeout, NotSupported, Refused
from remoting.protocol.shapes.broker_clients import ProducerInfoBody
from remoting.protocol.shapes.broker_views import HaStatusView
from remoting.protocol.shapes.route import QueueData
from scaling_simulation.brokers import TOPIC, UNIX_MS

CLUSTER = "DefaultCluster"
#: An answer takes up to so long while rounds are slow.
SLOW_S = 0.6
#: A write that is slow comes up to so much later.
DELAY_MS = 6_000
#: A transaction is given up after 66 s.
TRANSACTION_CHECKS = {
    "transactionTimeOut": "6000", "transactionCheckMax": "5", "transactionCheckInterval": "10000",
}  # fmt: skip


class Admin:
    """The requests of one controller."""

    def __init__(self, controller, limits):
        self.controller, self.world = controller, controller.world
        self.timeout_ms = limits.timeout_ms

    async def call(self, address, wanted, before_send=send_always):
        control, world, request = self.controller, self.world, wanted.request
        before_send()
        if world.now_ms < control.slow_until_ms:
            await asyncio.sleep(world.random.random() * SLOW_S)
            before_send()
        peer = world.peers[address]
        if not peer.is_up:
            raise ConnectionRefused(address, "nobody listens")
        if request.code in WRITES:
            return await self.write(peer, request)
        if control.is_lost(peer, request.code):
            await self.time_out(address)
        return ANSWERS[request.code](peer, request.ext_fields or {})

    async def time_out(self, address):
        await asyncio.sleep(self.timeout_ms / 1000)
        raise InvokeTimeout(address, self.timeout_ms)

    async def write(self, peer, request):
        control, world = self.controller, self.world
        world.judge.writes(peer, request)
        if world.now_ms < control.loses_until_ms:
            await self.time_out(peer.address)
        is_late = world.now_ms < control.delays_until_ms and request.code in DELAYED
        if is_late:
            # It comes whatever becomes of the controller.
            after_ms = 1 + world.random.randrange(DELAY_MS)
            world.later(after_ms, arrive, peer, peer.boot_ms, request, control.operation.phase)
            await asyncio.sleep(min(after_ms, self.timeout_ms) / 1000)
            found = None
        else:
            found = WRITES[request.code](peer, request)
        await control.dies_at(control.WITHIN_ACTIONS)
        if world.now_ms < control.loses_answers_until_ms or (is_late and after_ms > self.timeout_ms):
            await self.time_out(peer.address)
        return found


def arrive(peer, boot_ms, request, phase):
    if peer.is_up and peer.boot_ms == boot_ms and peer.brokers.master is peer:
        judge = peer.brokers.world.judge
        if judge.operation.phase is not phase:
            judge.late_ms = judge.world.now_ms
        WRITES[request.code](peer, request)


# NameServers


def route(server, _):
    if not server.counts:
        raise Refused(ResponseCode.TOPIC_NOT_EXIST, None)
    return TopicRoute(
        queues={
            name: QueueData(
                broker_name=name,
                read_queue_nums=each.read,
                write_queue_nums=each.write,
                perm=each.perm,
                topic_sys_flag=0,
            )
            for name, each in server.counts.items()
        },
        broker_sets={name: each for name, each in clusters(server, _).broker_sets.items() if name in server.counts},
        order_conf=server.order_conf if server.world.settings.gives_order_conf else None,
        static_broker_names=frozenset(),
    )


def clusters(server, _):
    sets = {
        name: RoutedBrokerSet(cluster=CLUSTER, broker_name=name, addresses=addresses)
        for name, addresses in server.addresses.items()
    }
    return ClusterBrokers(broker_sets=sets, clusters={CLUSTER: frozenset(sets)})


def put_order_conf(server, request):
    server.order_conf = request.ext_fields["value"] if request.code == RequestCode.PUT_KV_CONFIG else None


def route_fetches(server, _):
    if not server.world.settings.tells_fetches:
        raise NotSupported(ResponseCode.REQUEST_CODE_NOT_SUPPORTED, None)
    if server.watched_ms is None:
        server.watched_ms = server.world.now_ms
    server.look()
    return ClientFetches(
        watched_before_ms=server.present_ms - server.watched_ms,
        write_queue_nums=server.present[0],
        is_complete=True,
        fetches=tuple(
            ClientFetch(
                host=host,
                has_proxy=False,
                is_present=number == server.number,
                closed_ms=None if closed_ms is None else server.world.now_ms - closed_ms,
            )
            for host, (number, closed_ms) in server.fetches.items()
        ),
    )


# Brokers


def definition(replica, _):
    counts = replica.counts
    return counts and TopicDefinition(
        topic=TOPIC, read_queue_nums=counts.read, write_queue_nums=counts.write, perm=counts.perm,
        is_order=replica.brokers.world.settings.is_ordered,
    )  # fmt: skip


def update_topic(replica, request):
    fields = request.ext_fields
    counts = QueueCounts(int(fields["readQueueNums"]), int(fields["writeQueueNums"]), int(fields["perm"]))
    brokers = _led(replica)
    brokers.world.judge.changes_counts(brokers, counts)
    brokers.set_counts(counts)


def runtime(replica, _):
    brokers = replica.brokers
    return BrokerRuntime(
        version="V5_5_0",
        boot_unix_ms=UNIX_MS + replica.boot_ms,
        commit_log_min_offset=0,
        commit_log_max_offset=len(brokers.log),
        dispatch_behind_bytes=len(brokers.log) - brokers.dispatched,
        put_tps=None,
        delay_levels={
            level: DelayLevel(delivered_offset=brokers.delivered[level], max_offset=len(waiting))
            for level, waiting in brokers.delayed.items()
            if brokers.delivered[level]
        },
    )


def ha_status(replica, _):
    is_master = replica.brokers.master is replica
    return HaStatusView(is_master=is_master)


def max_offset(replica, fields):
    brokers = replica.brokers
    if fields["topic"] in (HALF_TOPIC, ROCKSDB_HALF_TOPIC):
        is_kept_there = (fields["topic"] == HALF_TOPIC) != brokers.world.settings.uses_rocksdb
        return brokers.pending["half"] if is_kept_there else 0
    return len(brokers.queues.get(int(fields["queueId"]), ()))


def min_offset(replica, fields):
    return replica.brokers.first.get(int(fields["queueId"]), 0) if fields["topic"] == TOPIC else 0


def options(replica, _):
    uses_rocksdb = str(replica.brokers.world.settings.uses_rocksdb).lower()
    return {"transRocksDBEnable": uses_rocksdb, **TRANSACTION_CHECKS}


def schedule_ends(replica, _):
    return {
        MessageQueue(topic="", broker_name="", queue_id=level - 1): QueueOffsets(
            max_offset=len(waiting), min_offset=0, last_stored_unix_ms=None
        )
        for level, waiting in replica.brokers.delayed.items()
    }


def committed_offset(replica, fields):
    return replica.offsets.get(fields["consumerGroup"], {}).get(int(fields["queueId"]))


def commit_offset(replica, request):
    fields = request.ext_fields
    _led(replica).commit(fields["consumerGroup"], int(fields["queueId"]), int(fields["commitOffset"]))
    return OffsetCommit.STORED


class OffsetTable:
    """All offsets of a broker, as they were when it was asked."""

    def __init__(self, replica, _):
        self.rows = [GroupOffsets(TOPIC, group, dict(offsets)) for group, offsets in replica.offsets.items()]

    def of_topics(self, _):
        return self.rows


def groups_of_topic(replica, _):
    return tuple(sorted(replica.offsets.keys() | {each.group.name for each in replica.consumers() if each.SUBSCRIBES}))


def connections(replica, fields):
    members = [each for each in replica.consumers() if each.group.name == fields["consumerGroup"]]
    if not members:
        return None
    return GroupConnections(
        clients=tuple(GroupClient(client_id=each.id, address=None, language=None, version=None) for each in members),
        consume_type=members[0].CONSUME_TYPE,
        message_model=members[0].MESSAGE_MODEL,
        subscriptions={TOPIC: None} if members[0].SUBSCRIBES else {},
    )


def running(replica, fields):
    member = replica.heard.get(fields["clientId"])
    if member is None:
        raise Refused(ResponseCode.SYSTEM_ERROR, "not connected")
    member.group.is_shown(member.world.now_ms)
    return member.running()


def lock(replica, request):
    body = msgspec.json.decode(request.body, type=LockRequestBody)
    locked = (each for each in body.mq_set if _led(replica).lock(body.consumer_group, each.queue_id, body.client_id))
    return frozenset(MessageQueue(topic=TOPIC, broker_name=each.broker_name, queue_id=each.queue_id) for each in locked)


def unlock(replica, request):
    body = msgspec.json.decode(request.body, type=LockRequestBody)
    for each in body.mq_set:
        _led(replica).unlock(body.consumer_group, each.queue_id, body.client_id)


def producers(replica, _):
    return {"p": [ProducerInfoBody(client_id=each.id, remote_ip=f"/{each.id}:40000") for each in replica.producers()]}


def _led(replica):
    """Return the set of a master; slaves refuse to be changed."""
    if replica.brokers.master is not replica:
        raise Refused(ResponseCode.SYSTEM_ERROR, "a slave")
    return replica.brokers


ANSWERS = {
    RequestCode.GET_ROUTEINFO_BY_TOPIC: route,
    RequestCode.GET_BROKER_CLUSTER_INFO: clusters,
    RequestCode.GET_BROKER_CONFIG: options,
    RequestCode.GET_KV_CONFIG: lambda server, _: server.order_conf,
    RequestCode.WATCH_ROUTE_FETCHES: route_fetches,
    BrokerRequestCode.GET_TOPIC_CONFIG: definition,
    BrokerRequestCode.GET_BROKER_RUNTIME_INFO: runtime,
    BrokerRequestCode.GET_BROKER_HA_STATUS: ha_status,
    BrokerRequestCode.GET_MAX_OFFSET: max_offset,
    BrokerRequestCode.GET_MIN_OFFSET: min_offset,
    BrokerRequestCode.GET_TOPIC_STATS_INFO: schedule_ends,
    BrokerRequestCode.QUERY_CONSUMER_OFFSET: committed_offset,
    BrokerRequestCode.GET_ALL_CONSUMER_OFFSET: OffsetTable,
    BrokerRequestCode.QUERY_TOPIC_CONSUME_BY_WHO: groups_of_topic,
    BrokerRequestCode.GET_CONSUMER_CONNECTION_LIST: connections,
    BrokerRequestCode.GET_CONSUMER_RUNNING_INFO: running,
    BrokerRequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: lambda replica, _: replica.brokers.world.group_names,
    BrokerRequestCode.GET_ALL_PRODUCER_INFO: producers,
    BrokerRequestCode.GET_TIMER_METRICS: lambda replica, _: replica.brokers.pending["timed"],
}
WRITES = {
    RequestCode.PUT_KV_CONFIG: put_order_conf,
    RequestCode.DELETE_KV_CONFIG: put_order_conf,
    BrokerRequestCode.UPDATE_AND_CREATE_TOPIC: update_topic,
    BrokerRequestCode.UPDATE_CONSUMER_OFFSET: commit_offset,
    BrokerRequestCode.LOCK_BATCH_MQ: lock,
    BrokerRequestCode.UNLOCK_BATCH_MQ: unlock,
}
#: Writes that may come later than their answer is waited for.
DELAYED = {BrokerRequestCode.UPDATE_AND_CREATE_TOPIC, BrokerRequestCode.UPDATE_CONSUMER_OFFSET}
#: What can be lost of the answers of a set, and which codes that is.
LOST = (
    {BrokerRequestCode.GET_TOPIC_CONFIG},
    {BrokerRequestCode.GET_MAX_OFFSET, BrokerRequestCode.GET_MIN_OFFSET},
    {BrokerRequestCode.GET_ALL_CONSUMER_OFFSET},
    {BrokerRequestCode.QUERY_TOPIC_CONSUME_BY_WHO, BrokerRequestCode.GET_CONSUMER_CONNECTION_LIST},
    {BrokerRequestCode.GET_TIMER_METRICS, BrokerRequestCode.GET_TOPIC_STATS_INFO},
    {BrokerRequestCode.GET_BROKER_RUNTIME_INFO},
)
