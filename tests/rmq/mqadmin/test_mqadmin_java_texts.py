"""Hash maps, numbers and JSON come as Java writes them; the expected values were printed by Java 17."""

import pytest

from remoting.admin.message_queues import MessageQueue
from rmq.mqadmin.java.hash_order import (
    concurrent_order,
    copied_capacity,
    hash_map_order,
    long_hash,
    queue_hash,
    string_hash,
    string_order,
)
from rmq.mqadmin.java.texts import (
    date_text,
    java_format,
    java_text,
    json_text,
    map_text,
    perm_text,
    pretty_json,
    time_text,
    version_text,
)

KEYS = [f"key{number}" for number in range(30)]
ORDER = [1, 2, 0, 5, 6, 3, 4, 9, 7, 8]
IN_A_MAP = [
    f"key{number}"
    for number in [*ORDER, 22, 21, 20, 15, 14, 13, 12, 19, 18, 17, 16, 11, 10, 26, 25, 24, 23, 29, 28, 27]
]


def test_hashes_are_those_of_java():
    queue = MessageQueue(topic="TopicTest", broker_name="broker-a", queue_id=3)

    assert [string_hash(text) for text in ("", "broker-a", "主题", "😀")] == [0, 372697965, 659901, 1772899]
    assert (queue_hash(queue), long_hash(1 << 40)) == (4072845098, 256)


def test_maps_list_their_keys_in_the_order_of_java():
    assert string_order(KEYS) == IN_A_MAP
    assert concurrent_order(KEYS) == IN_A_MAP
    # The 13th key makes a map of 16 twice as large; a concurrent one is so already with the 12th.
    assert string_order(KEYS[:13]) == [f"key{number}" for number in [*ORDER, 11, 10, 12]]
    assert concurrent_order(KEYS[:12]) == [f"key{number}" for number in [*ORDER, 11, 10]]


def test_queues_come_in_the_order_of_a_map_that_was_copied():
    queues = [MessageQueue(topic="T", broker_name="b", queue_id=number) for number in range(12)]

    ordered = hash_map_order(queues, queue_hash, copied_capacity(len(queues)))

    assert [each.queue_id for each in ordered] == [10, 11, 8, 9, 6, 7, 4, 5, 2, 3, 0, 1]


@pytest.mark.parametrize(
    ("form", "values", "text"),
    [
        ("%-6s|%6s|%04d%n", ("ab", None, 7), "ab    |  null|0007\n"),
        ("%.2f %9.2f %.1f", (0.125, 2.5, 0.25), "0.13      2.50 0.3"),
        ("%s %s %s", (True, 0.0, 12345678.9), "true 0.0 1.23456789E7"),
        ("%s", ("a\x1b[2Jb",), "a\\x1b[2Jb"),
    ],
)
def test_formats_are_those_of_java(form, values, text):
    assert java_format(form, *values) == text


def test_objects_are_written_as_java_writes_them():
    assert map_text({0: "127.0.0.1:10911", 1: "b"}) == "{0=127.0.0.1:10911, 1=b}"
    assert [perm_text(perm) for perm in (0, 2, 4, 6, 7)] == ["---", "-W-", "R--", "RW-", "RWX"]
    assert java_text(1e-5) == "1.0E-5"
    assert [version_text(number) for number in (0, 401, 513, 612, 99999)] == [
        "V3_0_0_SNAPSHOT",
        "V4_9_4",
        "V5_5_0",
        "HIGHER_VERSION",
        "HIGHER_VERSION",
    ]


def test_json_is_that_of_fastjson():
    value = {"a": {0: "x"}, "b": [], "c": [{"d": True}], "e": {}}

    assert json_text(value) == '{"a":{0:"x"},"b":[],"c":[{"d":true}],"e":{}}'
    assert pretty_json(value) == (
        '{\n\t"a":{\n\t\t0:"x"\n\t},\n\t"b":[],\n\t"c":[\n\t\t{\n\t\t\t"d":true\n\t\t}\n\t],\n\t"e":{}\n}'
    )


def test_times_that_no_calendar_has_are_numbers():
    assert date_text(2**63 - 1).startswith("292278994-08-17 ")
    assert (date_text(10**25), time_text(10**25)) == (str(10**25), f"{10**25},000")
