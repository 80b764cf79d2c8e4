"""What an operator gets who requests a resize that cannot be: nothing is changed, and the answer says what to do."""

import pytest
from peers.acl import CONTROL, acl_2, request_as, servers_keys
from peers.jars import V5_5
from peers.servers import CLUSTER, registered
from peers.waiting import wait_until
from peers.wire import SUCCESS
from resize_site import UPDATE_TOPIC, ScalingClient, described

pytestmark = [pytest.mark.java, pytest.mark.soak]


def refused(site, topic, queues, **request):
    """Return the sentence with which a resize is refused as one that cannot be done."""
    status, body = site.request(topic, queues, **request)
    assert status == 422, body
    return body["error"]["message"]


def test_unknown_topic_is_refused(site):
    assert "no NameServer knows the topic Nowhere: create it" in refused(site, "Nowhere", 4)


@pytest.mark.parametrize(
    ("queues", "sentence"),
    [
        (0, "0 queues are too few: a topic needs at least 1 on each broker set"),
        (-1, "-1 queues are too few: a topic needs at least 1 on each broker set"),
        (1025, "1025 queues are above the limit of 1024 on each broker set"),
        (4, "has 4 queues on every broker set already"),
    ],
)
def test_number_of_queues_that_cannot_be_is_refused(site, queues, sentence):
    topic = site.make_topic(f"Number{queues}", 4)

    assert sentence in refused(site, topic, queues)
    assert site.is_everywhere(topic, 4)


@pytest.mark.parametrize(
    "body", [{"topic": "T"}, {"queues": 4}, {"topic": "T", "queues": "many"}, {"queue": 4}, [], None]
)
def test_request_of_another_shape_is_refused(site, body):
    status, answer = site.call("POST", "operations", body)

    assert status in {400, 422}
    assert answer["error"]["message"]


@pytest.mark.parametrize("topic", ["RMQ_SYS_TRANS_HALF_TOPIC", "TBW102", "SCHEDULE_TOPIC_XXXX"])
def test_topic_of_the_brokers_themselves_is_refused(site, topic):
    assert topic in refused(site, topic, 4)


def test_static_topic_is_refused(site):
    if site.is_4_9:
        pytest.skip("4.9 has no static topics")
    words = ["updateStaticTopic", "-t", "Static", "-qn", "4", "-c", CLUSTER]
    printed = site.lab.mqadmin().run(*words, namesrv=site.namesrv_addresses)
    wait_until(lambda: all(site.routed("Static")), seconds=30, what=f"its route: {printed}")

    assert "Static is a static topic: its queues are moved with remappingStaticTopic" in refused(site, "Static", 8)


def test_topic_with_order_conf_is_refused_and_says_which_resize_is_wanted(site):
    topic = site.make_topic("OrderConf", 4)
    site.put_order_conf(topic, "broker-a:4;broker-b:4")

    sentence = refused(site, topic, 2)

    assert "orderTopicConf says broker-a:4;broker-b:4" in sentence
    assert "--ordered pause (ordered: pause)" in sentence


def test_topic_with_order_flag_is_refused(site):
    if site.is_4_9:
        pytest.skip("4.9 does not store the flag")
    topic = site.make_topic("OrderFlag", 4, order=True)

    assert "order flag, message type, compaction" in refused(site, topic, 8)


def test_topic_that_nobody_may_write_is_refused(site):
    topic = site.make_topic("ReadOnly", 4, perm=4)

    assert "ReadOnly must be readable and writable (perm 6) on every broker" in refused(site, topic, 8)


def test_second_resize_of_a_topic_is_refused_while_the_first_is_under_way(site):
    topic = site.make_topic("Twice", 4)
    operation_id = site.start(topic, 8, waits={"grownWatchMs": 600_000})

    status, body = site.request(topic, 16)

    assert status == 409
    assert f"{operation_id} resizes Twice already" in body["error"]["message"]
    assert "wait for its end, or abort it" in body["error"]["message"]
    assert site.command(operation_id, "abort")[0] == 200
    site.wait_for_phase(operation_id, "ABORTED")
    assert site.is_everywhere(topic, 4)


@pytest.mark.parametrize("token", [None, "x" * 24], ids=["none", "another"])
def test_changes_need_the_token_of_the_controller(site, token):
    topic = site.make_topic(f"Token-{'none' if token is None else 'another'}", 4)
    for path in ("operations", "operations/x/abort", "operations/x/resume", "operations/x/waive"):
        answered, body = site.call("POST", path, {"topic": topic, "queues": 8}, token=token)
        assert (answered, bool(body["error"]["message"])) == (401, True)
    assert site.is_everywhere(topic, 4)


def test_unequal_brokers_are_refused_with_the_offer_to_equalise_which_works(site):
    topic = site.make_topic("Unequal", 4)
    site.set_counts(topic, "broker-b", read=8, write=8)
    wait_until(lambda: all(each["broker-b"] == (8, 8) for each in site.routed(topic)), seconds=30, what="the new route")

    sentence = refused(site, topic, 8)

    assert "brokers have different numbers of queues" in sentence
    assert "the same with --equalise (equalise) and 8 queues" in sentence
    assert "never removes queues: it needs at least 8 queues" in refused(site, topic, 6, equalise=True)
    operation = site.wait_until_done(site.start(topic, 8, equalise=True))
    assert site.is_everywhere(topic, 8), described(operation)


def test_unknown_operation_is_not_found(site):
    assert site.call("GET", "operations/nothing")[0] == 404
    assert site.command("nothing", "abort")[0] == 404


def test_command_that_does_not_fit_the_phase_is_refused(site):
    topic = site.make_topic("Fitting", 4)
    operation_id = site.start(topic, 8)
    status, body = site.command(operation_id, "resume")
    assert (status, "continues by itself" in body["error"]["message"]) == (409, True)
    site.wait_until_done(operation_id)

    for command in ("abort", "resume"):
        status, body = site.command(operation_id, command)
        assert (status, "has ended: DONE" in body["error"]["message"]) == (409, True)


def test_broker_that_denies_the_controller_or_does_not_answer_is_named(site):
    if site.version != V5_5:
        pytest.skip("the newest release is enough")
    topic, name = "Denied", "broker-d"
    broker = site.lab.broker(name, namesrv=site.namesrv_addresses, **acl_2()).start().ready()
    wait_until(lambda: all(registered(each, broker) for each in site.namesrvs), seconds=60, what="it is registered")
    fields = {"topic": topic, "defaultTopic": "TBW102", "readQueueNums": "4", "writeQueueNums": "4", "perm": "6"}
    fields |= {"topicFilterType": "SINGLE_TAG", "topicSysFlag": "0", "order": "false"}
    assert request_as(broker, CONTROL, UPDATE_TOPIC, fields).code == SUCCESS
    wait_until(lambda: all(name in each for each in site.routed(topic)), seconds=30, what="its route")
    with_keys = ScalingClient(site.new_controller("with-keys", **servers_keys(CONTROL))).ready()

    denied = refused(site, topic, 8)
    with_keys.wait_until_done(with_keys.start(topic, 8))
    wait_until(lambda: site.routed(topic) == [{name: (8, 8)}] * 2, seconds=30, what="its new route")
    broker.process.pause()
    silent = refused(with_keys, topic, 4)
    broker.process.kill()
    wait_until(lambda: not any(site.routed(topic)), seconds=60, what="the route has gone")
    gone = refused(with_keys, topic, 4)

    assert denied.startswith(f"{name} at {broker.address}: it denies this controller the request (code 16: ")
    assert "brokerAccessKey" in denied
    assert silent.startswith(f"{name} at {broker.address}: request to {broker.address} failed")
    assert gone == "no NameServer knows the topic Denied: create it, or start the brokers that have it."
