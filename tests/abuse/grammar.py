"""Whole frames of any request with hostile content: the frame, its header and the kind of its body are right.

Fields and bodies come from the shapes that the servers read, so a field that is added is filled by itself.
"""

import json
import struct
import types
import typing
import zlib
from dataclasses import dataclass

import msgspec

from controller.config import CONTROLLER
from controller.wire.handlers import BODY_LIMITS as CONTROLLER_BODY_LIMITS
from namesrv.settings.config import NAMESRV
from namesrv.wire.request_table import BODY_LIMITS as NAMESRV_BODY_LIMITS
from remoting.protocol.codes import CONTROLLER_REQUESTS, NAMESRV_REQUESTS, RequestCode
from remoting.protocol.shapes import controller, namesrv, route_fetches
from remoting.protocol.shapes.route import DataVersion

ONE_WAY = 2

#: What is named again and again, so that requests are about what others said.
BROKERS = ["set-a", "set-b", "set-c"]
CLUSTERS = ["cluster-a", "cluster-b"]
TOPICS = ["topic-a", "topic-b", "%RETRY%group", "TBW102"]
NAMESPACES = ["ORDER_TOPIC_CONFIG", "space"]
#: Nobody listens there.
ADDRESSES = ["127.0.0.1:9", "127.0.0.1:11", "127.0.0.1:13"]

#: Texts that have broken readers before. So many and no more: what a server stores of them has an end.
TEXTS = [
    "",
    " ",
    "\x00",
    "\x01" * 40,
    "\r\nX: y",
    "a;b,c=d:e",
    "../../../../etc/passwd",
    "${jndi:ldap://127.0.0.1:9/a}",
    "%s%n%d",
    '"}],"a":[{',
    "null",
    "true",
    "NaN",
    "-1",
    "0" * 5_000 + "1",
    "9" * 5_000,
    "1e999999999",
    "0x7fffffff",
    "\uff11\uff12\uff13",
    "\u202etxt.exe",
    "e\u0301" * 100,
    "\U0001f680" * 200,
    "\ufeff",
    "\u2028",
    "a" * 255,
    "a" * 256,
    "a" * 1_024,
    "a" * 1_025,
    "a" * 60_000,
    "127.0.0.1:0",
    "127.0.0.1:65536",
    "256.256.256.256:10911",
    "[::1]:1",
    "10.0.0..1:10911",
    ":",
    "host:²",
]
INTEGERS = [
    0,
    1,
    2,
    3,
    -1,
    -2,
    127,
    2**15,
    2**24,
    2**31 - 1,
    2**31,
    -(2**31),
    2**53,
    2**63 - 1,
    2**63,
    -(2**63),
    10**300,
]
INTEGER_TEXTS = [
    *map(str, INTEGERS),
    "",
    " 1",
    "+1",
    "1.0",
    "1e3",
    "00",
    "0" * 5_000 + "1",
    "9" * 5_000,
    "\u0967",
    "--1",
    "0x1",
]
BOOLEAN_TEXTS = ["true", "false", "TRUE", "1", "", "yes", "t" * 1_000]
_VALUES = {str: TEXTS, int: [*range(4), *INTEGERS, *INTEGER_TEXTS], bool: [True, False, "true", 1, None]}
PERMS = [0, 1, 2, 4, 6, 7, 8, -1, 2**31 - 1]


@dataclass(frozen=True)
class Request:
    """What a request of one code is made of."""

    fields: type[msgspec.Struct] | None = None
    #: The shape of its JSON body, or what makes its text; None for none.
    body: object = None
    #: Fields that the shape does not have, because the server does not read them.
    more: tuple[str, ...] = ()


_KV = Request(namesrv.KvConfigHeader)
_NOTHING = Request()
_OF_BROKER = Request(namesrv.BrokerIdentityHeader, more=("brokerId",))
_OF_SET = Request(namesrv.BrokerNameHeader)

NAMESRV_GRAMMAR = {
    RequestCode.PUT_KV_CONFIG: _KV,
    RequestCode.GET_KV_CONFIG: _KV,
    RequestCode.DELETE_KV_CONFIG: _KV,
    RequestCode.REGISTER_BROKER: Request(namesrv.RegisterBrokerRequestHeader, namesrv.RegisterBrokerBody),
    RequestCode.UNREGISTER_BROKER: _OF_BROKER,
    RequestCode.GET_ROUTEINFO_BY_TOPIC: Request(namesrv.GetRouteInfoRequestHeader),
    RequestCode.GET_BROKER_CLUSTER_INFO: _NOTHING,
    RequestCode.WIPE_WRITE_PERM_OF_BROKER: _OF_SET,
    RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER: _NOTHING,
    RequestCode.DELETE_TOPIC_IN_NAMESRV: Request(namesrv.TopicHeader),
    RequestCode.REGISTER_TOPIC_IN_NAMESRV: Request(namesrv.TopicHeader, namesrv.RegisterTopicBody),
    RequestCode.GET_KVLIST_BY_NAMESPACE: Request(namesrv.NamespaceHeader),
    RequestCode.GET_TOPICS_BY_CLUSTER: Request(namesrv.ClusterHeader),
    RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS: _NOTHING,
    RequestCode.GET_UNIT_TOPIC_LIST: _NOTHING,
    RequestCode.GET_HAS_UNIT_SUB_TOPIC_LIST: _NOTHING,
    RequestCode.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST: _NOTHING,
    RequestCode.UPDATE_NAMESRV_CONFIG: Request(body=NAMESRV),
    RequestCode.GET_NAMESRV_CONFIG: _NOTHING,
    RequestCode.QUERY_DATA_VERSION: Request(namesrv.BrokerIdentityHeader, DataVersion),
    RequestCode.ADD_WRITE_PERM_OF_BROKER: _OF_SET,
    RequestCode.GET_BROKER_MEMBER_GROUP: _OF_SET,
    RequestCode.BROKER_HEARTBEAT: _OF_BROKER,
    RequestCode.NOTIFY_MIN_BROKER_ID_CHANGE: _NOTHING,
    RequestCode.WATCH_ROUTE_FETCHES: Request(route_fetches.WatchRouteFetchesHeader),
}
CONTROLLER_GRAMMAR = {
    RequestCode.BROKER_HEARTBEAT: Request(controller.BrokerHeartbeatHeader),
    RequestCode.CONTROLLER_ALTER_SYNC_STATE_SET: Request(controller.AlterSyncStateSetHeader, controller.SyncStateSet),
    RequestCode.CONTROLLER_ELECT_MASTER: Request(controller.ElectMasterHeader),
    RequestCode.CONTROLLER_REGISTER_BROKER: Request(controller.RegisterBrokerToControllerHeader),
    RequestCode.CONTROLLER_GET_REPLICA_INFO: Request(controller.ReplicaInfoHeader),
    RequestCode.CONTROLLER_GET_METADATA_INFO: _NOTHING,
    RequestCode.CONTROLLER_GET_SYNC_STATE_DATA: Request(body=list[str]),
    RequestCode.UPDATE_CONTROLLER_CONFIG: Request(body=CONTROLLER),
    RequestCode.GET_CONTROLLER_CONFIG: _NOTHING,
    RequestCode.CLEAN_BROKER_DATA: Request(controller.CleanBrokerDataHeader),
    RequestCode.CONTROLLER_GET_NEXT_BROKER_ID: Request(controller.BrokerIdHeader),
    RequestCode.CONTROLLER_APPLY_BROKER_ID: Request(controller.BrokerIdHeader),
}
GRAMMARS = {"namesrv": NAMESRV_GRAMMAR, "controller": CONTROLLER_GRAMMAR}
BODY_LIMITS = {"namesrv": NAMESRV_BODY_LIMITS, "controller": CONTROLLER_BODY_LIMITS}

#: A field that no header has room for.
LONG_FIELD = "\x01" * (3 * 1024 * 1024)

#: Names of fields and properties that a well-meaning peer would fill with one of these.
_LIKELY = {
    "brokerName": BROKERS,
    "bname": BROKERS,
    "cluster": CLUSTERS,
    "clusterName": CLUSTERS,
    "topic": TOPICS,
    "topicName": TOPICS,
    "namespace": NAMESPACES,
    "key": TOPICS,
    "brokerAddr": ADDRESSES,
    "brokerAddress": ADDRESSES,
    "haServerAddr": ADDRESSES,
    "registerCheckCode": [f"{address};17" for address in ADDRESSES],
    "brokerControllerIdsToClean": ["1", "1;2", "2;;3"],
    "perm": PERMS,
}


class Grammar:
    """Makes frames for one server; the same ones again with the same `random`.

    Bodies are at most a byte longer than the server takes them, those of registrations so many bytes.
    """

    def __init__(self, server, random, *, registration_bytes_max):
        self._requests = GRAMMARS[server]
        self._random = random
        limits = BODY_LIMITS[server]
        self._body_bytes_max = {code: min(limits.of(code) + 1, registration_bytes_max) for code in self._requests}
        self.sent = dict.fromkeys(self._requests, 0)
        #: By so much the frame that is made is less odd than others: what it says is to be believed and stored.
        self._tameness = 1

    def frame(self):
        code = self._random.choice(list(self._requests))
        self.sent[code] += 1
        return self.frame_of(code)

    def frame_of(self, code):
        """Return a whole frame of this code."""
        request = self._requests[code]
        self._tameness = self._random.choice([1, 1, 50])
        body = self._body(request.body, self._body_bytes_max[code])
        fields = self._fields(request, body)
        if fields.get("compressed") == "true" and not self._is_odd(6):
            body = self._deflated(body)
            fields["bodyCrc32"] = str(zlib.crc32(body) & 0x7FFFFFFF)
        flag = ONE_WAY if self._one_in(4) else 0
        version = self._random.choice([513, 513, 513, 0, 36, 37, 400, 401, 413, 2**31 - 1, -1])
        encode = _binary_header if self._one_in(2) else _json_header
        word, header = encode(code, version, self._random.choice([0, 1, 7, 2**31 - 1, -(2**31)]), flag, fields)
        return struct.pack(">II", 4 + len(header) + len(body), word << 24 | len(header)) + header + body

    def _one_in(self, times):
        return self._random.random() < 1 / times

    def _is_odd(self, times):
        """Tell whether something is odd that is so once in so many times, or more where the frame is tame."""
        return self._one_in(times * self._tameness)

    # Fields

    def _fields(self, request, body):
        shape = request.fields
        known = {} if shape is None else {each.encode_name: each.type for each in msgspec.structs.fields(shape)}
        fields = {name: self._text_of(name, kind) for name, kind in known.items() if not self._is_odd(8)}
        fields |= {name: self._random.choice(INTEGER_TEXTS) for name in request.more}
        if "bodyCrc32" in fields and not self._is_odd(10):
            fields["bodyCrc32"] = str(zlib.crc32(body) & 0x7FFFFFFF)
        if self._one_in(20):
            fields |= {self._random.choice(TEXTS): self._random.choice(TEXTS) for _ in range(20)}
        if self._one_in(200):
            fields |= {f"f{number}": "" for number in range(self._random.choice([100, 10_000]))}
        if self._one_in(1_000) and fields:
            fields[self._random.choice([*fields])] = LONG_FIELD
        return fields

    def _text_of(self, name, kind):
        if name in _LIKELY and not self._is_odd(4):
            return str(self._random.choice(_LIKELY[name]))
        if bool in _parts(kind):
            return self._random.choice(BOOLEAN_TEXTS)
        if int in _parts(kind):
            return self._random.choice(INTEGER_TEXTS) if self._is_odd(2) else str(self._random.randrange(4))
        return self._random.choice(TEXTS)

    # Bodies

    def _body(self, kind, bytes_max):
        if kind is None and not self._one_in(20):
            return self._random.choice([b"", b"", b"x", b"{}"])
        if kind in (NAMESRV, CONTROLLER) and not self._one_in(20):
            return self._properties(kind)[:bytes_max]
        if kind in (None, NAMESRV, CONTROLLER) or self._is_odd(3):
            return self._odd_json(bytes_max)
        return _json(self._value_of("", kind, depth=0)).encode("utf-8", "surrogatepass")[:bytes_max]

    def _value_of(self, name, kind, *, depth):
        """Return a value of a type, now and then one of another type in its place."""
        if self._is_odd(25):
            return self._random.choice([None, [], {}, "", 0, -1, 1.5, True, [[]], {"a": {}}, *INTEGERS, *TEXTS])
        if name in _LIKELY and not self._is_odd(4):
            return self._random.choice(_LIKELY[name])
        kind = self._random.choice([each for each in _parts(kind) if each not in (types.NoneType, msgspec.UnsetType)])
        if typing.get_origin(kind) is not None:
            return self._many_of(kind, depth)
        if issubclass(kind, msgspec.Struct):
            known = [each for each in msgspec.structs.fields(kind) if not self._is_odd(12)]
            return {each.encode_name: self._value_of(each.encode_name, each.type, depth=depth + 1) for each in known}
        if kind is int and not self._is_odd(2):
            return self._random.randrange(16)
        return self._random.choice(_VALUES[kind])

    def _many_of(self, kind, depth):
        count = self._random.choice([0, 1, 2, 3, 10, 100] if depth < 3 else [0, 1, 2])
        item = typing.get_args(kind)[-1]
        values = [self._value_of("", item, depth=depth + 1) for _ in range(min(count, 10))]
        # Many of few: what is large to read need not be slow to make.
        values = (values * (count // 10 + 1))[:count] if values else []
        if typing.get_origin(kind) is list:
            return values
        likely = TOPICS if depth < 3 else ["0", "1"]
        keys = [likely[at] if at < len(likely) else f"key-{at}" for at in range(len(values))]
        if self._is_odd(10) and keys:
            keys[0] = self._random.choice(TEXTS)
        return dict(zip(keys, values, strict=True))

    def _odd_json(self, bytes_max):
        """Return JSON, or what fastjson would read, whose structure costs readers most."""
        unit, opening, closing = self._random.choice(
            [
                (b"[", b"", b""),
                (b'{"a":', b"", b""),
                (b"{},", b"[", b"{}]"),
                (b",", b"[", b"]"),
                (b"[],", b'{"queueDatas":[', b"[]]}"),
                (b'"",', b"[", b'""]'),
                (b'"a":1,', b"{", b'"a":1}'),
                (b"1:1,", b"{", b"1:1}"),
                (b"'a',", b"[", b"'a']"),
                (b"a:'b',", b"{", b"a:'b'}"),
                (b"/**/", b"", b"{}"),
                (b" ", b"", b"{}"),
                (b"9", b"[", b"]"),
                (b"\\u0000", b'"', b'"'),
                (b"\\ud800", b'"', b'"'),
                (b"\xff", b'"', b'"'),
                (b"1e308,", b"[", b"1]"),
            ]
        )
        size = min(bytes_max, self._random.choice([0, 1, 100, 5_000, bytes_max - 1, bytes_max]))
        return opening + unit * max(0, (size - len(opening) - len(closing)) // len(unit)) + closing

    def _deflated(self, body):
        way = self._random.randrange(4) if self._is_odd(2) else 0
        if way == 0:
            return zlib.compress(body)
        if way == 1:
            return zlib.compress(body)[:-5]
        if way == 2:
            # As small as it gets for what it becomes: ten MiB of blanks or brackets.
            return zlib.compress(self._random.choice([b" ", b"[", b"{},"]) * (10 * 1024 * 1024))
        return zlib.compress(zlib.compress(body))

    def _properties(self, kind):
        """Return properties of this server, those that no request may change among them, and others."""
        options = [option.key for option in kind.options.values()]
        wanted = [
            self._random.choice([*options, *options, *TEXTS]) for _ in range(self._random.choice([1, 1, 5, 1_000]))
        ]
        values = [*TEXTS, *INTEGER_TEXTS, *BOOLEAN_TEXTS, *ADDRESSES, "debug", "JSON", "ROCKETMQ"]
        lines = [f"{key}={self._random.choice(values)}" for key in wanted]
        return self._random.choice(["\n", "\r\n", "\n\n"]).join(lines).encode("utf-8", "surrogatepass")


def all_codes_are_there():
    """Return whether no request of either server is left out."""
    return set(NAMESRV_GRAMMAR) == set(NAMESRV_REQUESTS) and set(CONTROLLER_GRAMMAR) == set(CONTROLLER_REQUESTS)


def _parts(kind):
    """Return the types of a union, without what annotates them."""
    if typing.get_origin(kind) is typing.Annotated:
        return _parts(typing.get_args(kind)[0])
    if typing.get_origin(kind) in (typing.Union, types.UnionType):
        return [part for each in typing.get_args(kind) for part in _parts(each)]
    return [kind]


def _json(value):
    return json.dumps(value, separators=(",", ":"))


def _json_header(code, version, number, flag, fields):
    header = {"code": code, "language": "JAVA", "version": version, "opaque": number, "flag": flag, "extFields": fields}
    return 0, _json(header).encode()


def _binary_header(code, version, number, flag, fields):
    entries = b"".join(
        struct.pack(">h", len(name)) + name + struct.pack(">i", len(text)) + text
        for name, text in ((_utf8(each)[: 2**15 - 1], _utf8(value)) for each, value in fields.items())
    )
    version = max(-(2**15), min(version, 2**15 - 1))
    return 1, struct.pack(">hBhiiii", code, 0, version, number, flag, 0, len(entries)) + entries


def _utf8(text):
    return text.encode("utf-8", "replace")
