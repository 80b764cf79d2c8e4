"""The requests to NameServers and brokers, and what is read of the responses. Pure.

The shapes are here and not in `remoting/protocol/shapes`, because no server of ours uses them. Answers to
`TopicStatsTable`, `ConsumeStats`, `GroupList` and `ConsumerConnection` (docs/protocol/broker-admin.md 7, 9 and 10).
"""

from collections.abc import Callable, Mapping
from enum import IntEnum
from types import MappingProxyType
from typing import Any, Final, Generic, NamedTuple, TypeVar

import msgspec

from remoting.protocol.codec import decode_body, encode_fields
from remoting.protocol.codes import RequestCode, ResponseCode
from remoting.protocol.command import RemotingCommand
from remoting.protocol.errors import RemotingError
from remoting.protocol.shapes.namesrv import GetRouteInfoRequestHeader
from remoting.protocol.shapes.route import MASTER_ID, TopicRouteData
from sampling.object_keys import with_quoted_object_keys
from sampling.samples import GroupMembers, GroupProgress, Master

#: Groups of the brokers' own, and of tools that come and go.
_SYSTEM_GROUP_PREFIX: Final = "CID_RMQ_SYS_"
_TOOL_GROUP: Final = "TOOLS_CONSUMER"

_NOTHING_ELSE: Final[Mapping[int, Any]] = MappingProxyType({})

Found = TypeVar("Found")


class Code(IntEnum):
    """The requests to brokers."""

    GET_TOPIC_STATS_INFO = 202
    GET_CONSUMER_CONNECTION_LIST = 203
    GET_CONSUME_STATS = 208
    QUERY_TOPIC_CONSUME_BY_WHO = 300


#: The answer to 203 for a group without members.
CONSUMER_NOT_ONLINE: Final = 206


class Refused(RemotingError):
    """A peer answered with an error code."""

    def __init__(self, code: int, remark: str | None) -> None:
        self.code, self.remark = code, remark
        super().__init__(f"code {code}: {(remark or 'no remark').strip()}")


class SampleRequest(NamedTuple, Generic[Found]):
    """A request, and how its response is read."""

    request: RemotingCommand
    read: Callable[[bytes], Found]
    #: Results for error codes that are valid responses.
    meanings: Mapping[int, Found] = _NOTHING_ELSE

    def read_response(self, answer: RemotingCommand) -> Found:
        """Return the result in a response; raises Refused and BodyError."""
        if answer.code in self.meanings:
            return self.meanings[answer.code]
        if answer.code != ResponseCode.SUCCESS:
            raise Refused(answer.code, answer.remark)
        return self.read(answer.body)


class _TopicHeader(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Header of 202 and 300."""

    topic: str


class _ConsumeStatsHeader(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Header of 208."""

    consumer_group: str
    topic: str


class _GroupHeader(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Header of 203."""

    consumer_group: str


class _QueueEnd(msgspec.Struct, frozen=True, rename="camel"):
    max_offset: int = 0


class _TopicStats(msgspec.Struct, frozen=True, rename="camel"):
    """Body of the answer to 202; the keys are queues."""

    offset_table: dict[str, _QueueEnd] = {}


class _QueueProgress(msgspec.Struct, frozen=True, rename="camel"):
    broker_offset: int = 0
    consumer_offset: int = 0


class _ConsumeStats(msgspec.Struct, frozen=True, rename="camel"):
    """Body of the answer to 208; the keys are queues."""

    offset_table: dict[str, _QueueProgress] = {}


class _GroupList(msgspec.Struct, frozen=True, rename="camel"):
    """Body of the answer to 300."""

    group_list: list[str] = []


class _ClientConnection(msgspec.Struct, frozen=True, rename="camel"):
    client_id: str = ""


class _ConsumerConnection(msgspec.Struct, frozen=True, rename="camel"):
    """Body of the answer to 203."""

    connection_set: list[_ClientConnection] = []
    message_model: str = ""


def masters_of(topic: str) -> SampleRequest[tuple[Master, ...]]:
    """Ask a NameServer (105) for the sets that have a topic, each with its master."""
    header = GetRouteInfoRequestHeader(topic=topic, accept_standard_json_only=True)
    return SampleRequest(_request(RequestCode.GET_ROUTEINFO_BY_TOPIC, header), _masters)


def ends_of(topic: str) -> SampleRequest[int]:
    """Ask a broker (202) for the sum of the ends of a topic's queues; before 5.3 it leaves out those only read from."""
    return SampleRequest(_request(Code.GET_TOPIC_STATS_INFO, _TopicHeader(topic=topic)), _ends)


def groups_of(topic: str) -> SampleRequest[tuple[str, ...]]:
    """Ask a broker (300) which groups consume a topic, or have done so."""
    return SampleRequest(_request(Code.QUERY_TOPIC_CONSUME_BY_WHO, _TopicHeader(topic=topic)), _groups)


def progress_of(group: str, topic: str) -> SampleRequest[GroupProgress | None]:
    """Ask a broker (208) how far a group is; None for one whose members no longer subscribe to the topic."""
    header = _ConsumeStatsHeader(consumer_group=group, topic=topic)
    return SampleRequest(_request(Code.GET_CONSUME_STATS, header), _progress)


def members_of(group: str) -> SampleRequest[GroupMembers]:
    """Ask a broker (203) who of a group is connected."""
    request = _request(Code.GET_CONSUMER_CONNECTION_LIST, _GroupHeader(consumer_group=group))
    return SampleRequest(request, _members, {CONSUMER_NOT_ONLINE: GroupMembers()})


def _request(code: int, header: msgspec.Struct) -> RemotingCommand:
    return RemotingCommand(code, ext_fields=encode_fields(header))


def _masters(body: bytes) -> tuple[Master, ...]:
    route = decode_body(TopicRouteData, body)
    sets = (Master(each.cluster, each.broker_name, each.broker_addrs.get(MASTER_ID)) for each in route.broker_datas)
    return tuple(sorted(sets, key=lambda each: (each.cluster, each.broker_name)))


def _ends(body: bytes) -> int:
    stats = decode_body(_TopicStats, with_quoted_object_keys(body))
    return sum(max(queue.max_offset, 0) for queue in stats.offset_table.values())


def _groups(body: bytes) -> tuple[str, ...]:
    names = decode_body(_GroupList, body).group_list
    return tuple(sorted(name for name in names if name != _TOOL_GROUP and not name.startswith(_SYSTEM_GROUP_PREFIX)))


def _progress(body: bytes) -> GroupProgress | None:
    queues = decode_body(_ConsumeStats, with_quoted_object_keys(body)).offset_table.values()
    if not queues:
        return None
    return GroupProgress(
        sum(max(queue.broker_offset, 0) for queue in queues), sum(max(queue.consumer_offset, 0) for queue in queues)
    )


def _members(body: bytes) -> GroupMembers:
    found = decode_body(_ConsumerConnection, body)
    return GroupMembers(
        frozenset(each.client_id for each in found.connection_set), found.message_model == "BROADCASTING"
    )
