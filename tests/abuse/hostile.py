"""What a hostile peer can put into headers and bodies: whatever is expensive to read, as long as may be."""

import json
import struct
import zlib

from peers.wire import frame

#: Java's names of all fields that any request has.
FIELDS = (
    "brokerName", "brokerAddr", "clusterName", "haServerAddr", "__ZONE_NAME", "namespace", "key", "value", "topic",
    "cluster", "brokerAddress", "registerCheckCode", "brokerControllerIdsToClean",
)  # fmt: skip
NUMBERS = (
    "brokerId", "heartbeatTimeoutMillis", "bodyCrc32", "masterBrokerId", "masterEpoch", "epoch", "maxOffset",
    "confirmOffset", "electionPriority", "appliedBrokerId",
)  # fmt: skip

IDENTITY = {
    "clusterName": "C", "brokerName": "hostile", "brokerAddr": "10.9.9.8:10911", "brokerId": "0",
    "enableActingMaster": "true", "topic": "T", "namespace": "N", "key": "K", "value": "V", "cluster": "C",
    "brokerAddress": "10.9.9.8:10911", "masterBrokerId": "1", "masterEpoch": "1", "appliedBrokerId": "1",
    "registerCheckCode": "10.9.9.8:10911;1", "brokerControllerIdsToClean": ";".join(map(str, range(900))),
}  # fmt: skip


def filled(before, unit, after, size):
    """Return as many units between the two as fit."""
    return before + unit * ((size - len(before) - len(after)) // len(unit)) + after


def numbered(before, unit, after, size):
    """Return units with numbers in place of %d."""
    count = (size - len(before) - len(after)) // (len(unit) + 7)
    return before + b",".join(unit % number for number in range(count)) + after


def texts(size):
    """Return texts that are, or look like, JSON, by what is bad about them."""
    return {
        "commas": filled(b"{", b",", b"}", size),
        "braces": filled(b"", b"{", b"", size),
        "brackets": filled(b"", b"[", b"]", size),
        "objects": filled(b"[", b"{},", b"{}]", size),
        "nulls": filled(b'{"a":[', b"null,", b'null],"b":null}', size),
        "texts": filled(b"[", b'"",', b'""]', size),
        "names": numbered(b"[", b'"%d"', b"]", size),
        "bare keys": numbered(b"{", b"%d:{}", b"}", size),
        "almost keys": filled(b"", b"{1", b"}", size),
        "digits": filled(b'{"counter":', b"9", b"}", size),
        "quoted digits": filled(b'{"counter":"', b"9", b'"}', size),
        "escapes": filled(b'{"a":"', b"\\u0041", b'"}', size),
        "odd quotes": filled(b"{'", b'"', b"':1}", size),
        "words": filled(b"{", b"a:'',", b"a:1}", size),
        "ids": numbered(b'{"syncStateSetEpoch":1,"syncStateSet":[', b"%d", b"]}", size),
        "queues": filled(b'{"queueDatas":[', b'{"brokerName":"hostile"},', b"{}]}", size),
        "queues of a stranger": filled(b'{"queueDatas":[', b"{},", b"{}]}", size),
        "properties": filled(b"", b"a=b\n", b"", size),
        "properties of many": numbered(b"", b"key%d=value\n", b"", size),
    }


def registrations(size):
    """Return bodies of REGISTER_BROKER (103), by what is bad about them."""
    start = b'{"filterServerList":[],"topicConfigSerializeWrapper":{"dataVersion":{"counter":1},"topicConfigTable":{'
    end = b'},"topicQueueMappingDetailMap":{},"topicQueueMappingInfoMap":{}}}'
    mapped = start + b'},"topicQueueMappingInfoMap":{'
    return {
        "topics": start + b",".join(b'"t%d":{"perm":6,"topicName":"t%d"}' % (n, n) for n in range(190_000)) + end,
        "mappings": mapped + b",".join(b'"%d":{}' % n for n in range(190_000)) + b"}}}",
        "queues of mappings": mapped + b",".join(b'"%d":{"currIdMap":{0:%d}}' % (n, n) for n in range(90_000)) + b"}}}",
        "one mapping": filled(mapped + b'"a":{"currIdMap":{', b"1:1,", b"1:1}}}}}", size),
        "the same topic": filled(start, b'"a":{"topicName":"a"},', b'"a":{}' + end, size),
        "topics with bare names": filled(start, b"1:{},", b'"a":{}' + end, size),
        "topics without end": filled(start, b"}", b"", size),
        "almost the end": filled(start, b'}},"topicQueueMappin', b"", size),
        "filter servers": filled(b'{"filterServerList":[', b'"",', b'""]}', size),
        "members": filled(b"{", b'"a":1,', b'"a":1}', size),
        "members nobody reads": filled(b'{"a":[', b"[[[[[]]]]],", b"1]}", size),
        "a long name": filled(start + b'"', b"x", b'":{}' + end, size),
        "attributes": filled(start + b'"a":{"attributes":{', b'"+a":"b",', b'"a":"b"}}' + end, size),
    }


def part(text):
    return struct.pack(">i", len(text)) + text


def inflated(topics, mappings, filter_servers=b"[]"):
    """Return a body of the compressed form."""
    parts = [part(b"{}"), struct.pack(">i", len(topics)), *map(part, topics), part(filter_servers)]
    return zlib.compress(b"".join([*parts, struct.pack(">i", len(mappings)), *map(part, mappings)]), 1)


def compressed_registrations():
    """Return compressed bodies, none of which inflates to more than 16 MiB."""
    return {
        "compressed topics": inflated([b"topic-%d 8 8 6 SINGLE_TAG" % number for number in range(190_000)], []),
        "compressed mappings": inflated([], [b'{"topic":"topic-%d"}' % number for number in range(190_000)]),
        "compressed lines of blanks": inflated([b" " * 50_000] * 300, []),
        "compressed mappings with bare keys": inflated(
            [], [filled(b'{"topic":"a","currIdMap":{', b"1:1,", b"1:1}}", 50_000)] * 300
        ),
        "compressed filter servers": inflated([], [], filled(b"[", b'"",', b'""]', 15_000_000)),
        "compressed zeros": zlib.compress(bytes(100_000_000)),
        "compressed count": zlib.compress(part(b"{}") + struct.pack(">i", 2**31 - 1), 1),
    }


def headers(code):
    """Return frames without body whose headers are as expensive as may be, by what is bad about them."""
    every = dict.fromkeys(FIELDS, "x" * 15_000)
    return {
        "long fields": frame(code, IDENTITY | every),
        "control characters": frame(code, IDENTITY | dict.fromkeys(FIELDS, "\x01" * 3000)),
        "long numbers": frame(code, IDENTITY | dict.fromkeys(NUMBERS, "9" * 20_000)),
        "zeros": frame(code, IDENTITY | dict.fromkeys(NUMBERS, "0" * 20_000 + "1")),
        "many fields": frame(code, {str(number): "" for number in range(10_000)}),
        "ids": frame(code, IDENTITY | {"brokerControllerIdsToClean": ";".join("1" * 100_000)}),
        "fields as numbers": framed(filled(b'{"code":"%d","extFields":{' % code, b"1:1,", b'"a":[]}}', 32_000)),
        "members": framed(filled(b'{"code":%d,"x":[' % code, b"{},", b"1]}", 250_000)),
        "commas": framed(filled(b'{"code":%d' % code, b",", b"}", 250_000)),
        "short commas": framed(filled(b'{"code":%d' % code, b",", b"}", 32_000)),
        "short braces": framed(filled(b'{"code":%d,"a":' % code, b"{1", b"}", 32_000)),
    }


def framed(header):
    return struct.pack(">II", 4 + len(header), len(header)) + header


def bodies(code, size):
    """Return frames of a code with bodies of up to `size` bytes, by what is bad about them."""
    found = {name: frame(code, IDENTITY, text) for name, text in texts(size).items()}
    return found | {"compressed": frame(code, IDENTITY | {"compressed": "true"}, zlib.compress(bytes(1000)))}


def big_registrations(code, size):
    """Return frames of registrations of up to `size` bytes."""
    found = registrations(size) | compressed_registrations()
    return {name: frame(code, IDENTITY, text) for name, text in found.items()} | {
        "checksum": frame(code, IDENTITY | {"bodyCrc32": "1"}, bytes(size)),
        "in an old form": frame(code, IDENTITY, registrations(1000)["mappings"], version=30),
        "compressed as announced": frame(code, IDENTITY | {"compressed": "true"}, json.dumps("x").encode()),
    }
