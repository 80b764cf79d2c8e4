"""`rmq topic scale` and `rmq scaling` at a controller of ours, with a master on loopback that has the topic."""

import pytest
from answering_peer import AnsweringPeer, answer
from fakes.offset_broker import CLUSTER, offset_brokers_in_thread
from group_broker import GroupBroker
from peers.controllers import OurController
from peers.lab import Lab
from peers.waiting import wait_until
from rmq_runs import Rmq

TOKEN = "0123456789abcdef-of-the-tests"
WAIT_S = 60


@pytest.fixture(scope="module")
def broker():
    found = GroupBroker()
    found.topics |= {"payments": dict.fromkeys(range(4), (0, 10)), "SCHEDULE_TOPIC_XXXX": {}}
    found.topics["priorities"] = {0: (0, 0)}
    found.attributes["priorities"] = {"message.type": "PRIORITY"}
    found.topics["waived"] = dict.fromkeys(range(4), (0, 10))
    found.offsets["waived@retired"] = {0: 10}
    with offset_brokers_in_thread(found):
        yield found


@pytest.fixture(scope="module")
def controller(tmp_path_factory, broker):
    lab = Lab(tmp_path_factory.mktemp("scaling"))
    token = lab.folder / "token"
    token.write_text(f"{TOKEN}\n")
    properties = {"namesrvAddr": broker.address, "httpAdminTokenFile": token}
    try:
        found = lab.kept(OurController(lab.folder, **properties)).start()
        wait_until(found.serves, seconds=WAIT_S, what="the controller leads")
        site = Rmq(lab.folder / "starting", RMQ_CONTROLLER_HTTP=f"http://127.0.0.1:{found.http_port}")
        wait_until(lambda: site.run("scaling", "list").code == 0, seconds=WAIT_S, what="operations are loaded")
        yield found
    finally:
        lab.close()


@pytest.fixture
def rmq(tmp_path, broker, controller):
    token = tmp_path / "token"
    token.write_text(TOKEN)
    token.chmod(0o600)
    return Rmq(
        tmp_path / "operator",
        NAMESRV_ADDR=broker.address,
        RMQ_CONTROLLER_HTTP=f"http://127.0.0.1:1;http://127.0.0.1:{controller.http_port}",
        RMQ_ADMIN_TOKEN_FILE=str(token),
    )


def test_plan_is_shown_and_nothing_started(rmq):
    rows = rmq.items("topic", "scale", "orders", "--queues", "4", "--dry-run")
    asked = rmq.run("topic", "scale", "orders", "--queues", "4")

    assert [row["text"] for row in rows if row["what"] == "set"] == ["read 2 -> 4, write 2 -> 4"]
    assert "WRITE_UP" in {row["name"] for row in rows if row["what"] == "phase"}
    assert (asked.code, "Resize topic orders to 4 queues on each of 1 broker sets" in asked.err) == (2, True), asked
    assert rmq.items("scaling", "list") == []


def test_resize_is_started_listed_shown_and_aborted(rmq):
    (started,) = rmq.items("topic", "scale", "payments", "--queues", "8", "--reason", "sale", "--yes")
    (listed,) = rmq.items("scaling", "list", "pay")
    steps = rmq.items("scaling", "show", started["id"])

    assert (started["topic"], started["kind"], started["reason"]) == ("payments", "grow", "sale")
    assert started["queues"] == {"broker-a": "4/4->8/8"}
    assert listed["id"] == started["id"]
    assert (steps[0]["phase"], steps[-1]["state"]) == ("PLANNED", "present")
    assert isinstance(rmq.items("scaling", "hindrances", "payments"), list)
    planned = rmq.run("topic", "scale", "payments", "--queues", "12", "--dry-run")
    deleted = rmq.run("topic", "delete", "payments", "--cluster", CLUSTER)
    assert (planned.code, f"{started['id']} resizes payments already" in planned.err) == (1, True), planned
    assert (deleted.code, f"Resize {started['id']} of it is under way" in deleted.err) == (2, True), deleted

    (shown,) = rmq.items("scaling", "abort", started["id"], "--reason", "no sale", "--dry-run")
    assert shown["state"] == "planned"
    assert (shown["isUndone"] or shown["phase"] == "ABORTED", shown["problem"]) == (
        True,
        "aborted by the operator: no sale",
    )
    assert not is_undone(*rmq.items("scaling", "list", "pay"))
    resumed = rmq.run("scaling", "resume", started["id"], "--dry-run")
    assert (resumed.code, "continues by itself" in resumed.err) == (1, True), resumed

    asked = rmq.run("scaling", "abort", started["id"])
    (aborted,) = rmq.items("scaling", "abort", started["id"], "--reason", "no sale", "--yes")
    assert aborted["state"] == "done"
    assert (asked.code, "Undo the resize of payments" in asked.err) == (2, True)
    wait_until(lambda: is_undone(*rmq.items("scaling", "list", "pay")), seconds=WAIT_S, what="the undo")


def is_undone(resize):
    """A machine that is slow between two commands has it in use by then: it is drained first, which takes long."""
    return resize["phase"] == "ABORTED" or resize["isUndone"]


def test_resize_that_cannot_be_says_why(rmq):
    ran = rmq.run("topic", "scale", "orders", "--queues", "2", "--yes", "-o", "json")

    assert (ran.code, "orders cannot be resized" in ran.err) == (1, True), ran
    assert "problem" in {row["what"] for row in ran.items}


@pytest.mark.parametrize(("away", "code"), [([], 4), (["broker-b"], 7)])
def test_topic_without_a_route_is_unknown_unless_a_set_is_away(rmq, away, code):
    gone = {"cluster": CLUSTER, "awaySinceUnixMs": 1, "wasUnregistered": False, "brokerAddrs": {}}
    here = {"cluster": CLUSTER, "brokerName": "broker-z", "brokerAddrs": {"0": "z:1"}}
    tables = {"brokerAddrTable": {"broker-z": here}, "clusterAddrTable": {CLUSTER: ["broker-z"]}}
    body = tables | {"awayBrokerSets": [gone | {"brokerName": each} for each in away]}
    server = AnsweringPeer({106: answer(body), 105: answer(code=17, remark="no route"), 206: answer({"topicList": []})})
    rmq.environment["NAMESRV_ADDR"] = server.address
    ran = rmq.run("topic", "scale", "absent", "--queues", "4", "--yes")
    server.close()

    assert (ran.code, "create it" in ran.err, "away since" in ran.err) == (code, False, bool(away)), ran


def test_group_that_nobody_waits_for_is_waived_with_the_plan(rmq):
    words = ("topic", "scale", "waived", "--queues", "2", "--dry-run")
    refused = rmq.run(*words)
    grown = rmq.items("topic", "scale", "waived", "--queues", "8", "--dry-run")

    assert (refused.code, "--waive retired (options.waivedGroups)" in refused.err) == (1, True), refused
    assert {row["what"] for row in rmq.items(*words, "--waive", "retired")} >= {"set", "group"}
    assert not any("messages to consume" in row["text"] for row in grown)


def test_topic_whose_number_of_queues_has_a_meaning_is_planned_if_the_operator_says_so(rmq, broker):
    words = ("topic", "scale", "priorities", "--queues", "4", "--dry-run")
    refused = rmq.run(*words)

    assert (refused.code, "priorities has message.type PRIORITY" in refused.err) == (1, True), refused
    assert "set" in {row["what"] for row in rmq.items(*words, "--ignore-message-type")}


def test_autoscaler_without_policies_proposes_nothing(rmq):
    assert rmq.items("scaling", "proposals") == []
    assert rmq.items("scaling", "decisions") == []


@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        (("scaling", "show", "absent"), 4, "absent"),
        (("scaling", "abort", "a/../b", "--yes"), 4, "a/../b"),
        (("scaling", "approve", "absent", "--yes"), 4, "no proposal absent"),
        (("scaling", "dismiss", "absent", "--yes"), 4, "no proposal absent"),
        (("scaling", "waive", "absent", "g", "--yes"), 4, "absent"),
        (("scaling", "give-up", "absent", "broker-a", "--yes"), 4, "absent"),
        (("topic", "scale", "orders", "--queues", "0"), 2, "0 is not in the range"),
        (("topic", "scale", "bad name", "--queues", "4", "--yes"), 1, "topic"),
    ],
)
def test_what_cannot_be_is_one_sentence(rmq, words, code, sentence):
    ran = rmq.run(*words)

    assert (ran.code, sentence in ran.err) == (code, True), ran


@pytest.mark.parametrize(
    "words", [("topic", "scale", "orders", "--queues", "4", "--yes"), ("scaling", "abort", "x", "--dry-run")]
)
def test_change_without_the_token_is_no_rights(rmq, words):
    rmq.environment["RMQ_ADMIN_TOKEN_FILE"] = ""
    ran = rmq.run(*words)

    assert (ran.code, "--admin-token-file" in ran.err) == (5, True), ran
