"""What one peer says and others are sent: how long it may be, and what is left of it."""

import json

import pytest
from builders import text_of

from namesrv.core.registration.registration import HEARTBEAT_TIMEOUT_MS_MAX, MEMBERS_MAX, MEMBERS_OF_HOST_MAX
from namesrv.core.tables.live_table import LiveKey
from namesrv.refusals import KvTooLong
from namesrv.settings.durable_settings import KV_CHARS_MAX, KV_VALUE_CHARS_MAX
from remoting.protocol.codes import RequestCode, ResponseCode

MASTER = {"clusterName": "C", "brokerName": "broker-a", "brokerAddr": "10.0.0.1:10911", "brokerId": "0"}
SLAVE = MASTER | {"brokerAddr": "10.0.0.2:10911", "brokerId": "1"}
TOPICS = text_of({"T": 6, "U": 6})


def register(desk, fields, body=TOPICS, **more):
    return desk.request(RequestCode.REGISTER_BROKER, fields, body, **more)


async def route(desk):
    return (await desk.request(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "T"})).body


@pytest.mark.parametrize(
    ("field", "text"),
    [
        ("clusterName", "c" * 256),
        ("clusterName", "a\nb"),
        ("brokerName", "b" * 256),
        ("brokerName", "\x01"),
        ("brokerAddr", "h" * 250 + ":1"),
        ("brokerAddr", "10.0.0.2"),
        ("brokerAddr", "10.0.0.2:0"),
        ("brokerAddr", "10.0.0.2:70000"),
        ("brokerAddr", "10.0.0.2:1\r\n"),
        ("haServerAddr", "\x01" * 3_000),
        ("haServerAddr", "x" * 200_000),
        ("__ZONE_NAME", "z" * 256),
        ("__ZONE_NAME", "a\x00"),
    ],
)
async def test_invalid_names_and_addresses_are_refused(desk, field, text):
    await register(desk, MASTER)
    before = await route(desk)
    answer = await register(desk, SLAVE | {field: text})
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert answer.remark.startswith(f"REGISTER_BROKER: {field} ")
    assert len(answer.remark) < 1000
    assert await route(desk) == before


@pytest.mark.parametrize("hidden", ["\x00", "\n", "\x1b[2J", "\x9b", "\u200b", "\u202e", "\u2028"])
async def test_topics_with_hidden_characters_are_left_out(desk, hidden):
    # Once in a body as brokers write it, and once as others do.
    for topic_name in (f"a{hidden}b", ""):
        table = {name: {"topicName": name, "perm": 6} for name in ("T", "U")}
        table[f"a{hidden}b"] = {"perm": 6} | ({"topicName": topic_name} if topic_name else {})
        body = {"topicConfigSerializeWrapper": {"topicConfigTable": table}}
        assert (await register(desk, MASTER, json.dumps(body).encode())).code == 0
    listed = await desk.request(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER)
    assert sorted(json.loads(listed.body)["topicList"]) == ["T", "U"]
    answer = await desk.request(
        RequestCode.REGISTER_TOPIC_IN_NAMESRV,
        {"topic": f"a{hidden}b"},
        b'{"queueDatas":[{"brokerName":"broker-a","perm":6}]}',
    )
    assert (answer.code, answer.remark.startswith("REGISTER_TOPIC_IN_NAMESRV: topic cannot be")) == (1, True)


@pytest.mark.parametrize(
    "fields",
    [
        {"brokerAddr": "[fe80::1%eth0]:10911"},
        {"brokerAddr": "rocketmq_broker.example-1.svc.cluster.local:65535"},
        {"haServerAddr": "10.0.0.2:10912", "__ZONE_NAME": "zone 1", "clusterName": "c" * 255},
        {"haServerAddr": "", "__ZONE_NAME": ""},
    ],
)
async def test_what_brokers_send_is_taken(desk, fields):
    assert (await register(desk, MASTER | fields)).code == ResponseCode.SUCCESS


async def test_a_set_has_a_limit_of_members_which_those_it_has_do_not_feel(desk):
    fields = [MASTER | {"brokerId": str(number), "brokerAddr": f"h:{number + 1}"} for number in range(MEMBERS_MAX + 1)]
    # From several hosts, as one alone may not have that many.
    answers = [await register(desk, each, connection=number // 25) for number, each in enumerate(fields)]
    assert [answer.code for answer in answers] == [0] * MEMBERS_MAX + [1]
    assert answers[-1].remark == "the set broker-a has 100 brokers, which is the limit"
    assert (await register(desk, fields[0])).code == 0
    assert (await register(desk, MASTER | {"brokerName": "broker-b"})).code == 0


@pytest.mark.parametrize("hidden", ["\u200d", "\u200c", "\u00ad", "\x9b"])
async def test_refusal_of_a_name_shows_which_character_is_not_shown(desk, hidden):
    name = "b" * 100 + hidden
    answer = await register(desk, MASTER | {"brokerName": name})
    added = await desk.request(RequestCode.REGISTER_TOPIC_IN_NAMESRV, {"topic": name})
    for remark in (answer.remark, added.remark):
        assert f"it has characters that are not shown: {ascii(hidden)[1:-1]}; leave them out" in remark


async def test_of_a_set_one_host_has_a_share_of_the_members(desk):
    assert (await register(desk, MASTER, connection=2)).code == 0
    fields = [MASTER | {"brokerId": str(number), "brokerAddr": f"h:{number}"} for number in range(1, 34)]
    answers = [await register(desk, each) for each in fields]
    assert [answer.code for answer in answers] == [0] * MEMBERS_OF_HOST_MAX + [1]
    assert answers[-1].remark == "the set broker-a has 32 brokers of this host, which is the limit"
    assert (await register(desk, fields[-1], connection=2)).code == 0


async def test_the_most_that_a_slave_can_add_to_a_route_is_little(desk):
    await register(desk, MASTER)
    before = await route(desk)
    servers = [f"{'h' * 200}:{number + 1}" for number in range(20_000)]
    body = json.loads(TOPICS) | {"filterServerList": servers}
    more = {"brokerAddr": "h" * 249 + ":1", "haServerAddr": "h" * 249 + ":1", "__ZONE_NAME": "z" * 255}
    assert (await register(desk, SLAVE | more, json.dumps(body).encode())).code == 0
    assert len(await route(desk)) - len(before) < 5_000


async def test_forged_values_end_with_the_next_registration_of_the_broker(desk):
    """It was kept for good where the broker only repeats itself, as nearly all do."""
    await register(desk, MASTER)
    before = await route(desk)
    stranger = {"topicConfigSerializeWrapper": {"dataVersion": {"counter": 1, "timestamp": 1}}}
    stranger["filterServerList"] = ["10.6.6.6:6"]
    await register(desk, MASTER, json.dumps(stranger).encode(), connection=2)
    assert b"10.6.6.6" in await route(desk)
    await register(desk, MASTER)
    assert await route(desk) == before


async def test_no_broker_stays_for_more_than_a_day_without_a_sign_of_life(desk):
    await register(desk, MASTER | {"heartbeatTimeoutMillis": str(2**62)})
    row = desk.state.tables.live.get(LiveKey("broker-a", "10.0.0.1:10911"))
    assert row.timeout_ms == HEARTBEAT_TIMEOUT_MS_MAX == 24 * 3600 * 1000


@pytest.mark.parametrize("field", ["namespace", "key", "value"])
async def test_a_kv_entry_that_is_too_long_is_refused(desk, field):
    fields = {"namespace": "n", "key": "k", "value": "v"}
    answer = await desk.request(RequestCode.PUT_KV_CONFIG, fields | {field: "x" * (KV_VALUE_CHARS_MAX + 1)})
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert f"characters of the {field}: " in answer.remark
    assert desk.settings.kv.table == {}


async def test_a_full_kv_table_takes_no_more_and_entries_can_be_deleted(desk):
    count = KV_CHARS_MAX // KV_VALUE_CHARS_MAX
    # Another host has put half of it: one may not put more.
    for number in range(count // 2 - 1):
        await desk.settings.put_kv("n", f"other-{number}", "x" * KV_VALUE_CHARS_MAX, "10.9.9.9")
    answers = [
        await desk.request(
            RequestCode.PUT_KV_CONFIG, {"namespace": "n", "key": f"k{number}", "value": "x" * KV_VALUE_CHARS_MAX}
        )
        for number in range(count // 2)
    ]
    assert [answer.code for answer in answers] == [0] * (count // 2 - 1) + [1]
    assert "this host" in answers[-1].remark
    for number in range(2):
        await desk.settings.put_kv("n", f"more-{number}", "x" * (KV_VALUE_CHARS_MAX - 2_000), "10.9.9.8")
    with pytest.raises(KvTooLong, match="characters of the KV table"):
        await desk.settings.put_kv("n", "last", "x" * 5_000, "10.9.9.8")
    assert (await desk.request(RequestCode.DELETE_KV_CONFIG, {"namespace": "n", "key": "k0"})).code == 0
    assert (await desk.request(RequestCode.PUT_KV_CONFIG, {"namespace": "n", "key": "z", "value": "v"})).code == 0
