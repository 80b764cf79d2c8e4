"""Request code -> handler: decode the shape, call the state, encode the reply.

Answers to `DefaultRequestProcessor` and `ClientRequestProcessor`. Nothing is decided here but what each command makes
of missing fields (docs/protocol/namesrv.md 2). Commands that change KV or configuration return an awaitable, because
their answer waits for the disk, and so do long registrations, which are taken in slices.
"""

from collections.abc import Awaitable, Callable
from typing import Any, Final

from msgspec.structs import replace

from namesrv.core.registration.body import INFLATED_BYTES_MAX, decode_registration, is_zlib
from namesrv.core.registration.registration import HEARTBEAT_TIMEOUT_MS_DEFAULT, HEARTBEAT_TIMEOUT_MS_MAX, Registration
from namesrv.core.route_query_counters import RouteCounts
from namesrv.core.route_state import MasterAddresses, RouteState
from namesrv.core.routes import in_zone
from namesrv.core.tables.live_table import LiveKey
from namesrv.core.values.cooperative import BATCH_TOPICS, CooperativeTask, run_to_completion
from namesrv.core.values.effects import BeatKind, Outcome
from namesrv.refusals import CodeNotSupported, FieldInvalid, FieldMissing, NameTooLong, NotReady, TopicNotExist
from namesrv.settings.durable_settings import Settings
from namesrv.wire import queries
from namesrv.wire.cooperative_runner import Slices
from remoting.clock import Clock
from remoting.protocol.addresses import is_address, is_name
from remoting.protocol.codec import decode_body, decode_fields, encode_fields
from remoting.protocol.codes import VERSION_4_9_4, RequestCode
from remoting.protocol.command import RemotingCommand
from remoting.protocol.fastjson import Dialect, encode
from remoting.protocol.shapes.namesrv import (
    BrokerIdentityHeader,
    BrokerNameHeader,
    GetRouteInfoRequestHeader,
    KvConfigHeader,
    KvTable,
    RegisterBrokerRequestHeader,
    RegisterBrokerResponseHeader,
    RegisterTopicBody,
    TopicHeader,
)
from remoting.protocol.shapes.route import DataVersion, TopicRouteData
from remoting.server.body_limits import UNLIMITED, BodyLimits
from remoting.server.observer import Peer
from remoting.server.response_cache import PreparedAnswer

#: A registration with a longer body is taken in slices; 10,000 topics have 1.8 MB.
LARGE_BODY_BYTES: Final = 64 * 1024

#: The longest body of each request, in bytes: of a registration as long as a frame may be, of a single topic or the
#: changed properties as long as they can need, of the others, which have some hundred bytes or none, no more than that.
BODY_LIMITS: Final = BodyLimits(
    other=4 * 1024,
    by_code={
        RequestCode.REGISTER_BROKER: UNLIMITED,
        RequestCode.REGISTER_TOPIC_IN_NAMESRV: 64 * 1024,
        RequestCode.UPDATE_NAMESRV_CONFIG: 64 * 1024,
    },
)

Answer = RemotingCommand | PreparedAnswer | Awaitable[RemotingCommand]


class Handlers:
    """Answers every request of a NameServer."""

    def __init__(
        self,
        state: RouteState,
        settings: Settings,
        clock: Clock,
        perform: Callable[[Outcome[Any]], None],
    ) -> None:
        self._state = state
        self._settings = settings
        self._clock = clock
        #: Told of every outcome; carries out the effects once the reply has left.
        self._perform = perform
        #: Where long work is done.
        self.slices = Slices()
        self._started_ms = clock.now_ms()
        self.route_counts = RouteCounts()
        self._queries = queries.Queries(state, settings)
        self._table: dict[int, Callable[[RemotingCommand, Peer], Answer]] = {
            RequestCode.PUT_KV_CONFIG: self._put_kv,
            RequestCode.DELETE_KV_CONFIG: self._delete_kv,
            RequestCode.REGISTER_BROKER: self._register_broker,
            RequestCode.UNREGISTER_BROKER: self._unregister_broker,
            RequestCode.GET_ROUTEINFO_BY_TOPIC: self._route,
            RequestCode.WIPE_WRITE_PERM_OF_BROKER: self._wipe_write_perm,
            RequestCode.DELETE_TOPIC_IN_NAMESRV: self._delete_topic,
            RequestCode.REGISTER_TOPIC_IN_NAMESRV: self._register_topic,
            RequestCode.UPDATE_NAMESRV_CONFIG: self._update_config,
            RequestCode.QUERY_DATA_VERSION: self._query_data_version,
            RequestCode.ADD_WRITE_PERM_OF_BROKER: self._add_write_perm,
            RequestCode.BROKER_HEARTBEAT: self._heartbeat,
            RequestCode.GET_BROKER_CLUSTER_INFO: self._cluster_info,
        } | {code: self._answer_query(query) for code, query in self._queries.table.items()}
        self._table |= {code: self._answer_in_slices(query) for code, query in self._queries.long.items()}

    def dispatch(self, request: RemotingCommand, connection: Peer) -> Answer:
        """Answer one request; raises RequestRefused or BodyError for what cannot be answered."""
        handler = self._table.get(request.code)
        if handler is None:
            raise CodeNotSupported(request.code)
        return handler(request, connection)

    @staticmethod
    def _answer_query(
        query: Callable[[RemotingCommand], RemotingCommand],
    ) -> Callable[[RemotingCommand, Peer], Answer]:
        return lambda request, _: query(request)

    def _answer_in_slices(
        self, query: Callable[[RemotingCommand], CooperativeTask[RemotingCommand]]
    ) -> Callable[[RemotingCommand, Peer], Answer]:
        return lambda request, peer: self.slices.do(query(request), peer.id, 0)

    def _cluster_info(self, request: RemotingCommand, peer: Peer) -> Answer:
        steps = self._queries.cluster_info(request)
        if self._state.cluster_info.takes_long:
            return self.slices.do(steps, peer.id, 0)
        return run_to_completion(steps)

    # Routes

    def _route(self, request: RemotingCommand, _: Peer) -> Answer:
        header = decode_fields(GetRouteInfoRequestHeader, request.ext_fields)
        if self._waits_for_brokers():
            self.route_counts.error += 1
            raise NotReady
        standard = header.accept_standard_json_only or request.version >= VERSION_4_9_4
        dialect = Dialect.STANDARD if standard else Dialect.BARE_INTEGER_KEYS
        topic = header.topic
        zone = (header.zone_name or "").strip() if header.zone_mode else ""
        answer: Answer | None = None
        if topic is not None:
            answer = self._zone_route(request, topic, zone) if zone else self._prepared_route(topic, dialect)
        if answer is None:
            self.route_counts.not_found += 1
            raise TopicNotExist(topic)
        return answer

    def _prepared_route(self, topic: str, dialect: Dialect) -> PreparedAnswer | None:
        answers = self._state.answers
        prepared = answers.get(topic, dialect)
        if prepared is None and (route := self._route_of(topic)):
            prepared = PreparedAnswer(encode(route, dialect), self.route_counts.found)
            answers.keep(topic, dialect, prepared)
        return prepared

    def _zone_route(self, request: RemotingCommand, topic: str, zone: str) -> RemotingCommand | None:
        route = self._route_of(topic)
        if route is None:
            return None
        # Java's zone hook encodes the filtered route anew, in its default dialect for everybody.
        body = encode(in_zone(route, zone), Dialect.BARE_INTEGER_KEYS)
        self.route_counts.found.add(len(body))
        self.route_counts.zoned += 1
        return request.reply(body=body)

    def _route_of(self, topic: str) -> TopicRouteData | None:
        ordered = self._settings.config.order_message_enable
        return self._state.route_of(topic, self._settings.kv.order_conf(topic) if ordered else None)

    def _waits_for_brokers(self) -> bool:
        config = self._settings.config
        if not config.need_wait_for_service:
            return False
        waited_ms = self._clock.now_ms() - self._started_ms
        return waited_ms < config.wait_for_service_seconds * 1000

    # Brokers

    def _register_broker(self, request: RemotingCommand, connection: Peer) -> Answer:
        header = decode_fields(RegisterBrokerRequestHeader, request.ext_fields)
        if header.broker_id is None:
            raise FieldMissing(RequestCode.REGISTER_BROKER.name, "brokerId")
        cluster, key = _identity(RequestCode.REGISTER_BROKER, header)
        _check_shown(header)
        timeout_ms = header.heartbeat_timeout_millis
        registration = Registration(
            cluster=cluster,
            broker_name=key.broker_name,
            broker_id=header.broker_id,
            address=key.address,
            ha_server_addr=header.ha_server_addr or "",
            zone_name=header.zone_name,
            enable_acting_master=header.enable_acting_master,
            heartbeat_timeout_ms=HEARTBEAT_TIMEOUT_MS_DEFAULT
            if timeout_ms is None
            else min(timeout_ms, HEARTBEAT_TIMEOUT_MS_MAX),
            connection_id=connection.id,
            is_late=connection.is_lost,
            version=request.version,
            body_bytes=len(request.body),
        )
        steps = self._register(registration, request.body, header, connection)
        try:
            # One that only repeats what was said before, as nearly all do, is through with this.
            next(steps)
        except StopIteration as done:
            return self._registered(request, done.value)
        if header.compressed or is_zlib(request.body):
            # Whoever compresses may have so much in a few bytes.
            return self._register_large(request, steps, connection, INFLATED_BYTES_MAX)
        if len(request.body) > LARGE_BODY_BYTES:
            return self._register_large(request, steps, connection, len(request.body))
        return self._registered(request, run_to_completion(steps))

    async def _register_large(
        self,
        request: RemotingCommand,
        steps: CooperativeTask[Outcome[MasterAddresses]],
        connection: Peer,
        size_bytes: int,
    ) -> RemotingCommand:
        return self._registered(request, await self.slices.do(steps, connection.id, size_bytes))

    def _registered(self, request: RemotingCommand, outcome: Outcome[MasterAddresses]) -> RemotingCommand:
        self._perform(outcome)
        master = RegisterBrokerResponseHeader(
            ha_server_addr=outcome.reply.ha_server_addr, master_addr=outcome.reply.master_addr
        )
        return request.reply(ext_fields=encode_fields(master), body=self._order_topics())

    def _register(
        self,
        registration: Registration,
        body: bytes,
        header: RegisterBrokerRequestHeader,
        connection: Peer,
        *,
        is_whole: bool = False,
    ) -> CooperativeTask[Outcome[MasterAddresses]]:
        before = None if is_whole or header.compressed else self._state.said_before(registration)
        if before is not None and before.said.repeats(body, header.body_crc32):
            return self._state.register_again(registration, self._clock.now_ms())
        # Nothing of the body is read before its turn comes, and nothing at all if nobody waits for it any more.
        yield
        if connection.is_lost:
            return self._state.leave_aside(registration)
        said = yield from decode_registration(
            body,
            crc32=header.body_crc32,
            compressed=header.compressed,
            version=registration.version,
            unix_ms=self._clock.unix_ms(),
            before=before,
        )
        decoded = replace(
            registration,
            data_version=said.data_version,
            topics=said.topics,
            mappings=said.mappings,
            filter_servers=said.filter_servers,
            ignored_topics=said.ignored_topics,
            said=said.said,
            base=before,
        )
        outcome = yield from self._state.registration_steps(decoded, self._clock.now_ms, lambda: connection.is_lost)
        if outcome is None:
            # What was read is the difference to something that holds no longer.
            return (yield from self._register(registration, body, header, connection, is_whole=True))
        return outcome

    def _order_topics(self) -> bytes:
        if not self._settings.config.return_order_topic_config_to_broker:
            return b""
        table = self._settings.kv.order_topics()
        return b"" if table is None else encode(KvTable(table=dict(table)), Dialect.STANDARD)

    def _unregister_broker(self, request: RemotingCommand, connection: Peer) -> Answer:
        header = decode_fields(BrokerIdentityHeader, request.ext_fields)
        cluster, key = _identity(RequestCode.UNREGISTER_BROKER, header)
        steps = self._state.unregistration_steps(cluster, key, connection.id, self._clock.now_ms())
        if len(self._state.tables.topics.topics_of(key.broker_name)) > BATCH_TOPICS:
            return self._unregister_large(request, steps)
        self._perform(run_to_completion(steps))
        return request.reply()

    async def _unregister_large(
        self, request: RemotingCommand, steps: CooperativeTask[Outcome[None]]
    ) -> RemotingCommand:
        self._perform(await self.slices.do_first(steps))
        return request.reply()

    def _heartbeat(self, request: RemotingCommand, _: Peer) -> Answer:
        header = decode_fields(BrokerIdentityHeader, request.ext_fields)
        cluster, key = self._sender(RequestCode.BROKER_HEARTBEAT, header)
        self._perform(self._state.heartbeat(cluster, key, BeatKind.HEARTBEAT, self._clock.now_ms()))
        return request.reply()

    def _query_data_version(self, request: RemotingCommand, connection: Peer) -> Answer:
        header = decode_fields(BrokerIdentityHeader, request.ext_fields)
        cluster, key = self._sender(RequestCode.QUERY_DATA_VERSION, header)
        theirs = decode_body(DataVersion, request.body) if request.body else None
        outcome = self._state.query_data_version(cluster, key, theirs, connection.id, self._clock.now_ms())
        self._perform(outcome)
        stored = outcome.reply.data_version
        return request.reply(
            ext_fields={"changed": "true" if outcome.reply.changed else "false"},
            body=b"" if stored is None else encode(stored, Dialect.STANDARD),
        )

    def _sender(self, code: RequestCode, header: BrokerIdentityHeader) -> tuple[str, LiveKey]:
        """Return who sent a sign of life; Java needs no broker name for it, then whoever has the address is meant."""
        if header.cluster_name and header.broker_addr and not header.broker_name:
            found = self._state.tables.live.at_address(header.cluster_name, header.broker_addr)
            return header.cluster_name, found or LiveKey("", header.broker_addr)
        return _identity(code, header)

    # What operators change

    def _wipe_write_perm(self, request: RemotingCommand, _: Peer) -> Answer:
        header = decode_fields(BrokerNameHeader, request.ext_fields)
        outcome = self._state.wipe_write_perm(header.broker_name or "")
        self._perform(outcome)
        return request.reply(ext_fields={"wipeTopicCount": str(outcome.reply)})

    def _add_write_perm(self, request: RemotingCommand, _: Peer) -> Answer:
        header = decode_fields(BrokerNameHeader, request.ext_fields)
        outcome = self._state.add_write_perm(header.broker_name or "")
        self._perform(outcome)
        return request.reply(ext_fields={"addTopicCount": str(outcome.reply)})

    def _delete_topic(self, request: RemotingCommand, _: Peer) -> Answer:
        header = decode_fields(TopicHeader, request.ext_fields)
        self._perform(self._state.delete_topic(header.topic or "", header.cluster_name))
        return request.reply()

    def _register_topic(self, request: RemotingCommand, _: Peer) -> Answer:
        header = decode_fields(TopicHeader, request.ext_fields)
        body = decode_body(RegisterTopicBody, request.body) if request.body else RegisterTopicBody()
        if header.topic:
            _check_length(RequestCode.REGISTER_TOPIC_IN_NAMESRV, "topic", header.topic)
            self._perform(self._state.register_topic(header.topic, body.queue_datas))
        return request.reply()

    async def _put_kv(self, request: RemotingCommand, _: Peer) -> RemotingCommand:
        header = decode_fields(KvConfigHeader, request.ext_fields)
        await self._settings.put_kv(header.namespace, header.key, header.value)
        return request.reply()

    async def _delete_kv(self, request: RemotingCommand, _: Peer) -> RemotingCommand:
        header = decode_fields(KvConfigHeader, request.ext_fields)
        await self._settings.delete_kv(header.namespace, header.key)
        return request.reply()

    async def _update_config(self, request: RemotingCommand, _: Peer) -> RemotingCommand:
        if request.body:
            await self._settings.update_config(request.body)
        return request.reply()


def _identity(code: RequestCode, header: BrokerIdentityHeader | RegisterBrokerRequestHeader) -> tuple[str, LiveKey]:
    """Return cluster and member of a broker's own request; raises FieldMissing or NameTooLong."""
    for field, value in (
        ("clusterName", header.cluster_name),
        ("brokerName", header.broker_name),
        ("brokerAddr", header.broker_addr),
    ):
        if not value:
            raise FieldMissing(code.name, field)
        _check_length(code, field, value)
    assert header.cluster_name and header.broker_name and header.broker_addr, "checked above"  # noqa: PT018
    return header.cluster_name, LiveKey(header.broker_name, header.broker_addr)


def _check_shown(header: RegisterBrokerRequestHeader) -> None:
    """Raise FieldInvalid for what would be sent to every client and can be no broker's."""
    for field, text, is_right in (
        ("clusterName", header.cluster_name, is_name),
        ("brokerName", header.broker_name, is_name),
        ("brokerAddr", header.broker_addr, is_address),
        ("haServerAddr", header.ha_server_addr, is_address),
        ("__ZONE_NAME", header.zone_name, is_name),
    ):
        if text and not is_right(text):
            raise FieldInvalid(RequestCode.REGISTER_BROKER.name, field, text)


def _check_length(code: RequestCode, field: str, name: str) -> None:
    if len(name) > NameTooLong.CHARS_MAX:
        raise NameTooLong(code.name, field, len(name))
