"""What a NameServer remembers over a restart, and how brokers and clients meet one that has just come up."""

import pytest
from peers.servers import registered
from peers.waiting import wait_until
from peers.wire import GET_CONFIG, GET_KV_CONFIG, GET_ROUTE, QUERY_NOT_FOUND, SYSTEM_ERROR

pytestmark = pytest.mark.java

#: How long the NameServer `spare` collects brokers before it answers: one round of registrations, and half of the next.
COLLECTION_S = 45


@pytest.fixture
def run(lab, mqadmin):
    """Start a NameServer without brokers; run mqadmin against it."""
    namesrv = lab.name_server()
    return namesrv, lambda *command: mqadmin.run(*command, namesrv=[namesrv.address])


def value_of(namesrv, namespace, key):
    answer = namesrv.caller.request(GET_KV_CONFIG, {"namespace": namespace, "key": key})
    return None if answer.code == QUERY_NOT_FOUND else answer.fields["value"]


def test_key_values_survive_a_kill(run):
    namesrv, mqadmin = run
    mqadmin("updateKvConfig", "-s", "space", "-k", "kept", "-v", "größer")
    mqadmin("updateKvConfig", "-s", "space", "-k", "dropped", "-v", "value")
    mqadmin("updateOrderConf", "-t", "ordered", "-m", "put", "-v", "broker-a:4")
    mqadmin("deleteKvConfig", "-s", "space", "-k", "dropped")
    namesrv.process.kill()
    namesrv.start()
    assert value_of(namesrv, "space", "kept") == "größer"
    assert value_of(namesrv, "space", "dropped") is None
    assert value_of(namesrv, "ORDER_TOPIC_CONFIG", "ordered") == "broker-a:4"


def test_changed_settings_survive_a_kill(run):
    namesrv, mqadmin = run
    assert "success" in mqadmin("updateNamesrvConfig", "-k", "supportActingMaster", "-v", "true")
    namesrv.process.kill()
    namesrv.start()
    assert "supportActingMaster=true\n" in namesrv.caller.request(GET_CONFIG).body.decode()


def test_settings_of_paths_are_refused(run):
    namesrv, mqadmin = run
    before = namesrv.caller.request(GET_CONFIG).body
    assert "CODE: 16" in mqadmin("updateNamesrvConfig", "-k", "kvConfigPath", "-v", "/elsewhere")
    assert namesrv.caller.request(GET_CONFIG).body == before


def test_an_empty_nameserver_lists_an_empty_cluster(run):
    _, mqadmin = run
    assert len(mqadmin("clusterList").strip().splitlines()) == 1


@pytest.mark.broad
def test_a_producer_waits_until_the_nameserver_has_collected_its_brokers(fleet, lab):
    spare = fleet.spare.start()
    try:
        refused = spare.caller.request(GET_ROUTE, {"topic": "b550"})
        assert (refused.code, refused.remark) == (SYSTEM_ERROR, "name server not ready")
        producer = lab.producer("producer", namesrv=[spare.address], topic="b550", **{"interval-ms": 200}).ready()
        producer.process.wait_for(r"^FAILED ", seconds=COLLECTION_S)
        wait_until(producer.sent, seconds=2 * COLLECTION_S, what="the first message")
        wait_until(lambda: registered(spare, *fleet.brokers), seconds=2 * COLLECTION_S, what="all brokers")
    finally:
        spare.process.kill()
