"""Every command of `rmq` does its work at a Java NameServer, controller and broker of 5.5.0."""

import pytest
from peers.lab import Lab
from peers.servers import CLUSTER
from peers.waiting import wait_until
from rmq_runs import Rmq

pytestmark = pytest.mark.java

START_S = 60


class JavaSite:
    """One NameServer, one controller and a broker that the controller made master."""

    def __init__(self, lab):
        self.lab = lab
        self.namesrv = lab.java_name_server()
        self.controller = lab.controller()
        settings = self.controller.broker_settings()
        self.broker = lab.broker("broker-a", namesrv=[self.namesrv.address], **settings)
        wait_until(self.controller.serves, seconds=START_S, what="the controller leads")
        self.broker.start().ready()
        servers = {"NAMESRV_ADDR": self.namesrv.address, "RMQ_CONTROLLER": self.controller.address}
        self.rmq = Rmq(lab.folder / "operator", **servers)
        wait_until(self._is_master, seconds=START_S, what="the broker is listed as master")

    def _is_master(self):
        return "0" in self.namesrv.caller.addresses("broker-a")


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    lab = Lab(tmp_path_factory.mktemp("java_site"))
    try:
        yield JavaSite(lab)
    finally:
        lab.close()


def test_status_is_well(site):
    rows = site.rmq.items("status")

    assert {row["state"] for row in rows} == {"ok"}
    assert {row["kind"] for row in rows} == {"namesrv", "controller", "broker", "brokerSet"}


def test_brokers_and_clusters_are_listed(site):
    (broker,) = site.rmq.items("broker", "list")
    (cluster,) = site.rmq.items("cluster", "list")

    assert (broker["brokerName"], broker["role"], broker["version"]) == ("broker-a", "master", "V5_5_0")
    assert (cluster["cluster"], cluster["masters"], cluster["withoutMaster"]) == (CLUSTER, 1, None)
    facts = {row["name"]: row["value"] for row in site.rmq.items("broker", "show", "broker-a")}
    assert facts["brokerVersionDesc"] == "V5_5_0"


def test_topic_is_created_changed_shown_and_deleted(site):
    rmq = site.rmq
    create = ("topic", "create", "Orders", "--cluster", CLUSTER, "--order")
    assert rmq.run(*create, "--read", "4", "--write", "4", "-a", "+message.type=FIFO", "--yes").code == 1
    rows = rmq.items(*create, "--read", "4", "--write", "4", "-a", "message.type=FIFO", "--yes")
    assert {row["state"] for row in rows} == {"done"}
    wait_until(lambda: "Orders" in rmq.run("topic", "list").out, seconds=20, what="the topic is listed")
    (route,) = rmq.items("topic", "route", "Orders")
    assert (route["writeQueueNums"], route["perm"]) == (4, 6)
    assert rmq.items("kv", "get", "ORDER_TOPIC_CONFIG", "Orders")[0]["value"] == "broker-a:4"
    (shown,) = rmq.items("topic", "show", "Orders")
    assert (shown["readQueueNums"], shown["order"], shown["messages"]) == (4, True, 0)
    assert shown["attributes"] == {"message.type": "FIFO"}
    assert len(rmq.items("topic", "show", "Orders", "--queues")) == 4
    assert rmq.items("topic", "list", "Ord", "--long")[0]["writeQueueNums"] == 4

    unknown = rmq.run("topic", "route", "orderz")
    assert (unknown.code, "did you mean Orders?" in unknown.err) == (4, True)

    assert rmq.run("topic", "delete", "Orders", "--cluster", CLUSTER).code == 2
    rmq.items("topic", "delete", "Orders", "--cluster", CLUSTER, "--yes")
    assert rmq.run("topic", "route", "Orders").code == 4
    assert "Orders" not in site.broker.stored_topics()


def test_topic_in_use_keeps_the_queues_that_have_messages(site):
    rmq, create = site.rmq, ("topic", "create", "Used", "--cluster", CLUSTER)
    rmq.items(*create, "--read", "4", "--write", "4", "--yes")
    wait_until(lambda: rmq.run("topic", "route", "Used").code == 0, seconds=20, what="the topic has a route")
    site.lab.producer("producer", namesrv=[site.namesrv.address], topic="Used", count=40).finish(seconds=START_S)
    queues = {row["queueId"]: row["messages"] for row in rmq.items("topic", "show", "Used", "--queues")}
    ran = rmq.run(*create, "--read", "2", "--write", "2", "--yes")

    assert queues[2] + queues[3] > 0
    assert (ran.code, f"4/4 -> 2/2 queues, {queues[2] + queues[3]} messages in" in ran.err) == (1, True), ran
    assert rmq.items("topic", "show", "Used")[0]["readQueueNums"] == 4


def test_topics_of_the_broker_are_system_topics(site):
    of_broker = {CLUSTER, "broker-a", f"{CLUSTER}_REPLY_TOPIC"}
    everything = {row["topic"]: row["kind"] for row in site.rmq.items("topic", "list", "--all")}
    listed = [row["topic"] for row in site.rmq.items("topic", "list")]
    (server,) = (row for row in site.rmq.items("status") if row["kind"] == "namesrv")

    assert {everything[topic] for topic in of_broker} == {"system"}
    assert not of_broker & set(listed)
    assert server["detail"].endswith(f", {len(listed)} topics")


def test_system_topic_is_refused_by_the_broker(site):
    ran = site.rmq.run("topic", "create", "RMQ_SYS_TRACE_TOPIC", "--broker", "broker-a", "--yes")

    assert ran.code == 1
    assert "system topic" in ran.out


def test_write_permission_is_drained_and_restored(site):
    def perms():
        return {row["perm"] for row in site.rmq.items("topic", "route", "SELF_TEST_TOPIC")}

    def drained():
        # A registration with changed topics, here of a topic deleted before, gives the permission back.
        (row,) = site.rmq.items("broker", "drain-write", "broker-a", "--yes")
        assert int(row["detail"].split()[0]) > 0
        return not perms() & {2, 6}

    wait_until(drained, seconds=30, what="no queue can be written")
    site.rmq.items("broker", "restore-write", "broker-a", "--yes")

    assert perms() == {6}


@pytest.mark.parametrize(
    ("server", "name", "value"),
    [
        (("broker", "--at", "broker-a"), "fileReservedTime", "47"),
        (("namesrv",), "waitSecondsForService", "46"),
        (("controller",), "electMasterMaxRetryCount", "4"),
    ],
)
def test_options_are_read_and_changed(site, server, name, value):
    before = site.rmq.items("config", "get", *server, name)
    changed = site.rmq.items("config", "set", *server, f"{name}={value}", "--yes")
    unknown = site.rmq.run("config", "set", *server, f"{name}z=1", "--yes")

    assert f"{name}: {before[0]['value']} -> {value}" in changed[0]["change"]
    assert site.rmq.items("config", "get", *server, name)[0]["value"] == value
    assert (unknown.code, f"did you mean {name}" in unknown.err) == (4, True)


def test_option_that_may_not_be_changed_is_refused(site):
    ran = site.rmq.run("config", "set", "broker", "--at", "broker-a", "rocketmqHome=x", "--yes")

    assert (ran.code, "black list" in ran.out) == (5, True)


def test_kv_entries_are_put_listed_and_deleted(site):
    rmq = site.rmq
    rmq.items("kv", "put", "NS", "key", "värde", "--yes")
    assert rmq.items("kv", "list", "NS") == [{"key": "key", "value": "värde", "onlyAt": None}]
    assert rmq.items("kv", "get", "NS", "key")[0]["value"] == "värde"
    assert rmq.run("kv", "get", "NS", "kez").code == 4
    rmq.items("kv", "delete", "NS", "key", "--yes")
    assert rmq.run("kv", "list", "NONE").code == 4


def test_controllers_and_sets_are_shown(site):
    (controller,) = site.rmq.items("controller", "status")
    (replica,) = site.rmq.items("controller", "sets")

    assert (controller["role"], controller["leaderAddress"]) == ("leader", site.controller.address)
    assert (replica["brokerName"], replica["role"], replica["alive"]) == ("broker-a", "master", True)


def test_elections_and_cleaning_of_a_living_master_are_refused(site):
    rmq = site.rmq
    (replica,) = rmq.items("controller", "sets", "broker-a")
    stays = rmq.run("controller", "elect", "broker-a", str(replica["brokerId"]), "--yes")
    unknown = rmq.run("controller", "elect", "broker-a", "99", "--yes")
    cleaned = rmq.run("controller", "clean", "broker-a", str(replica["brokerId"]), "--yes")
    without_cluster = rmq.run("controller", "clean", "broker-a", "1", "--yes", "-n", "127.0.0.1:1")

    assert (stays.code, "2011" in stays.out) == (1, True)
    assert (unknown.code, f"has {replica['brokerId']}" in unknown.err) == (4, True)
    assert (cleaned.code, "2009" in cleaned.out) == (1, True)
    assert without_cluster.code == 3
    assert rmq.items("controller", "sets", "broker-a") == [replica]
