"""Every request of a controller: decode the shape, call the control, encode the reply (docs/protocol/controller.md 1).

Answers to `ControllerRequestProcessor`. Bodies are standard JSON, which fastjson reads as well as its own.
"""

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterable
from functools import lru_cache
from sys import intern
from typing import Final

import msgspec

from controller.config import ControllerConfig
from controller.decisions.election import ElectionResult
from controller.decisions.membership import Applicant, Cleaning, Registrant, WantedSyncStateSet
from controller.failover.election_runner import ElectionOutcome
from controller.failover.requests import BrokerRequests
from controller.failure_detection.detector import SILENCE_MS_MIN
from controller.failure_detection.heartbeats import (
    HEARTBEAT_TIMEOUT_MS_DEFAULT,
    PRIORITY_LOWEST,
    UNKNOWN,
    BrokerKey,
    LastHeartbeat,
    Source,
)
from controller.refusals import (
    BrokerIdInUse,
    BrokerUnknown,
    CleaningRefused,
    MetadataUnknown,
    NotStoredNow,
    RequestInvalid,
    SetUnknown,
)
from controller.sets.broker_set import BrokerSet
from remoting.clock import Clock
from remoting.protocol.addresses import NAME_CHARS_MAX, ip_of, is_address, is_name, named_addresses, split_address
from remoting.protocol.codec import decode_body, decode_fields, encode_fields
from remoting.protocol.codes import CONTROLLER_REQUESTS, RequestCode, ResponseCode
from remoting.protocol.command import RemotingCommand
from remoting.protocol.errors import BodyError, CodeNotSupported
from remoting.protocol.fastjson import Dialect, encode
from remoting.protocol.shapes import controller as shapes
from remoting.protocol.shapes.controller import MasterHeader, SyncStateSet
from remoting.server.limits import BodyLimits
from remoting.server.observer import Peer
from remoting.server.response_cache import PreparedResponse
from remoting.server.statistics import Histogram
from serving.config.stored_config import StoredConfig
from store.store import StoreError

#: So many brokers have their checked key and address cached.
_SENDERS_MAX: Final = 20_000

#: Most ids in one list; a set has some brokers.
IDS_MAX: Final = 1_000

_IDS: Final = re.compile(r"[0-9]{1,18}")


def listed_ids(text: str) -> frozenset[int]:
    """Return the broker ids of a list with a ';' between; raises CleaningRefused."""
    parts = [part.strip() for part in text.split(";") if part.strip()]
    if len(parts) > IDS_MAX:
        raise CleaningRefused(f"{len(parts)} ids are too many; the limit is {IDS_MAX}")
    if bad := [part for part in parts if not _IDS.fullmatch(part)]:
        raise CleaningRefused(f"{bad[0][:40]!r} is not a broker id; give numbers separated by ';'")
    return frozenset(map(int, parts))


def given(code: int, field: str, value: str | None) -> str:
    """Return a text that must be there; raises RequestInvalid."""
    if not value:
        raise RequestInvalid(f"{_request(code)} needs {field}")
    if len(value) > NAME_CHARS_MAX:
        raise RequestInvalid(f"{_request(code)}: {field} has {len(value)} characters, {NAME_CHARS_MAX} are allowed")
    if not is_name(value):
        raise RequestInvalid(f"{_request(code)}: {field} has characters that are not shown: {value!r}")
    return value


def address_field(code: int, field: str, value: str) -> str:
    if not is_address(value):
        raise RequestInvalid(f"{_request(code)}: {field} must have an address as host:port, not {value[:80]!r}")
    return value


@lru_cache(maxsize=_SENDERS_MAX)
def heartbeat_sender(
    broker_name: str | None, address: str | None, broker_id: int | None, cluster: str | None
) -> tuple[BrokerKey, str, str]:
    """Return the broker of a heartbeat, its address, and its cluster if it names one.

    Cached, as the same brokers send one each second.
    """
    code = RequestCode.BROKER_HEARTBEAT
    name = given(code, "brokerName", broker_name)
    checked = address_field(code, "brokerAddr", given(code, "brokerAddr", address))
    key = BrokerKey(name, broker_id_field(code, "brokerId", broker_id))
    return key, checked, given(code, "clusterName", cluster) if cluster else ""


def number(code: int, field: str, value: int | None) -> int:
    if value is None:
        raise RequestInvalid(f"{_request(code)} needs {field}, a whole number")
    return value


def broker_id_field(code: int, field: str, value: int | None) -> int:
    if number(code, field, value) < 0:
        raise RequestInvalid(f"{_request(code)}: {field} must not be negative, it is {value}")
    assert value is not None, "a number"
    return value


def _request(code: int) -> str:
    return f"{RequestCode(code).name} ({code})"


class ReplicaInfoCache:
    """Encoded answers by broker name, each made at the first request after a change of its set."""

    def __init__(self) -> None:
        self._ready: dict[str, PreparedResponse] = {}
        self._tally = Histogram(())

    def of(self, broker_set: BrokerSet) -> PreparedResponse:
        """Return the answer about a set as it is stored now; valid until `discard` or `clear`."""
        ready = self._ready.get(broker_set.broker_name)
        if ready is None:
            body = encoded_sync_state_set(broker_set)
            ready = PreparedResponse(body, self._tally, encode_fields(_with_master(MasterHeader(), broker_set)))
            self._ready[broker_set.broker_name] = ready
        return ready

    def discard(self, broker_name: str) -> None:
        if (ready := self._ready.pop(broker_name, None)) is not None:
            ready.invalidate()

    def clear(self) -> None:
        for ready in self._ready.values():
            ready.invalidate()
        self._ready.clear()


def _with_master(header: MasterHeader, broker_set: BrokerSet, sync_state_set_epoch: int | None = None) -> MasterHeader:
    return msgspec.structs.replace(
        header,
        master_broker_id=broker_set.master,
        master_address=broker_set.master_address,
        master_epoch=broker_set.master_epoch,
        sync_state_set_epoch=sync_state_set_epoch,
    )


def encoded_sync_state_set(broker_set: BrokerSet) -> bytes:
    members = SyncStateSet(
        sync_state_set=sorted(broker_set.sync_state_set), sync_state_set_epoch=broker_set.sync_state_set_epoch
    )
    return encode(members, Dialect.STANDARD)


#: Shortest and longest heartbeat timeout that is believed.
_TIMEOUT_MS_MIN: Final = SILENCE_MS_MIN
_TIMEOUT_MS_MAX: Final = 24 * 3600 * 1000

#: Most names in one list, and so many sets and brokers are looked at without giving others their turn.
NAMES_MAX: Final = 10_000
_WORK_MAX: Final = 500

#: The longest body of each request, in bytes: 1006 may have the names of very many sets, 1001 the ids of a large one,
#: 1009 changed properties; the others have none.
BODY_LIMITS: Final = BodyLimits(
    other=4 * 1024,
    by_code={
        RequestCode.CONTROLLER_ALTER_SYNC_STATE_SET: 64 * 1024,
        RequestCode.CONTROLLER_GET_SYNC_STATE_DATA: 1024 * 1024,
        RequestCode.UPDATE_CONTROLLER_CONFIG: 64 * 1024,
    },
)

Answer = RemotingCommand | PreparedResponse | Awaitable[RemotingCommand]

#: Only brokers send these; operators' tools send the others too.
BROKER_CODES = frozenset(
    {
        RequestCode.BROKER_HEARTBEAT,
        RequestCode.CONTROLLER_ALTER_SYNC_STATE_SET,
        RequestCode.CONTROLLER_REGISTER_BROKER,
        RequestCode.CONTROLLER_GET_REPLICA_INFO,
        RequestCode.CONTROLLER_GET_NEXT_BROKER_ID,
        RequestCode.CONTROLLER_APPLY_BROKER_ID,
    }
    & frozenset(CONTROLLER_REQUESTS)
)


class Handlers:
    def __init__(
        self,
        control: BrokerRequests,
        settings: StoredConfig[ControllerConfig],
        clock: Clock,
        replica_infos: ReplicaInfoCache,
    ) -> None:
        self._control = control
        self._group = control.group
        self._settings, self._clock, self._replica_infos = settings, clock, replica_infos
        self._networks = named_addresses(settings.config.broker_networks) or ()
        self._table: dict[int, Callable[[RemotingCommand, Peer], Answer]] = {
            RequestCode.BROKER_HEARTBEAT: self._heartbeat,
            RequestCode.CONTROLLER_ALTER_SYNC_STATE_SET: self._alter_sync_state_set,
            RequestCode.CONTROLLER_ELECT_MASTER: self._elect_master,
            RequestCode.CONTROLLER_REGISTER_BROKER: self._register_broker,
            RequestCode.CONTROLLER_GET_REPLICA_INFO: self._replica_info,
            RequestCode.CONTROLLER_GET_METADATA_INFO: self._metadata,
            RequestCode.CONTROLLER_GET_SYNC_STATE_DATA: self._sync_state_data,
            RequestCode.UPDATE_CONTROLLER_CONFIG: self._update_config,
            RequestCode.GET_CONTROLLER_CONFIG: self._config,
            RequestCode.CLEAN_BROKER_DATA: self._clean,
            RequestCode.CONTROLLER_GET_NEXT_BROKER_ID: self._next_id,
            RequestCode.CONTROLLER_APPLY_BROKER_ID: self._apply_id,
        }

    def dispatch(self, request: RemotingCommand, connection: Peer) -> Answer:
        """Answer one request; raises RequestRefused or BodyError for what cannot be answered."""
        handler = self._table.get(request.code)
        if handler is None:
            raise CodeNotSupported(request.code)
        return handler(request, connection)

    # What any controller answers

    def _heartbeat(self, request: RemotingCommand, connection: Peer) -> Answer:
        self.take_heartbeat(decode_fields(shapes.BrokerHeartbeatHeader, request.ext_fields), connection)
        return request.reply()

    def take_heartbeat(self, header: shapes.BrokerHeartbeatHeader, connection: Peer) -> None:
        """Take a heartbeat; raises RequestInvalid, and has changed nothing then."""
        key, address, cluster = heartbeat_sender(
            header.broker_name, header.broker_addr, header.broker_id, header.cluster_name
        )
        timeout_ms = header.heartbeat_timeout_mills
        # By position: thousands are made each second.
        heartbeat = LastHeartbeat(
            self._clock.now_ms(),
            HEARTBEAT_TIMEOUT_MS_DEFAULT
            if timeout_ms is None
            else max(_TIMEOUT_MS_MIN, min(timeout_ms, _TIMEOUT_MS_MAX)),
            UNKNOWN if header.epoch is None else header.epoch,
            UNKNOWN if header.max_offset is None else header.max_offset,
            UNKNOWN if header.confirm_offset is None else header.confirm_offset,
            PRIORITY_LOWEST if header.election_priority is None else header.election_priority,
            connection.id,
            address,
            connection.socket_peer,
        )
        self._control.heartbeat(cluster, key, heartbeat)

    def _metadata(self, request: RemotingCommand, _: Peer) -> Answer:
        group, leader = self._group, self._group.known_leader
        header = shapes.MetadataResponseHeader(
            group=group.name,
            controller_leader_id=leader.id if leader else None,
            controller_leader_address=leader.address if leader else None,
            is_leader=group.is_leader,
            peers="".join(f"{member.id}:{member.address};" for member in group.members),
        )
        return request.reply(ext_fields=encode_fields(header))

    def _config(self, request: RemotingCommand, _: Peer) -> Answer:
        return request.reply(body=self._settings.listing(request.body))

    async def _update_config(self, request: RemotingCommand, _: Peer) -> RemotingCommand:
        if request.body:
            await self._settings.update_config(request.body)
        return request.reply()

    # What the leader reads

    def _replica_info(self, request: RemotingCommand, connection: Peer) -> Answer:
        self._group.check_leads()
        name = given(
            request.code, "brokerName", decode_fields(shapes.ReplicaInfoHeader, request.ext_fields).broker_name
        )
        self._check_readable(name)
        broker_set = self._control.store.get(name)
        if broker_set is None or broker_set.is_rebuilding or self._control.awaits_non_members(broker_set):
            # Brokers register again upon this answer, and all of them are to come before one of them leads.
            if broker_set is not None:
                self._control.registration_requested(name, connection.id)
            raise MetadataUnknown(name)
        self._control.polled(broker_set, _source(connection))
        ready = self._replica_infos.of(broker_set)
        if self._group.leads_for_good and broker_set.is_elected:
            return ready
        # Whether this controller leads depends on the time, and a set without a first master on heartbeats: neither is
        # looked at before a response whose bytes are cached.
        return request.reply(ext_fields=ready.ext_fields, body=ready.body)

    async def _sync_state_data(self, request: RemotingCommand, _: Peer) -> RemotingCommand:
        """Answer how sets stand, each as it is at one moment; others have their turn between two."""
        self._group.check_leads()
        names = decode_body(list[str], request.body) if request.body else []
        is_detailed = decode_fields(shapes.SyncStateDataHeader, request.ext_fields).with_details
        if is_detailed and not names:
            names = [each.broker_name for each in self._control.store.sets()]
        elif not names:
            raise BodyError('the body must be a list of broker names, ["broker-a"]')
        elif len(names) > NAMES_MAX:
            raise RequestInvalid(f"{len(names)} broker names; at most {NAMES_MAX} are taken at a time")
        table: dict[str, shapes.ReplicasInfo] = {}
        work = 0
        for name in dict.fromkeys(names):
            self._check_readable(name)
            if (broker_set := self._control.store.get(name)) is not None:
                table[name] = self._replicas_info(broker_set, is_detailed=is_detailed)
                work += len(broker_set.replicas)
            work += 1
            if work > _WORK_MAX:
                work = 0
                await asyncio.sleep(0)
        self._group.check_leads()
        return request.reply(body=encode(shapes.SyncStateData(replicas_info_table=table), Dialect.STANDARD))

    def _replicas_info(self, broker_set: BrokerSet, *, is_detailed: bool) -> shapes.ReplicasInfo:
        alive = self._control.live.alive(broker_set.broker_name, self._clock.now_ms())

        def shown(broker_ids: Iterable[int]) -> list[shapes.InSyncReplica]:
            return [
                shapes.InSyncReplica(
                    broker_name=broker_set.broker_name,
                    broker_id=i,
                    broker_address=broker_set.replicas[i].address,
                    alive=i in alive,
                )
                for i in sorted(broker_ids)
            ]

        master = broker_set.master
        last = self._control.elections.of_set(broker_set.broker_name) if is_detailed else None
        return shapes.ReplicasInfo(
            master_broker_id=msgspec.UNSET if master is None else master,
            master_address=broker_set.master_address or msgspec.UNSET,
            master_epoch=broker_set.master_epoch,
            sync_state_set_epoch=broker_set.sync_state_set_epoch,
            in_sync_replicas=shown(broker_set.sync_state_set),
            not_in_sync_replicas=shown(broker_set.replicas.keys() - broker_set.sync_state_set),
            cluster_name=broker_set.cluster if is_detailed else msgspec.UNSET,
            last_election=msgspec.UNSET if last is None else "; ".join(filter(None, (last.reason, last.advice))),
        )

    def _next_id(self, request: RemotingCommand, _: Peer) -> Answer:
        self._group.check_leads()
        header = decode_fields(shapes.BrokerIdHeader, request.ext_fields)
        name = given(request.code, "brokerName", header.broker_name)
        self._check_readable(name)
        entry = self._control.store.entry(name)
        counted = entry.broker_set or entry.floor
        answer = shapes.BrokerIdHeader(
            cluster_name=header.cluster_name, broker_name=name, next_broker_id=counted.next_broker_id
        )
        return request.reply(ext_fields=encode_fields(answer))

    def _check_readable(self, broker_name: str) -> None:
        """Refuse requests about a set whose entry cannot be read: brokers of an unknown set would begin it anew."""
        try:
            self._control.store.check_readable(broker_name)
        except StoreError as error:
            raise NotStoredNow(broker_name, str(error)) from None

    # What the leader changes

    async def _apply_id(self, request: RemotingCommand, connection: Peer) -> RemotingCommand:
        header = decode_fields(shapes.BrokerIdHeader, request.ext_fields)
        check_code = given(request.code, "registerCheckCode", header.register_check_code)
        applicant = Applicant(
            cluster=given(request.code, "clusterName", header.cluster_name),
            broker_name=given(request.code, "brokerName", header.broker_name),
            broker_id=broker_id_field(request.code, "appliedBrokerId", header.applied_broker_id),
            address=address_field(request.code, "registerCheckCode", check_code.partition(";")[0]),
            check_code=check_code,
            host=_host(connection),
        )
        self._check_network(applicant.broker_name, applicant.address)
        await self._control.apply_id(applicant)
        answer = shapes.BrokerIdHeader(cluster_name=applicant.cluster, broker_name=applicant.broker_name)
        return request.reply(ext_fields=encode_fields(answer))

    def _check_network(self, broker_name: str, address: str) -> None:
        """Raise RequestInvalid if no broker may be at an address; where a name leads is looked at by the client."""
        parts = split_address(address)
        ip = ip_of(parts[0]) if parts else None
        if self._networks and parts and ip and not any(each.matches("", ip, parts[1]) for each in self._networks):
            raise RequestInvalid(f"{broker_name}: {address} is outside brokerNetworks: add it there if it is yours")

    async def _register_broker(self, request: RemotingCommand, connection: Peer) -> RemotingCommand:
        header = decode_fields(shapes.RegisterBrokerToControllerHeader, request.ext_fields)
        address = given(request.code, "brokerAddress", header.broker_address)
        registrant = Registrant(
            cluster=given(request.code, "clusterName", header.cluster_name),
            broker_name=given(request.code, "brokerName", header.broker_name),
            broker_id=broker_id_field(request.code, "brokerId", header.broker_id),
            address=address_field(request.code, "brokerAddress", address),
            host=_host(connection),
        )
        self._check_network(registrant.broker_name, registrant.address)
        answer = shapes.MasterHeader(cluster_name=registrant.cluster, broker_name=registrant.broker_name)
        try:
            broker_set = await self._control.register(registrant, _source(connection))
        except (SetUnknown, BrokerUnknown, BrokerIdInUse) as refused:
            return request.reply(refused.code, remark=str(refused), ext_fields=encode_fields(answer))
        master = broker_set.master
        if master is not None and self._control.may_live(BrokerKey(registrant.broker_name, master)):
            answer = _with_master(answer, broker_set, sync_state_set_epoch=broker_set.sync_state_set_epoch)
        # A broker reads the body whatever the header contains.
        return request.reply(ext_fields=encode_fields(answer), body=encoded_sync_state_set(broker_set))

    async def _elect_master(self, request: RemotingCommand, connection: Peer) -> RemotingCommand:
        header = decode_fields(shapes.ElectMasterHeader, request.ext_fields)
        name = given(request.code, "brokerName", header.broker_name)
        cluster, broker_id = header.cluster_name or "", header.broker_id
        if broker_id == UNKNOWN or header.designate_elect:
            wanted = None if broker_id == UNKNOWN else broker_id
            elected = await self._control.designate(cluster, name, wanted, connection.peer)
        else:
            elected = await self._control.elect_for_broker(cluster, BrokerKey(name, broker_id), _source(connection))
        if elected.result is not ElectionResult.NOBODY:
            return _elected(request, elected)
        is_lost = broker_id == UNKNOWN
        code = ResponseCode.CONTROLLER_MASTER_NOT_AVAILABLE if is_lost else ResponseCode.CONTROLLER_ELECT_MASTER_FAILED
        return request.reply(code, remark=elected.reason)

    async def _alter_sync_state_set(self, request: RemotingCommand, connection: Peer) -> RemotingCommand:
        header = decode_fields(shapes.AlterSyncStateSetHeader, request.ext_fields)
        if not request.body:
            raise BodyError("the body must be the wanted SyncStateSet and the epoch that it was made from")
        body = decode_body(shapes.SyncStateSet, request.body)
        if len(body.sync_state_set) > IDS_MAX:
            raise RequestInvalid(f"a SyncStateSet of {len(body.sync_state_set)} brokers; at most {IDS_MAX} are taken")
        wanted = WantedSyncStateSet(
            broker_name=given(request.code, "brokerName", header.broker_name),
            master=broker_id_field(request.code, "masterBrokerId", header.master_broker_id),
            master_epoch=number(request.code, "masterEpoch", header.master_epoch),
            members=frozenset(body.sync_state_set),
            sync_state_set_epoch=body.sync_state_set_epoch,
        )
        broker_set = await self._control.alter_sync_state_set(wanted, _source(connection))
        answer = shapes.AlterSyncStateSetResponseHeader(new_sync_state_set_epoch=broker_set.sync_state_set_epoch)
        return request.reply(ext_fields=encode_fields(answer), body=encoded_sync_state_set(broker_set))

    async def _clean(self, request: RemotingCommand, _: Peer) -> RemotingCommand:
        header = decode_fields(shapes.CleanBrokerDataHeader, request.ext_fields)
        name = given(request.code, "brokerName", header.broker_name)
        listed = (header.broker_controller_ids_to_clean or "").strip()
        wanted = Cleaning(
            broker_name=name,
            cluster=header.cluster_name or "",
            broker_ids=listed_ids(listed) if listed else None,
            even_living=header.is_clean_living_broker,
        )
        await self._control.clean(wanted)
        return request.reply()


def _elected(request: RemotingCommand, elected: ElectionOutcome) -> RemotingCommand:
    broker_set = elected.broker_set
    header = _with_master(MasterHeader(), broker_set, sync_state_set_epoch=broker_set.sync_state_set_epoch)
    members = sorted(broker_set.sync_state_set)
    if elected.result is ElectionResult.KEPT:
        body = shapes.ElectMasterBody(sync_state_set=members)
        code = ResponseCode.CONTROLLER_MASTER_STILL_EXIST
        return request.reply(
            code, remark=elected.reason, ext_fields=encode_fields(header), body=encode(body, Dialect.STANDARD)
        )
    addresses = {i: replica.address for i, replica in sorted(broker_set.replicas.items())}
    name, cluster = broker_set.broker_name, broker_set.cluster
    body = shapes.ElectMasterBody(
        broker_member_group=shapes.MemberGroup(broker_addrs=addresses, broker_name=name, cluster=cluster),
        broker_addrs=addresses,
        broker_name=name,
        cluster=cluster,
        sync_state_set=members,
    )
    return request.reply(ext_fields=encode_fields(header), body=encode(body, Dialect.STANDARD))


def _source(connection: Peer) -> Source:
    """Return where a request comes from; a PROXY header does not count, as anybody can send one."""
    return Source(connection.id, connection.socket_peer)


def _host(connection: Peer) -> str:
    """Return from which host a request comes, as above; brokers behind one proxy count as one host."""
    return intern(connection.socket_peer.rpartition(":")[0])
