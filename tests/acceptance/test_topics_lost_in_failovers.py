"""A topic that its master did not live to hand on: routes have it, the new master does not, and NameServers say so."""

import json

import pytest
from lengths import ours_in_ci
from peers.waiting import holds_for, wait_until
from replicated import VERY_LONG_S
from verdicts import PATIENCE

pytestmark = [pytest.mark.broad, pytest.mark.java, pytest.mark.timeout(900)]

CLUSTER_INFO = 106
#: A NameServer takes a topic for lost 10 s after the registration that lacks it.
CERTAIN_S = 15


def gaps(replicated):
    """Return what the NameServer tells operators beside the brokers."""
    answer = replicated.namesrv.caller.request(CLUSTER_INFO, {"withAwayBrokerSets": "true"})
    told = json.loads(b"{" + answer.body[answer.body.index(b'"awayBrokerSets"') :])
    return {kind: [(each["brokerName"], each.get("topics")) for each in items] for kind, items in told.items()}


def create(replicated, topic):
    printed = replicated.mqadmin("updateTopic", "-b", replicated.master.address, "-t", topic, "-r", "4", "-w", "4")
    assert "success" in printed, printed


def end_of_failover(replicated, before):
    after = replicated.wait_for_master(
        lambda state: state.master != before.master, seconds=VERY_LONG_S * PATIENCE, what="another master"
    )
    address = after.addresses[after.master]
    wait_until(lambda: replicated.routed().get("0") == address, seconds=VERY_LONG_S, what="the new master registers")


@ours_in_ci
def test_topic_that_no_slave_had_copied_is_lost_until_it_is_created_again(run, fresh_set):
    nothing = {"awayBrokerSets": [], "lostTopics": [], "staleReplicas": []}
    before, (slave,), old = fresh_set.state(), fresh_set.slaves, fresh_set.master
    # It cannot copy the topic.
    slave.process.pause()
    create(fresh_set, "Orders")
    old.process.kill()
    slave.process.resume()
    end_of_failover(fresh_set, before)
    lost = [(fresh_set.name, ["Orders"])]
    wait_until(lambda: gaps(fresh_set)["lostTopics"] == lost, seconds=VERY_LONG_S, what="Orders is lost")
    assert '"event":"topics_not_copied"' in fresh_set.namesrv.process.text()
    assert fresh_set.namesrv.caller.route("Orders")
    create(fresh_set, "Orders")
    wait_until(lambda: gaps(fresh_set) == nothing, seconds=VERY_LONG_S, what="it is back")

    fresh_set.restart(old)
    before = fresh_set.wait_until_complete()
    # It copies topics each 10 s, and registers with them each 10 s here.
    holds_for(lambda: gaps(fresh_set) == nothing, seconds=2 * CERTAIN_S, what="no slave lacks topics")
    fresh_set.master.process.kill()
    end_of_failover(fresh_set, before)
    holds_for(lambda: gaps(fresh_set) == nothing, seconds=CERTAIN_S, what="a failover that loses no topic")
