"""Who leads, broker sets, elections and cleaning, in the answers of controllers."""

import json

import pytest

from remoting.admin.controllers import (
    ReportedReplica,
    broker_sets_of,
    clean_broker_data,
    controller_metadata,
    elect_master,
)
from remoting.protocol.command import RemotingCommand
from remoting.protocol.errors import BodyError, Refused
from rmq.commands.controllers import elected_text

#: As a Java controller of 5.5.0 answers 1006, of a set without a master.
SETS = (
    b'{"replicasInfoTable":{"broker-a":{"inSyncReplicas":[{"alive":true,"brokerAddress":"10.0.0.1:10911","brokerId":1,'
    b'"brokerName":"broker-a"}],"masterEpoch":3,"notInSyncReplicas":[{"alive":false,"brokerAddress":"10.0.0.2:10911",'
    b'"brokerId":2,"brokerName":"broker-a"}],"syncStateSetEpoch":7}}}'
)


def test_leader_is_known_from_any_controller():
    fields = {"group": "g", "isLeader": "false", "controllerLeaderAddress": "c1:9878", "peers": "n0:c1:9878;"}
    found = controller_metadata().read_response(RemotingCommand(0, ext_fields=fields))

    assert (found.is_leader, found.controller_leader_address, found.peers) == (False, "c1:9878", "n0:c1:9878;")


def test_controllers_without_a_leader_name_none():
    found = controller_metadata().read_response(RemotingCommand(0, ext_fields={"isLeader": "false"}))

    assert (found.controller_leader_address, found.group) == (None, None)


def test_set_has_its_epochs_and_replicas_those_in_sync_first():
    request = broker_sets_of(["broker-a", "broker-z"])
    found = request.read_response(RemotingCommand(0, body=SETS))["broker-a"]

    assert json.loads(request.request.body) == ["broker-a", "broker-z"]
    assert (found.master_broker_id, found.master_address) == (None, None)
    assert (found.master_epoch, found.sync_state_set_epoch) == (3, 7)
    assert found.replicas == (
        ReportedReplica(broker_id=1, address="10.0.0.1:10911", is_alive=True, is_in_sync=True),
        ReportedReplica(broker_id=2, address="10.0.0.2:10911", is_alive=False, is_in_sync=False),
    )


def test_election_is_of_one_broker_by_an_operator():
    request = elect_master("C", "broker-a", 2)
    fields = {"masterBrokerId": "2", "masterAddress": "10.0.0.2:10911", "masterEpoch": "4"}

    assert request.request.ext_fields == {
        "clusterName": "C",
        "brokerName": "broker-a",
        "brokerId": "2",
        "designateElect": "true",
    }
    for body in (b"", b"{", b'{"brokerAddrs":{"0":"10.0.0.2:10911"}}'):
        elected = request.read_response(RemotingCommand(0, ext_fields=fields, body=body))
        assert elected_text(elected) == "master is broker 2 at 10.0.0.2:10911, master epoch 4"
        assert elected.addresses == ({0: "10.0.0.2:10911"} if len(body) > 1 else None)


def test_election_in_which_the_master_stays_is_refused():
    with pytest.raises(Refused, match="code 2011"):
        elect_master("C", "broker-a", 1).read_response(RemotingCommand(2011, remark="still exist"))


def test_election_without_a_master_in_its_answer_is_unreadable():
    elected = elect_master("C", "broker-a", 1).mapped(elected_text)
    with pytest.raises(BodyError, match="names no master"):
        elected.read_response(RemotingCommand(0, ext_fields={"masterEpoch": "4"}))


@pytest.mark.parametrize(("ids", "sent"), [([1, 2], "1;2"), ([], None)])
def test_cleaning_names_brokers_or_means_the_whole_set(ids, sent):
    fields = clean_broker_data("C", "broker-a", ids, cleans_living=False).request.ext_fields

    assert fields.get("brokerControllerIdsToClean") == sent
    assert fields["isCleanLivingBroker"] == "false"
