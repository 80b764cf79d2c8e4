"""`rmq group` at a master that stores offsets: what it shows, and what it changes."""

import asyncio
import os
import pty
import subprocess
import sys

import pytest
from answering_peer import AnsweringPeer
from fakes.offset_broker import offset_brokers, offset_brokers_in_thread
from group_broker import STORED_MS, GroupBroker
from rmq_runs import Rmq
from rmq_watchers import watching

from remoting.protocol.codes import BrokerRequestCode, ResponseCode
from rmq.commands.group_reset import (
    BrokerReset,
    QueueFacts,
    ResetTarget,
    ResetWay,
    TargetKind,
    WantedReset,
    carry_out_all,
    failure_in,
    planned_row,
)
from rmq.site.settings import settings_of
from rmq.site.site import Site

QUEUE = QueueFacts(queue_id=0, old=40, min_offset=0, max_offset=100)
COMMIT = ResetWay.COMMIT
MEMBERS = BrokerRequestCode.GET_CONSUMER_CONNECTION_LIST
PROGRESS = BrokerRequestCode.GET_CONSUME_STATS
RESET_OFFSET = BrokerRequestCode.INVOKE_BROKER_TO_RESET_OFFSET
RESET = ("group", "reset", "billing", "--topic", "orders")


@pytest.fixture
def broker():
    found = GroupBroker()
    found.offsets = {"orders@billing": {0: 40, 1: 0}}
    with offset_brokers_in_thread(found):
        yield found


@pytest.fixture
def rmq(broker, tmp_path):
    return Rmq(tmp_path / "operator", NAMESRV_ADDR=broker.address)


def test_groups_are_listed_without_those_of_brokers(broker, rmq):
    broker.groups |= {name: {"groupName": name} for name in ("TOOLS_CONSUMER", "CID_RMQ_SYS_TRANS", "订单", "a<b>")}

    names = [row["group"] for row in rmq.items("group", "list")]
    assert names == ["a<b>", "billing", "订单"]
    assert [row["group"] for row in rmq.items("group", "list", "bil*")] == ["billing"]
    assert len(rmq.items("group", "list", "--all")) == 5


def test_long_list_has_members_lag_and_rate_and_unknown_lag_is_not_zero(broker, rmq):
    broker.groups["audit"] = {"groupName": "audit"}
    broker.groups["idle"] = {"groupName": "idle"}
    broker.offsets = {"orders@billing": {0: 40, 1: 100}, "orders@idle": {}}
    broker.online, broker.holds = {"billing": "CLUSTERING"}, {"c1": []}

    rows = {row["group"]: row for row in rmq.items("group", "list", "--long")}

    assert (rows["billing"]["lag"], rows["billing"]["clients"], rows["billing"]["consumeTps"]) == (60, 1, 1.5)
    assert (rows["billing"]["consumeType"], rows["billing"]["unknownQueues"]) == ("CONSUME_PASSIVELY", 0)
    assert (rows["idle"]["lag"], rows["idle"]["unknownQueues"]) == ("unknown", 2)
    assert (rows["audit"]["lag"], rows["audit"]["clients"]) == ("unknown", 0)


def test_groups_are_watched_by_name_alone(broker, rmq):
    with watching(rmq, "group", "list", "--watch", "-o", "jsonl") as watcher:
        watcher.wait_for(lambda: watcher.types("group") == [("ADDED", "billing")], "the group is there")
        broker.groups["audit"] = {"groupName": "audit"}
        watcher.wait_for(lambda: watcher.types("group")[1:] == [("ADDED", "audit")], "another one is added")
        watcher.interrupt()
    refused = rmq.run("group", "list", "--long", "--watch")

    assert (refused.code, "leave it out to watch the names" in refused.err) == (2, True), refused


@pytest.mark.parametrize(("code", "field"), [(MEMBERS, "clients"), (PROGRESS, "lag")])
def test_what_a_master_refuses_to_show_is_unknown_and_not_zero(broker, rmq, code, field):
    broker.online, broker.holds = {"billing": "CLUSTERING"}, {"c1": []}
    broker.instead[code] = ResponseCode.SYSTEM_ERROR

    ran = rmq.run("group", "list", "--long", "-o", "json")

    assert (ran.code, ran.items[0][field]) == (7, "unknown"), ran
    assert f"{broker.address}: refused with code 1" in ran.err


@pytest.mark.parametrize("verb", ["lag", "show"])
def test_members_that_a_master_refuses_to_show_leave_the_answer_partial(broker, rmq, verb):
    broker.instead[MEMBERS] = ResponseCode.SYSTEM_ERROR

    ran = rmq.run("group", verb, "billing", "-o", "json")

    assert (ran.code, len(ran.items) > 0, "refused with code 1" in ran.err) == (7, True, True), ran


def test_lag_tells_a_stored_zero_from_no_offset_and_names_who_holds_a_queue(broker, rmq):
    broker.topics["orders"][2] = (0, 7)
    broker.online, broker.holds = {"billing": "CLUSTERING"}, {"c1": [("orders", 0)], "c2": [("orders", 1)]}

    rows = rmq.items("group", "lag", "billing")

    assert [(row["queueId"], row["consumerOffset"], row["diff"], row["clients"]) for row in rows] == [
        (0, 40, 60, ["c1"]),
        (1, 0, 100, ["c2"]),
        (2, None, "unknown", None),
    ]
    assert "no offset" in rows[2]["reason"]
    assert rows[0]["lastConsumedUnixMs"] == STORED_MS
    assert (
        "lag at least 160. Known: 160 messages in 2 queues. Unknown: 1 queue."
        in rmq.run("group", "lag", "billing", "--no-clients").err
    )


def test_lag_is_shown_although_a_member_hangs(broker, rmq):
    broker.online, broker.holds = {"billing": "CLUSTERING"}, {"c1": [("orders", 0)], "hangs": None}

    ran = rmq.run("group", "lag", "billing", "--topic", "orders", "--timeout", "2", "-o", "json")

    assert (ran.code, [row["clients"] for row in ran.items]) == (0, [["c1"], None])
    assert "did not say which queues they hold: hangs" in ran.err


def test_offset_beyond_the_end_is_unknown_lag(broker, rmq):
    broker.offsets["orders@billing"][0] = 101

    row = rmq.items("group", "lag", "billing", "--no-clients")[0]

    assert (row["diff"], "beyond the end" in row["reason"]) == ("unknown", True)


def test_offsets_that_are_stored_are_listed_also_of_queues_that_are_gone(broker, rmq):
    broker.offsets["gone@billing"] = {5: 9}

    rows = rmq.items("group", "offsets", "billing")

    assert [(row["topic"], row["queueId"], row["offset"]) for row in rows] == [
        ("gone", 5, 9),
        ("orders", 0, 40),
        ("orders", 1, 0),
    ]


def test_members_and_subscriptions_are_shown(broker, rmq):
    broker.online, broker.holds = {"billing": "CLUSTERING"}, {"c1\x1b[2J": [], "<script>": []}

    rows = rmq.items("group", "connections", "billing")
    (subscription,) = rmq.items("group", "connections", "billing", "--subscriptions")

    assert {row["clientId"] for row in rows} == {"c1\x1b[2J", "<script>"}
    assert {(row["version"], row["language"]) for row in rows} == {("V5_1_4", "JAVA")}
    assert (subscription["expression"], subscription["expressionType"]) == ("paid || sent", "TAG")
    assert "\x1b" not in rmq.run("group", "connections", "billing").out


def test_group_is_shown_with_settings_and_members(broker, rmq):
    (row,) = rmq.items("group", "show", "billing")

    assert (row["brokerName"], row["retryQueueNums"], row["consumeEnable"], row["clients"]) == ("broker-a", 1, True, 0)


@pytest.mark.parametrize("verb", ["show", "lag", "offsets", "connections"])
def test_unknown_group_is_answered_with_names_like_it(broker, rmq, verb):
    ran = rmq.run("group", verb, "biling")

    assert (ran.code, ran.err) == (4, "rmq: no group biling; did you mean billing?\n")


def test_dry_run_of_a_reset_shows_old_new_and_what_is_read_again_or_skipped(broker, rmq):
    rows = rmq.items(*RESET, "--to", "latest", "--dry-run")
    back = rmq.items(*RESET, "--to", "earliest", "--dry-run")

    assert [(row["old"], row["new"], row["messagesAgain"], row["messagesSkipped"]) for row in rows] == [
        (40, 100, 0, 60),
        # Messages before the beginning are gone already.
        (0, 100, 0, 90),
    ]
    assert [(row["new"], row["messagesAgain"], row["state"]) for row in back] == [
        (0, 40, "planned"),
        (10, 0, "planned"),
    ]
    assert broker.written == []


def test_reset_without_a_terminal_needs_yes_and_says_what_it_would_do(broker, rmq):
    ran = rmq.run(*RESET, "--to", "latest")

    assert (ran.code, broker.written) == (2, [])
    assert "in 2 queues of topic orders: 0 messages are read again, 150 are skipped" in ran.err


def test_reset_in_a_terminal_shows_each_queue_before_it_asks(broker, rmq):
    ours, its = pty.openpty()
    command = [sys.executable, "-m", "rmq", *RESET, "--to", "earliest"]
    process = subprocess.Popen(command, env=rmq.environment, stdin=its, stdout=subprocess.DEVNULL, stderr=its)
    os.close(its)
    shown = b""
    while b"]: " not in shown:
        shown += os.read(ours, 4096)
    os.write(ours, b"n\n")

    assert process.wait(timeout=60) == 130
    os.close(ours)
    assert shown.index(b"messagesAgain") < shown.index(b"Reset group billing")
    assert broker.written == []


def test_reset_commits_and_resets_each_queue_at_a_broker_that_resets_on_its_side(broker, rmq):
    rows = rmq.items(*RESET, "--to", "20", "--yes")

    assert [(row["queueId"], row["new"], row["state"], row["way"]) for row in rows] == [
        (0, 20, "done", "reset"),
        (1, 20, "done", "reset"),
    ]
    assert sorted(broker.written) == sorted(
        (how, "orders@billing", queue, 20) for queue in range(2) for how in ("commit", "reset")
    )


def test_reset_of_one_queue_to_a_time(broker, rmq):
    words = ("--to", "2023-11-14T22:13:20Z", "--broker", "broker-a", "--queue", "1", "--yes")
    # The last message is from before: the group goes to the end.
    assert [row["new"] for row in rmq.items(*RESET, *words)] == [100]
    assert {queue for _, _, queue, _ in broker.written} == {1}


def test_members_of_an_old_broker_are_sent_to_a_time_and_not_to_an_offset(broker, rmq):
    broker.resets_on_server = False
    broker.online, broker.holds = {"billing": "CLUSTERING"}, {"c1": []}

    rows = rmq.items(*RESET, "--to", "1970-01-01T00:00:00Z", "--yes")
    offset = rmq.run(*RESET, "--to", "20", "--yes")
    one = rmq.run(*RESET, "--to", "earliest", "--broker", "broker-a", "--queue", "0", "--yes")

    assert [(row["way"], row["state"], row["new"]) for row in rows] == [("members", "done", 60)] * 2
    assert broker.members_sent == [("orders", 0)]
    assert broker.written == []
    assert (offset.code, one.code) == (2, 2)
    assert "stop them, or reset to a time" in offset.err


def test_offsets_are_committed_for_a_group_without_members_at_an_old_broker(broker, rmq):
    broker.resets_on_server = False

    assert {row["way"] for row in rmq.items(*RESET, "--to", "earliest", "--yes")} == {"commit"}
    assert sorted(broker.written) == [("commit", "orders@billing", 0, 0), ("commit", "orders@billing", 1, 10)]


def test_reset_that_a_broker_refuses_in_part_is_partly_done(broker, rmq):
    broker.pending = {("orders@billing", 0): 7}
    broker.resets_on_server = False

    ran = rmq.run(*RESET, "--to", "latest", "--yes", "-o", "json")

    assert (ran.code, [row["state"] for row in ran.items]) == (7, ["failed", "done"])
    assert "waits for the group's next pull" in ran.items[0]["detail"]


def test_offset_that_is_stored_without_its_reset_is_not_called_failed(broker, rmq):
    broker.instead[RESET_OFFSET] = ResponseCode.SYSTEM_ERROR

    ran = rmq.run(*RESET, "--to", "latest", "--yes", "-o", "json")

    assert (ran.code, {row["state"] for row in ran.items}) == (1, {"unknown"}), ran
    assert "its offset is stored (15), but the reset (222) failed: refused with code 1" in ran.items[0]["detail"]


async def test_after_a_broker_that_fails_the_reset_goes_no_further():
    first, second = GroupBroker(), GroupBroker("broker-b")
    first.instead[BrokerRequestCode.UPDATE_CONSUMER_OFFSET] = ResponseCode.SYSTEM_ERROR
    wanted = WantedReset("billing", "orders", ResetTarget(TargetKind.LATEST), None)
    site = Site(settings_of({}, {}, {}))
    async with offset_brokers(first, second):
        planned = [
            BrokerReset(each.name, each.address, COMMIT, [planned_row(each.name, QUEUE, wanted.target, COMMIT)])
            for each in (first, second)
        ]
        outcomes = await carry_out_all(site, wanted, planned)
        await site.close()

    assert [each.row.state for each in outcomes] == ["failed", "not_sent"]
    assert second.written == []


async def test_reset_that_is_interrupted_shows_what_may_be_done():
    silent, second = AnsweringPeer({BrokerRequestCode.UPDATE_CONSUMER_OFFSET: None}), GroupBroker("broker-b")
    wanted = WantedReset("billing", "orders", ResetTarget(TargetKind.LATEST), None)
    site = Site(settings_of({}, {}, {}))
    async with offset_brokers(second):
        planned = [
            BrokerReset(name, address, COMMIT, [planned_row(name, QUEUE, wanted.target, COMMIT)])
            for name, address in (("broker-a", silent.address), (second.name, second.address))
        ]
        command = asyncio.create_task(carry_out_all(site, wanted, planned))
        while not silent.received:
            await asyncio.sleep(0.01)
        command.cancel()
        outcomes = await command
        await site.close()
    silent.close()

    assert [each.row.state for each in outcomes] == ["unknown", "not_sent"]
    assert (failure_in(outcomes).exit_code, second.written) == (130, [])


@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        (("--to", "soon"), 2, "soon is not earliest, latest, an offset, or a time"),
        (("--to", "9999999999999"), 2, "has offsets from 0 to 100"),
        (("--to", str(1 << 64)), 2, "greater than any offset"),
        (("--to", "latest", "--queue", "1"), 2, "--queue needs --broker"),
        (("--to", "latest", "--broker", "broker-z"), 4, "no broker set of this topic broker-z; did you mean broker-a?"),
        (("--to", "latest", "--broker", "broker-a", "--queue", "9"), 4, "no queue 9"),
        (("--to", "latest", "--topic", "ordres"), 4, "did you mean orders?"),
    ],
)
def test_reset_that_cannot_be_is_one_sentence(broker, rmq, words, code, sentence):
    ran = rmq.run(*RESET, *words, "--yes")

    assert (ran.code, sentence in ran.err) == (code, True), ran
    assert broker.written == []


def test_reset_of_a_broadcasting_group_is_refused(broker, rmq):
    broker.online, broker.holds = {"billing": "BROADCASTING"}, {"c1": []}

    ran = rmq.run(*RESET, "--to", "latest", "--yes")

    assert (ran.code, "they keep their offsets themselves" in ran.err) == (1, True)


def test_group_is_created_and_deleted_with_its_offsets(broker, rmq):
    rmq.items("group", "create", "new", "--broker", "broker-a", "--orderly", "--retry-max", "3", "--yes")
    rmq.items("group", "delete", "billing", "--cluster", "DefaultCluster", "--yes")

    assert (broker.groups, broker.offsets) == ({}, {})
    assert 200 in [code for code, _ in broker.peer.received]
    assert rmq.run("group", "delete", "billing", "--cluster", "DefaultCluster", "--yes").code == 4
    assert rmq.run("group", "create", "new").code == 2


def test_question_about_a_group_that_may_exist_says_so(broker, rmq):
    broker.instead[BrokerRequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG] = ResponseCode.SYSTEM_ERROR

    ran = rmq.run("group", "create", "billing", "--broker", "broker-a")

    assert (ran.code, "Create, or replace all settings of, group billing on" in ran.err) == (2, True), ran


def test_shells_are_offered_groups(broker, rmq):
    broker.groups |= {"billing-2": {"groupName": "billing-2"}, "bill$(id)": {"groupName": "bill$(id)"}}
    rmq.environment |= {"_RMQ_COMPLETE": "bash_complete", "COMP_WORDS": "rmq group lag bil", "COMP_CWORD": "3"}

    assert rmq.run().out.split() == ["plain,billing", "plain,billing-2"]
