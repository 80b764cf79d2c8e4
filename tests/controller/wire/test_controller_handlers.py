"""Every request of a controller, table by table (docs/protocol/controller.md 1), as brokers and mqadmin send it."""

import json

import pytest
from fakes.in_process_controller import CLUSTER, ME, SET, at

from controller.failure_detection.suspicion import ProbeOutcome
from remoting.admin.controllers import broker_sets_of
from remoting.protocol.codes import RequestCode, ResponseCode


async def next_id(controller, name=SET):
    answer = await controller.request(
        RequestCode.CONTROLLER_GET_NEXT_BROKER_ID, {"clusterName": CLUSTER, "brokerName": name}
    )
    return int(answer.ext_fields["nextBrokerId"])


# 1012, 1013


async def test_query_for_the_next_broker_id_reserves_nothing(controller):
    assert [await next_id(controller), await next_id(controller)] == [1, 1]
    assert (await controller.apply(1)).code == 0
    assert await next_id(controller) == 2
    assert next(iter(controller.store.sets())).master is None


# 1003


async def test_registration_is_answered_with_the_living_master(controller):
    await controller.a_set(1, 2)
    answer = await controller.register(2)
    assert answer.ext_fields == {
        "clusterName": CLUSTER,
        "brokerName": SET,
        "masterBrokerId": "1",
        "masterAddress": at(1),
        "masterEpoch": "1",
        "syncStateSetEpoch": "2",
    }
    assert json.loads(answer.body) == {"syncStateSet": [1, 2], "syncStateSetEpoch": 2}


async def test_registration_in_a_set_without_master_is_answered_with_the_sync_state_set(controller):
    await controller.apply(1)
    answer = await controller.register(1)
    assert answer.ext_fields == {"clusterName": CLUSTER, "brokerName": SET}
    assert json.loads(answer.body) == {"syncStateSet": [], "syncStateSetEpoch": 0}


async def test_refused_registration_does_not_change_the_heartbeat_of_that_broker(controller):
    await controller.a_set(1, 2)
    await controller.heartbeat(2, maxOffset=500)
    assert (await controller.register(2, cluster="D")).code == ResponseCode.CONTROLLER_BROKER_NEED_TO_BE_REGISTERED
    assert controller.live.of_set(SET)[2].max_offset == 500
    await controller.register(2)
    assert controller.live.of_set(SET)[2].max_offset == -1


# 1002


async def test_first_election_request_is_won_by_its_sender(controller):
    await controller.apply(1)
    await controller.register(1)
    await controller.heartbeat(1, epoch=-1, maxOffset=0)
    answer = await controller.elect(1)
    assert answer.code == 0
    assert answer.ext_fields == {
        "masterBrokerId": "1",
        "masterAddress": at(1),
        "masterEpoch": "1",
        "syncStateSetEpoch": "1",
    }
    group = {"brokerAddrs": {"1": at(1)}, "brokerName": SET, "cluster": CLUSTER}
    assert json.loads(answer.body) == {"brokerMemberGroup": group, "syncStateSet": [1]} | group


async def test_election_request_beside_a_living_master_is_answered_with_it(controller):
    await controller.a_set(1, 2)
    answer = await controller.elect(2)
    assert answer.code == ResponseCode.CONTROLLER_MASTER_STILL_EXIST
    assert answer.ext_fields["masterBrokerId"] == "1"
    assert json.loads(answer.body) == {"syncStateSet": [1, 2]}


async def test_designated_broker_becomes_master_and_all_living_brokers_are_notified(controller):
    await controller.a_set(1, 2)
    answer = await controller.elect(2, designate=True)
    assert (answer.code, answer.ext_fields["masterEpoch"], answer.ext_fields["syncStateSetEpoch"]) == (0, "2", "3")
    notice = controller.notices()[-1]
    assert (notice.master.broker_id, notice.sync_state_set) == (2, (2,))
    assert {each.broker_id for each in notice.recipients} == {1, 2}


async def test_election_without_a_candidate_is_2012_for_a_broker_and_2004_for_an_operator(controller):
    await controller.a_set(1, 2, in_sync=[1])
    controller.control.monitor.connection_lost(1)
    await controller.pass_ms(100)
    (probe,) = controller.take_probes()
    controller.control.monitor.probed(probe.key, ProbeOutcome.REFUSED)
    await controller.done()
    assert (await controller.elect(2)).code == ResponseCode.CONTROLLER_ELECT_MASTER_FAILED
    answer = await controller.elect(-1)
    assert answer.code == ResponseCode.CONTROLLER_MASTER_NOT_AVAILABLE
    assert "SyncStateSet [1]" in answer.remark
    assert controller.stored().master_epoch == 2


async def test_election_of_an_unknown_set_is_2010(controller):
    assert (await controller.elect(1)).code == ResponseCode.CONTROLLER_BROKER_NEED_TO_BE_REGISTERED


# 1004, 1006


async def test_replica_info_of_a_set_without_master_has_its_epoch(controller):
    await controller.a_set(1)
    await controller.register(1)
    answer = await controller.info()
    assert (answer.ext_fields, json.loads(answer.body)) == (
        {"masterEpoch": "2"},
        {"syncStateSet": [1], "syncStateSetEpoch": 1},
    )


async def test_sync_state_data_has_both_lists_and_omits_unknown_sets(controller):
    await controller.a_set(1, 2, in_sync=[1])
    body = json.dumps([SET, "nobody", SET]).encode()
    answer = await controller.request(RequestCode.CONTROLLER_GET_SYNC_STATE_DATA, {}, body)
    table = json.loads(answer.body)["replicasInfoTable"]

    def shown(broker_id):
        return {"brokerName": SET, "brokerId": broker_id, "brokerAddress": at(broker_id), "alive": True}

    assert table == {
        SET: {
            "masterBrokerId": 1,
            "masterAddress": at(1),
            "masterEpoch": 1,
            "syncStateSetEpoch": 1,
            "inSyncReplicas": [shown(1)],
            "notInSyncReplicas": [shown(2)],
        }
    }


@pytest.mark.parametrize("body", [b"", b'["broker-a"]'])
async def test_sync_state_data_with_details_has_the_cluster_and_the_last_election_and_lists_all_sets(controller, body):
    await controller.a_set(1, 2, in_sync=[1])
    await controller.elect(2)
    answer = await controller.request(RequestCode.CONTROLLER_GET_SYNC_STATE_DATA, {"withDetails": "true"}, body)

    found = broker_sets_of().read_response(answer)[SET]
    assert (found.cluster, found.master_broker_id, len(found.lacking)) == (CLUSTER, 1, 1)
    assert found.last_election.startswith("broker 1 ")
    assert (await controller.request(RequestCode.CONTROLLER_GET_SYNC_STATE_DATA, {})).code == ResponseCode.SYSTEM_ERROR


# 1001


async def test_report_of_a_master_changes_the_sync_state_set(controller):
    await controller.a_set(1, 2, in_sync=[1])
    answer = await controller.report([1, 2], epoch=1)
    assert (answer.code, answer.ext_fields) == (0, {"newSyncStateSetEpoch": "2"})
    assert json.loads(answer.body) == {"syncStateSet": [1, 2], "syncStateSetEpoch": 2}


# 1005, 1009, 1010, 904


async def test_metadata_of_the_leader_names_itself(controller):
    answer = await controller.request(RequestCode.CONTROLLER_GET_METADATA_INFO, {})
    assert answer.ext_fields == {
        "group": "g",
        "controllerLeaderId": ME.id,
        "controllerLeaderAddress": ME.address,
        "isLeader": "true",
        "peers": f"{ME.id}:{ME.address};",
    }


async def test_follower_answers_only_its_requests_and_names_no_leader_if_there_is_none(controller):
    await controller.a_set(1)
    controller.group.follows(None)
    answer = await controller.request(RequestCode.CONTROLLER_GET_METADATA_INFO, {})
    assert answer.ext_fields == {"group": "g", "isLeader": "false", "peers": f"{ME.id}:{ME.address};"}
    await controller.heartbeat(1)
    assert (await controller.request(RequestCode.GET_CONTROLLER_CONFIG, {})).code == 0
    refused = [
        await controller.info(),
        await controller.apply(2),
        await controller.register(1),
        await controller.elect(1),
        await controller.report([1]),
        await controller.clean(),
        await controller.request(RequestCode.CONTROLLER_GET_SYNC_STATE_DATA, {}, b'["broker-a"]'),
        await controller.request(RequestCode.CONTROLLER_GET_NEXT_BROKER_ID, {"brokerName": SET}),
    ]
    assert {(each.code, each.body) for each in refused} == {(ResponseCode.CONTROLLER_NOT_LEADER, b"")}


async def test_configuration_can_be_changed_except_for_the_black_list(controller):
    refused = await controller.request(
        RequestCode.UPDATE_CONTROLLER_CONFIG, {}, b"enableElectUncleanMaster=true\nconfigBlackList="
    )
    assert refused.code == ResponseCode.NO_PERMISSION
    assert not controller.settings.config.enable_elect_unclean_master
    taken = await controller.request(RequestCode.UPDATE_CONTROLLER_CONFIG, {}, b"enableElectUncleanMaster=true\n")
    assert taken.code == 0
    assert b"enableElectUncleanMaster=true" in (await controller.request(RequestCode.GET_CONTROLLER_CONFIG, {})).body


# 1011


async def test_failed_broker_can_be_cleaned_and_living_ones_cannot(controller):
    await controller.a_set(1, 2)
    await controller.apply(3)
    assert (await controller.clean("2")).code == ResponseCode.CONTROLLER_INVALID_CLEAN_BROKER_METADATA
    assert (await controller.clean()).code == ResponseCode.CONTROLLER_INVALID_CLEAN_BROKER_METADATA
    # It may beat for the first time while this controller is young.
    assert (await controller.clean("3")).code == ResponseCode.CONTROLLER_INVALID_CLEAN_BROKER_METADATA
    await controller.pass_ms(13_000, beating=(1, 2))
    assert (await controller.clean("3")).code == 0
    assert controller.stored().replicas.keys() == {1, 2}
    assert await next_id(controller) == 4
