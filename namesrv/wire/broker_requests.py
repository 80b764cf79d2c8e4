"""Requests of brokers: registration, unregistration, heartbeats, data versions, the members of a set.

Nothing is decided here but what each request makes of missing fields (docs/protocol/namesrv.md 2). A long registration
or unregistration is answered when the cooperative runner is through with it.
"""

from collections.abc import Awaitable, Callable
from typing import Any, Final

from msgspec import UNSET
from msgspec.structs import replace

from namesrv.core import routes
from namesrv.core.registration.body import INFLATED_BYTES_MAX, decode_registration, is_zlib
from namesrv.core.registration.registration import (
    HEARTBEAT_TIMEOUT_MS_DEFAULT,
    HEARTBEAT_TIMEOUT_MS_MAX,
    MasterAddresses,
    Registration,
)
from namesrv.core.route_state import RouteState
from namesrv.core.tables.live_table import LiveKey
from namesrv.core.values.cooperative import BATCH_TOPICS, CooperativeTask, run_to_completion
from namesrv.core.values.effects import HeartbeatKind, RouteOutcome
from namesrv.refusals import FieldInvalid, FieldMissing, NameTooLong
from namesrv.settings.durable_settings import DurableSettings
from namesrv.wire.cooperative_runner import CooperativeRunner
from remoting.clock import Clock
from remoting.protocol.addresses import is_address, is_name
from remoting.protocol.codec import decode_body, decode_fields, encode_fields
from remoting.protocol.codes import RequestCode
from remoting.protocol.command import RemotingCommand
from remoting.protocol.fastjson import Dialect, encode
from remoting.protocol.plain_text import is_plain
from remoting.protocol.shapes.namesrv import (
    ORDER_TOPIC_CONFIG,
    BrokerIdentityHeader,
    BrokerMemberGroup,
    BrokerNameHeader,
    GetBrokerMemberGroupBody,
    KvTable,
    RegisterBrokerRequestHeader,
    RegisterTopicBody,
    TopicHeader,
)
from remoting.protocol.shapes.route import DataVersion
from remoting.server.observer import Peer

#: A longer registration is worked on in slices; 10,000 topics have 1.8 MB.
LARGE_BODY_BYTES: Final = 64 * 1024

Answer = RemotingCommand | Awaitable[RemotingCommand]


class BrokerRequestHandler:
    def __init__(
        self,
        state: RouteState,
        settings: DurableSettings,
        clock: Clock,
        runner: CooperativeRunner,
        perform: Callable[[RouteOutcome[Any]], None],
    ) -> None:
        """Pass every outcome to `perform`, which runs its effects once the reply has left."""
        self._state = state
        self._settings = settings
        self._clock = clock
        self._runner = runner
        self._perform = perform

    def register(self, request: RemotingCommand, connection: Peer) -> Answer:
        """Register a broker with its topics, or refresh it; raises FieldMissing, FieldInvalid or NameTooLong."""
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
            network=connection.network,
            is_late=connection.is_lost,
            version=request.version,
            body_bytes=len(request.body),
        )
        steps = self._registration_steps(registration, request.body, header, connection)
        try:
            # An unchanged registration, as nearly all are, ends here.
            next(steps)
        except StopIteration as done:
            return self._registration_response(request, done.value)
        if header.compressed or is_zlib(request.body):
            # A few compressed bytes may become this many.
            return self._register_large(request, steps, connection, INFLATED_BYTES_MAX)
        if len(request.body) > LARGE_BODY_BYTES:
            return self._register_large(request, steps, connection, len(request.body))
        return self._registration_response(request, run_to_completion(steps))

    async def _register_large(
        self,
        request: RemotingCommand,
        steps: CooperativeTask[RouteOutcome[MasterAddresses]],
        connection: Peer,
        size_bytes: int,
    ) -> RemotingCommand:
        return self._registration_response(request, await self._runner.run(steps, connection.id, size_bytes))

    def _registration_response(
        self, request: RemotingCommand, outcome: RouteOutcome[MasterAddresses]
    ) -> RemotingCommand:
        self._perform(outcome)
        return request.reply(ext_fields=encode_fields(outcome.reply), body=self._order_topics())

    def _registration_steps(
        self,
        registration: Registration,
        body: bytes,
        header: RegisterBrokerRequestHeader,
        connection: Peer,
        *,
        is_whole: bool = False,
    ) -> CooperativeTask[RouteOutcome[MasterAddresses]]:
        previous = None if is_whole or header.compressed else self._state.previous_registration(registration)
        if previous is not None and previous.reported.is_unchanged(body, header.body_crc32):
            return self._state.register_unchanged(registration, self._clock.now_ms())
        # The body is not read before its turn comes, and not at all if its connection is lost by then.
        yield
        if connection.is_lost:
            return self._state.ignore_stale(registration)
        decoded = yield from decode_registration(
            body,
            crc32=header.body_crc32,
            compressed=header.compressed,
            version=registration.version,
            unix_ms=self._clock.unix_ms(),
            previous=previous,
        )
        whole = replace(registration, **decoded._asdict(), base=previous)
        outcome = yield from self._state.registration_steps(whole, self._clock.now_ms, lambda: connection.is_lost)
        if outcome is None:
            # What was read is the difference to a registration that is not in force any more.
            return (yield from self._registration_steps(registration, body, header, connection, is_whole=True))
        return outcome

    def _order_topics(self) -> bytes:
        if not self._settings.config.return_order_topic_config_to_broker:
            return b""
        table = self._settings.kv.namespace(ORDER_TOPIC_CONFIG)
        return b"" if table is None else encode(KvTable(table=dict(table)), Dialect.STANDARD)

    def unregister(self, request: RemotingCommand, connection: Peer) -> Answer:
        header = decode_fields(BrokerIdentityHeader, request.ext_fields)
        cluster, key = _identity(RequestCode.UNREGISTER_BROKER, header)
        steps = self._state.unregistration_steps(cluster, key, connection.id, self._clock.now_ms())
        if len(self._state.tables.topics.of_broker(key.broker_name)) > BATCH_TOPICS:
            return self._unregister_large(request, steps)
        self._perform(run_to_completion(steps))
        return request.reply()

    async def _unregister_large(
        self, request: RemotingCommand, steps: CooperativeTask[RouteOutcome[None]]
    ) -> RemotingCommand:
        self._perform(await self._runner.run_first(steps))
        return request.reply()

    def heartbeat(self, request: RemotingCommand, _: Peer) -> Answer:
        """Refresh a broker; one that is not registered is ignored."""
        header = decode_fields(BrokerIdentityHeader, request.ext_fields)
        cluster, key = self._sender(RequestCode.BROKER_HEARTBEAT, header)
        self._perform(self._state.heartbeat(cluster, key, HeartbeatKind.HEARTBEAT, self._clock.now_ms()))
        return request.reply()

    def query_data_version(self, request: RemotingCommand, connection: Peer) -> Answer:
        """Refresh a broker, and answer whether its topics differ from those registered."""
        header = decode_fields(BrokerIdentityHeader, request.ext_fields)
        cluster, key = self._sender(RequestCode.QUERY_DATA_VERSION, header)
        theirs = decode_body(DataVersion, request.body) if request.body else None
        outcome = self._state.query_data_version(cluster, key, connection.id, self._clock.now_ms())
        self._perform(outcome)
        stored = outcome.reply
        return request.reply(
            ext_fields={"changed": "true" if stored is None or stored != theirs else "false"},
            body=b"" if stored is None else encode(stored, Dialect.STANDARD),
        )

    def _sender(self, code: RequestCode, header: BrokerIdentityHeader) -> tuple[str, LiveKey]:
        """Return who sent a sign of life; Java needs no broker name for it, then whoever has the address is meant."""
        if header.cluster_name and header.broker_addr and not header.broker_name:
            found = self._state.tables.live.at_address(header.cluster_name, header.broker_addr)
            return header.cluster_name, found or LiveKey("", header.broker_addr)
        return _identity(code, header)

    def register_topic(self, request: RemotingCommand, _: Peer) -> RemotingCommand:
        """Register a single topic of brokers that are registered already."""
        header = decode_fields(TopicHeader, request.ext_fields)
        body = decode_body(RegisterTopicBody, request.body) if request.body else RegisterTopicBody()
        if header.topic:
            _check_length(RequestCode.REGISTER_TOPIC_IN_NAMESRV, "topic", header.topic)
            if not is_plain(header.topic):
                raise FieldInvalid(RequestCode.REGISTER_TOPIC_IN_NAMESRV.name, "topic", header.topic)
            self._perform(self._state.register_topic(header.topic, body.queue_datas))
        return request.reply()

    def member_group(self, request: RemotingCommand, _: Peer) -> RemotingCommand:
        """Answer the members of a broker set; none where the set is unknown."""
        header = decode_fields(BrokerNameHeader, request.ext_fields)
        broker_set = self._state.tables.brokers.get(header.broker_name or "")
        group = BrokerMemberGroup(
            broker_addrs=routes.broker_data(broker_set).broker_addrs if broker_set else {},
            broker_name=UNSET if header.broker_name is None else header.broker_name,
            cluster=UNSET if header.cluster_name is None else header.cluster_name,
        )
        # Java does not clear the text that every new answer has.
        return request.reply(
            remark="not set any response code",
            body=encode(GetBrokerMemberGroupBody(broker_member_group=group), Dialect.BARE_INTEGER_KEYS),
        )


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
