"""What `rmq` shows and changes at two NameServers and a controller of ours."""

import contextlib
import csv
import io
import json
import os
import pty
import subprocess
import sys
import time
import urllib.request

import pytest
from answering_peer import AnsweringPeer, answer
from peers.lab import Lab
from peers.replicas import Replica
from peers.servers import OurNameServer
from peers.waiting import wait_until
from rmq_brokers import (
    DELETE_TOPIC,
    GET_CONFIG,
    MAX_OFFSET,
    MIN_OFFSET,
    ODD_NAMES,
    RUNTIME,
    TOPIC_CONFIG,
    UPDATE_CONFIG,
    UPDATE_TOPIC,
    register,
)
from rmq_runs import Rmq

from rmq.commands.config import SECRET_WORDS, _shown
from serving.config import server_kind

CREATE = ("topic", "create", "Orders", "--broker", "broker-a")


@pytest.fixture
def lab(tmp_path):
    with contextlib.closing(Lab(tmp_path)) as lab:
        yield lab


def sent(site, code):
    return [fields for each, fields in site.broker.received if each == code]


def test_status_of_servers_that_agree_is_well(site):
    rows = site.rmq.items("status")

    assert [(row["kind"], row["state"]) for row in rows] == [
        ("namesrv", "ok"),
        ("namesrv", "ok"),
        ("controller", "ok"),
        ("brokerSet", "ok"),
        ("broker", "ok"),
    ]


def test_status_shows_name_servers_that_differ_and_sets_without_a_master(site):
    slave = register(site.ns1, "broker-b", site.broker.address.replace("127.0.0.1", "localhost"), [], broker_id=1)
    try:
        ran = site.rmq.run("status", "-o", "json")
    finally:
        slave.close()

    states = {(row["kind"], row["name"]): row["state"] for row in ran.items}
    assert ran.code == 7
    assert states["namesrv", site.ns2.address] == "differs"
    assert states["brokerSet", "broker-b"] == "no_master"


def test_status_goes_on_where_a_name_server_is_away(site):
    ran = site.rmq.run("status", "-o", "json", "-n", f"127.0.0.1:1;{site.ns2.address}")

    assert ran.code == 7
    assert [row["state"] for row in ran.items if row["kind"] == "namesrv"] == ["failed", "ok"]
    assert ran.err == "rmq: not well: 127.0.0.1:1\n"


def test_commands_that_need_a_controller_say_that_the_profile_names_none(site, tmp_path):
    config = tmp_path / "config.toml"
    config.write_text(f"[profiles.test]\nnamesrv = '{site.ns1.address}'\n")
    rmq = Rmq(tmp_path, RMQ_CONFIG=str(config), RMQ_PROFILE="test")

    assert "controller" not in {row["kind"] for row in rmq.items("status")}
    for words, sentence in (
        (["controller", "status"], "no controller: add it there, or give --controller"),
        (["controller", "sets", "broker-a"], "no controller: add it there, or give --controller"),
        (["config", "get", "controller"], "no controller: add it there, or give --controller"),
        (["scaling", "list"], "no controller: add it there, or give --controller-http"),
        (["offsets", "sets"], "no offset manager: add it there, or give --offset-manager"),
    ):
        ran = rmq.run(*words)
        assert (ran.code, ran.err) == (3, f"rmq: the profile names {sentence}\n")


def test_change_is_partly_done_where_a_name_server_is_away(site):
    ran = site.rmq.run("broker", "drain-write", "broker-a", "-y", "-o", "json", "-n", f"127.0.0.1:1;{site.ns2.address}")

    assert ran.code == 7
    assert [row["state"] for row in ran.items] == ["failed", "done"]


def test_broker_that_is_away_has_its_reason_and_the_others_are_shown(site):
    away = register(site.ns1, "broker-b", "127.0.0.1:1", ["Orders"])
    try:
        ran = site.rmq.run("broker", "list", "-o", "json", "-n", site.ns1.address)
        quick = site.rmq.items("broker", "list", "--no-runtime", "-n", site.ns1.address)
    finally:
        away.close()

    by_name = {row["brokerName"]: row for row in ran.items}
    assert ran.code == 7
    assert (by_name["broker-a"]["version"], by_name["broker-a"]["putTps"]) == ("V5_5_0", 1.5)
    assert by_name["broker-b"]["reason"] == "cannot connect: connection refused"
    assert [row["brokerName"] for row in quick] == ["broker-a", "broker-b"]


def test_second_name_server_answers_where_the_first_is_away(site):
    assert site.rmq.run("topic", "list", "-n", f"127.0.0.1:1;{site.ns2.address}").out == (
        "topic   kind\nOrders  normal\n"
    )


def test_topics_with_odd_names_are_listed_in_every_form(site):
    odd = register(site.ns1, "broker-b", "127.0.0.1:1", ODD_NAMES)
    rmq = site.rmq
    try:
        table = rmq.run("topic", "list", "--all").out
        rows = [json.loads(line) for line in rmq.run("topic", "list", "--all", "-o", "jsonl").out.split("\n")[:-1]]
        cells = list(csv.reader(io.StringIO(rmq.run("topic", "list", "--all", "-o", "csv").out)))
    finally:
        odd.close()

    assert {row["topic"] for row in rows} >= set(ODD_NAMES)
    assert "\u3164" not in table
    assert r"a\u3164b" in table
    assert len(table.splitlines()) == len(rows) + 1 == len(cells)
    assert ["'=cmd|calc", "normal"] in cells


def test_topic_with_an_odd_name_is_found_by_that_name(site):
    odd = register(site.ns1, "broker-b", "127.0.0.1:1", ODD_NAMES)
    try:
        found = [site.rmq.run("topic", "route", name, "-n", site.ns1.address).code for name in ODD_NAMES[-4:]]
    finally:
        odd.close()

    assert found == [0] * 4


def test_topics_are_listed_by_a_part_a_pattern_or_their_cluster(site):
    more = register(site.ns1, "broker-b", "127.0.0.1:1", ["Payments", "Payouts", "%RETRY%billing"])
    rmq = site.rmq
    try:
        found = [
            [row["topic"] for row in rmq.items("topic", "list", *words)]
            for words in (("out",), ("Pay*",), ("Pay*", "--cluster", "DefaultCluster"), ("bill", "-a"), ("bill",))
        ]
    finally:
        more.close()

    assert found == [["Payouts"], ["Payments", "Payouts"], ["Payments", "Payouts"], ["%RETRY%billing"], []]


def test_status_lists_console_and_metrics_count_the_same_topics_as_the_operators(site, lab):
    server = lab.kept(OurNameServer(lab.folder, "ns3", http=True)).start()
    of_brokers = ["broker-a", "DefaultCluster", "DefaultCluster_REPLY_TOPIC"]
    line = register(server, "broker-a", site.broker.address, ["Orders", "Payments", "%RETRY%billing", *of_brokers])
    try:
        names = site.rmq.items("topic", "list", "-n", server.address)
        everything = site.rmq.items("topic", "list", "-a", "-n", server.address)
        rows = site.rmq.run("status", "-o", "json", "-n", server.address).items
        (cluster,) = read(server, "/v1/clusters")["items"]
        listed = read(server, "/v1/topics")["items"]
    finally:
        line.close()

    assert [row["topic"] for row in names] == ["Orders", "Payments"]
    assert next(row["detail"] for row in rows if row["kind"] == "namesrv").endswith(", 2 topics")
    assert cluster["topics"] == {"normal": 2, "system": 5, "retry": 1, "dlq": 0}
    assert {row["topic"] for row in everything if row["kind"] == "system"} > set(of_brokers)
    assert [(each["topic"], each["kind"]) for each in listed] == [(row["topic"], row["kind"]) for row in everything]


def read(server, path):
    with urllib.request.urlopen(f"http://127.0.0.1:{server.http_port}{path}", timeout=30) as found:
        return json.load(found)


def test_ten_thousand_topics_are_listed(site):
    many = register(site.ns1, "broker-b", "127.0.0.1:1", [f"topic-{number:05}" for number in range(10_000)])
    try:
        lines = site.rmq.run("topic", "list").out.splitlines()
        nearest = site.rmq.run("topic", "route", "opic-09999").err
    finally:
        many.close()

    assert len(lines) == 10_002
    assert "did you mean topic-09999?" in nearest


def test_route_names_who_tells_what_where_name_servers_differ(site):
    more = register(site.ns1, "broker-b", "127.0.0.1:2", ["Orders", "Only"])
    try:
        rows = site.rmq.items("topic", "route", "Orders")
        only = site.rmq.run("topic", "route", "Only", "-o", "json")
    finally:
        more.close()

    assert [(row["brokerName"], row["onlyAt"]) for row in rows] == [
        ("broker-a", None),
        ("broker-b", [site.ns1.address]),
    ]
    assert (only.code, only.err) == (0, f"rmq: {site.ns2.address} has no route of Only\n")


def test_topic_is_shown_with_its_messages_and_its_queues(site):
    (row,) = site.rmq.items("topic", "show", "Orders")
    queues = site.rmq.items("topic", "show", "Orders", "--queues")
    table = site.rmq.run("topic", "show", "Orders").out

    assert (row["writeQueueNums"], row["messages"], row["lastStoredUnixMs"]) == (2, 17, 1_700_000_000_000)
    assert [(each["queueId"], each["minOffset"], each["maxOffset"]) for each in queues] == [(0, 2, 10), (1, 2, 11)]
    assert "2023-11-14T22:13:20.000Z" in table


def test_topic_of_an_old_broker_is_read_from_the_list_of_all(site):
    del site.broker.answers[TOPIC_CONFIG]

    assert site.rmq.items("topic", "show", "Orders")[0]["writeQueueNums"] == 2


def test_dry_run_shows_what_would_be_sent_and_sends_nothing(site):
    (row,) = site.rmq.items(*CREATE, "--dry-run")

    assert (row["state"], row["address"]) == ("planned", site.broker.address)
    assert sent(site, UPDATE_TOPIC) == []


def test_dry_run_says_which_servers_do_not_answer(site):
    ran = site.rmq.run("kv", "put", "N", "k", "v", "--dry-run", "-o", "json", "-n", f"127.0.0.1:1;{site.ns2.address}")

    assert (ran.code, [row["state"] for row in ran.items]) == (7, ["failed", "planned"]), ran
    assert "1 of 2 changes would fail" in ran.err
    assert site.rmq.run("kv", "get", "N", "k").code == 4


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("topic", "create", "a b", "--broker", "broker-a"), "a b is not a topic name"),
        (("topic", "create", "x" * 128, "--broker", "broker-a"), "1 to 127"),
        (("topic", "create", "DefaultCluster_REPLY_TOPIC", "--broker", "broker-a"), "is a system topic"),
        (("topic", "delete", "TBW102", "--cluster", "DefaultCluster"), "TBW102 is a system topic"),
        (
            ("config", "set", "broker", "--at", "broker-a", "flushDiskType=SYNC_FLUSH"),
            "flushDiskType is in configBlackList",
        ),
        (("config", "set", "namesrv", "listenPort=1"), "listenPort"),
        (("config", "set", "controller", "logLevel=loud"), "logLevel"),
    ],
)
def test_dry_run_says_what_servers_would_refuse(site, run_here, words, reason):
    site.broker.answers[TOPIC_CONFIG] = answer(code=17, remark="no topic")
    site.broker.answers[GET_CONFIG] = answer("configBlackList=configBlackList;flushDiskType\nflushDiskType=ASYNC\n")
    addresses = ("-n", site.ns1.address, "--controller", site.controller.address)
    ran = run_here(*words, "--dry-run", *addresses, "-o", "json")

    assert {row["state"] for row in ran.items} == {"failed"}
    assert (ran.code, reason in ran.err) == (5 if "listenPort=1" in words else 1, True), ran
    assert not {UPDATE_TOPIC, DELETE_TOPIC, UPDATE_CONFIG} & {code for code, _ in site.broker.received}


def test_topic_in_use_loses_no_queues_unless_the_operator_says_so(site, run_here):
    site.broker.answers |= {MAX_OFFSET: answer(fields={"offset": "711"}), MIN_OFFSET: answer(fields={"offset": "1"})}
    words = (*CREATE, "--read", "1", "--write", "1", "-n", site.ns1.address, "-o", "json")
    refused = [run_here(*words, how) for how in ("--yes", "--dry-run")]
    shown = run_here(*words, "--drop-queues", "--dry-run")

    assert sent(site, UPDATE_TOPIC) == []
    for ran in refused:
        assert (ran.code, "broker-a: 2/2 -> 1/1 queues, 710 messages in the dropped queues" in ran.err) == (1, True), (
            ran
        )
        assert "rmq topic scale Orders --queues 1" in ran.err
    (row,) = shown.items
    assert (shown.code, row["state"], "2/2 -> 1/1 queues, 710 messages" in row["change"]) == (0, "planned", True)
    assert run_here(*words, "--drop-queues", "--yes").items[0]["state"] == "done"


def test_topic_whose_present_queues_are_unknown_is_not_replaced(site, run_here):
    site.broker.answers[TOPIC_CONFIG] = answer(code=16, remark="no permission")
    ran = run_here(*CREATE, "--yes", "-n", site.ns1.address)

    assert (ran.code, "no permission" in ran.err, sent(site, UPDATE_TOPIC)) == (5, True, []), ran


def test_change_without_a_terminal_needs_yes(site):
    ran = site.rmq.run(*CREATE)

    assert (ran.code, "--yes" in ran.err, sent(site, UPDATE_TOPIC)) == (2, True, [])
    assert "Replace the configuration of topic Orders" in ran.err


@pytest.mark.parametrize(("reply", "code", "requests"), [(b"y\n", 0, 1), (b"n\n", 130, 0)])
def test_change_in_a_terminal_is_done_after_yes_only(site, reply, code, requests):
    ours, its = pty.openpty()
    command = [sys.executable, "-m", "rmq", *CREATE]
    process = subprocess.Popen(command, env=site.rmq.environment, stdin=its, stdout=its, stderr=its)
    os.close(its)
    shown = b""
    while b"]: " not in shown:
        shown += os.read(ours, 4096)
    os.write(ours, reply)
    assert process.wait(timeout=60) == code
    os.close(ours)

    assert len(sent(site, UPDATE_TOPIC)) == requests


def test_topic_is_created_on_masters_with_what_was_given(site):
    site.rmq.items(*CREATE, "--read", "4", "--write", "3", "--perm", "r", "-a", "message.type=FIFO", "-a", "-old", "-y")

    (fields,) = sent(site, UPDATE_TOPIC)
    assert {name: fields[name] for name in ("topic", "readQueueNums", "writeQueueNums", "perm", "attributes")} == {
        "topic": "Orders",
        "readQueueNums": "4",
        "writeQueueNums": "3",
        "perm": "4",
        "attributes": "+message.type=FIFO,-old",
    }


def test_order_configuration_of_other_broker_sets_stays(site):
    site.rmq.items("kv", "put", "ORDER_TOPIC_CONFIG", "Orders", "broker-a:1;broker-z:4", "--yes")
    site.rmq.items(*CREATE, "--order", "--yes")

    values = {row["value"] for row in site.rmq.items("kv", "get", "ORDER_TOPIC_CONFIG", "Orders")}
    assert values == {"broker-a:8;broker-z:4"}


def test_deleted_topic_is_removed_at_brokers_and_then_at_name_servers(site):
    rows = site.rmq.items("topic", "delete", "Orders", "--cluster", "DefaultCluster", "--yes")

    assert [row["address"] for row in rows] == [site.broker.address, site.ns1.address, site.ns2.address]
    assert sent(site, DELETE_TOPIC) == [{"topic": "Orders"}]
    assert site.rmq.items("topic", "list") == []


def test_topic_stays_in_routes_where_its_broker_does_not_delete_it(site):
    site.broker.answers[DELETE_TOPIC] = answer(code=29, remark="no\njava.lang.Exception: stack")
    ran = site.rmq.run("topic", "delete", "Orders", "--cluster", "DefaultCluster", "--yes", "-o", "json")

    assert ran.code == 1
    assert [(row["state"], row["detail"]) for row in ran.items] == [
        ("failed", "refused with code 29: no"),
        ("not_sent", None),
        ("not_sent", None),
    ]
    assert site.ns1.caller.route("Orders") is not None


def test_change_without_an_answer_is_unknown(site):
    site.broker.answers[UPDATE_TOPIC] = None
    late = site.rmq.run(*CREATE, "--yes", "--timeout", "0.5", "-o", "json")
    site.broker.answers[UPDATE_TOPIC] = b""
    lost = site.rmq.run(*CREATE, "--yes", "-o", "json")

    for ran in (late, lost):
        assert (ran.code, ran.items[0]["state"]) == (3, "unknown")
        assert "it may have been done" in ran.items[0]["detail"]


def test_change_that_is_interrupted_shows_what_may_be_done(site):
    site.broker.answers[DELETE_TOPIC] = None
    words = ("topic", "delete", "Orders", "--cluster", "DefaultCluster", "--yes", "-o", "json", "--timeout", "60")
    ran = site.rmq.interrupt(*words, when=lambda: sent(site, DELETE_TOPIC))

    assert (ran.code, [row["state"] for row in ran.items]) == (130, ["unknown", "not_sent", "not_sent"])
    assert "check before you repeat it" in ran.items[0]["detail"]
    assert site.ns1.caller.route("Orders") is not None


def test_write_permission_changes_at_every_name_server(site):
    rows = site.rmq.items("broker", "drain-write", "broker-a", "--yes")
    drained = {row["perm"] for row in site.rmq.items("topic", "route", "Orders")}
    site.rmq.items("broker", "restore-write", "broker-a", "--yes")

    assert {row["detail"] for row in rows} == {"3 topics"}
    assert (drained, {row["perm"] for row in site.rmq.items("topic", "route", "Orders")}) == ({4}, {6})


def test_options_that_are_secrets_are_not_shown(site):
    rows = site.rmq.items("config", "get", "broker", "--at", "broker-a")

    assert {row["name"]: row["value"] for row in rows} == {"flushDiskType": "ASYNC_FLUSH", "sslPassword": "******"}


def test_option_that_is_accepted_and_not_in_force_is_a_failure(site):
    ran = site.rmq.run("config", "set", "broker", "--at", "broker-a", "flushDiskType=SYNC_FLUSH", "--yes")

    assert ran.code == 1
    assert "accepted, but not in force" in ran.err
    assert len(sent(site, UPDATE_CONFIG)) == 1
    assert len(sent(site, GET_CONFIG)) == 2


def test_options_of_name_servers_and_controllers_are_changed(site):
    wanted = (("namesrv", "scanNotActiveBrokerInterval", "9000"), ("controller", "enableElectUncleanMaster", "true"))
    for server, name, value in wanted:
        site.rmq.items("config", "set", server, f"{name}={value}", "--yes")
        assert {row["value"] for row in site.rmq.items("config", "get", server, name)} == {value}


def test_kv_entries_name_the_name_servers_that_differ(site):
    site.rmq.items("kv", "put", "DIFFERING", "both", "1", "--yes")
    site.rmq.items("kv", "put", "DIFFERING", "one", "2", "--yes", "-n", site.ns1.address)

    assert [(row["key"], row["onlyAt"]) for row in site.rmq.items("kv", "list", "DIFFERING")] == [
        ("both", None),
        ("one", [site.ns1.address]),
    ]


def forget_stored(site, name):
    """Let the controller forget a set: it is away otherwise in the tests that follow."""
    site.rmq.items("controller", "clean", name, "--clean-living", "--yes")


@pytest.fixture(params=["broker-c"])
def replicas(site, request):
    replicas = [Replica(site.controller.address, request.param) for _ in range(2)]
    for each in replicas:
        each.join()
        each.elect()
    master, slave = replicas
    master.report([1, 2], master_epoch=1, sync_state_set_epoch=1)
    # With the NameServers it has a cluster.
    lines = [register(each, request.param, master.address, []) for each in (site.ns1, site.ns2)]
    yield replicas
    for each in lines:
        each.close()
    for each in (master, slave):
        each.die()
    forget_stored(site, request.param)


@pytest.mark.parametrize("replicas", ["broker-d"], indirect=True)
def test_dry_run_of_a_controller_command_refuses_what_the_controller_refuses(site, run_here, replicas):
    master, slave = replicas
    words = ("--cluster", master.cluster, "--controller", site.controller.address, "-n", site.ns1.address)
    slave.die()
    wait_until(lambda: not sets_of(site)[2]["alive"], seconds=60, what="the controller misses the slave")
    wrong = [
        (("elect", "broker-d", "1"), "broker 1 is already master"),
        (("elect", "broker-d", "2"), "broker 2 is not alive"),
        (("clean", "broker-d", "1"), "brokers 1 are alive"),
        (("clean", "broker-d"), "the set has a master, broker 1"),
    ]
    for command, reason in wrong:
        ran = [run_here("controller", *command, how, *words) for how in ("--dry-run", "--yes")]
        assert ([each.code for each in ran], reason in ran[0].err) == ([1, 1], True), ran
    assert run_here("controller", "clean", "broker-d", "2", "--dry-run", *words).code == 0
    assert len(sets_of(site)) == 2


def sets_of(site):
    return {row["brokerId"]: row for row in site.rmq.items("controller", "sets", "broker-d")}


def test_elected_broker_leads_its_set(site, replicas):
    rmq = site.rmq
    before = {row["brokerId"]: row["role"] for row in rmq.items("controller", "sets", "broker-c")}
    (elected,) = rmq.items("controller", "elect", "broker-c", "2", "--yes")
    listed = rmq.items("controller", "sets")
    after = {row["brokerId"]: row["role"] for row in listed if row["brokerName"] == "broker-c"}

    assert (before, after) == ({1: "master", 2: "slave"}, {1: "slave", 2: "master"})
    assert "master is broker 2" in elected["detail"]


def test_elections_are_listed_with_what_gives_a_set_its_master_back(site):
    """The slave was never in sync; then the master dies too, and the controller starts again."""
    master, slave = (Replica(site.controller.address, "broker-e") for _ in range(2))
    for each in (master, slave):
        each.join()
        each.elect()
    slave.die()
    master.die()
    last = wait_until(
        lambda: next(
            (row for row in site.rmq.items("controller", "elections", "broker-e") if row["newMaster"] is None), None
        ),
        seconds=30,
        what="nobody leads",
    )
    address = site.controller.address

    assert (last["result"], last["oldMaster"]) == ("no_master_elected", 1)
    assert last["advice"] == f"start broker 1 at {master.address}: once it is back, it can lead"
    assert last["force"].startswith(f"rmq controller elect broker-e 1 --controller {address} # once broker 1 runs")
    site.controller.restart_with()
    wait_until(
        lambda: last in site.rmq.items("controller", "elections"), seconds=30, what="the controller has read its store"
    )
    assert site.rmq.run("controller", "elections", "broker-").code == 4
    forget_stored(site, "broker-e")


def test_bash_completes_topics_and_brokers_but_nothing_that_it_would_run(site, tmp_path):
    more = register(site.ns1, "broker-b", "127.0.0.1:1", ["Orders$(id)", "Orders;id", "Orders-2"])
    program = tmp_path / "bin" / "rmq"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m rmq "$@"\n')
    program.chmod(0o755)
    environment = site.rmq.environment | {"PATH": f"{program.parent}:{os.environ['PATH']}"}

    def offered(*words):
        """What bash completes the last word to."""
        script = (
            f'eval "$(rmq completion bash)"; COMP_WORDS=({" ".join(words)}); COMP_CWORD={len(words) - 1}; '
            "_rmq_completion rmq; printf '%s\\n' \"${COMPREPLY[@]}\""
        )
        done = subprocess.run(
            ["bash", "-c", script], env=environment, capture_output=True, text=True, timeout=60, check=True
        )
        return done.stdout.split()

    try:
        found = [offered("rmq", "topic", "show", "Ord"), offered("rmq", "broker", "show", "bro"), offered("rmq", "to")]
    finally:
        more.close()

    assert found == [["Orders", "Orders-2"], ["broker-a", "broker-b"], ["topic"]]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_has_its_script(site, shell):
    assert f"_RMQ_COMPLETE={shell}_complete" in site.rmq.run("completion", shell).out


def test_slow_broker_holds_nothing_up_longer_than_the_timeout(site):
    site.broker.answers[RUNTIME] = None
    started = time.perf_counter()
    ran = site.rmq.run("broker", "list", "--timeout", "0.5", "-o", "json")

    assert ran.code == 3
    assert ran.items[0]["reason"] == "no answer within 500 ms"
    assert time.perf_counter() - started < 20


def test_who_reads_may_stop(site):
    many = register(site.ns1, "broker-b", "127.0.0.1:1", [f"topic-{number:05}" for number in range(10_000)])
    command = [sys.executable, "-m", "rmq", "topic", "list"]
    process = subprocess.Popen(command, env=site.rmq.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        process.stdout.readline()
        process.stdout.close()
        assert (process.wait(timeout=60), process.stderr.read()) == (0, b"")
    finally:
        process.stderr.close()
        many.close()


def test_large_site_of_brokers_is_listed(site):
    peers = [AnsweringPeer({RUNTIME: answer({"table": {"brokerVersionDesc": "V5_5_0"}})}) for _ in range(40)]
    lines = [register(site.ns1, f"many-{number}", each.address, []) for number, each in enumerate(peers)]
    try:
        wait_until(lambda: len(site.rmq.items("broker", "list", "--no-runtime")) == 41, seconds=5, what="all brokers")
        rows = site.rmq.items("broker", "list")
    finally:
        for each in (*lines, *peers):
            each.close()

    assert {row["version"] for row in rows} == {"V5_5_0"}


def test_command_whose_packages_are_not_installed_says_what_to_install(run_here, monkeypatch):
    monkeypatch.delitem(sys.modules, "rmq.commands.sample", raising=False)
    monkeypatch.setitem(sys.modules, "rmq.sampling.service", None)
    # Another test may have imported it.
    monkeypatch.delattr("rmq.sampling.service", raising=False)
    ran = run_here("sample")

    assert (ran.code, "pip install 'rocketmq-control-plane[server]'" in ran.err) == (6, True), ran


def test_commands_and_servers_hide_the_same_secrets():
    names = ["initAuthenticationUser", "innerClientAuthenticationCredentials", "keyPwd", "aToken", "mySecretKey"]

    assert [_shown(name, "hush") for name in names] == ["******"] * len(names)
    assert [_shown(name, "at") for name in ("httpAdminTokenFile", "tls.server.keyPath", "brokerIP1")] == ["at"] * 3
    assert SECRET_WORDS == server_kind.SECRET_WORDS
