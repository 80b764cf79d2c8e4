"""What a controller answers over HTTP: its group, its sets, its elections with their reasons."""

import msgspec
import pytest
from controller_builders import a_set
from fakes.in_process_controller import CLUSTER, ME, SET, at
from server_paths import CONTROLLER_ENDPOINTS, SWITCHOVER_ENDPOINTS

from controller.failover.election_log import NotificationResult
from controller.failure_detection.heartbeats import BrokerKey
from controller.failure_detection.suspicion import ProbeOutcome
from controller.sets.stored_set import StoredSet
from serving.http import openapi
from serving.http.views import ErrorAnswer
from serving.metrics.health import Serving
from store.store import ControllerMember, VersionedEntry

OTHER = ControllerMember(id="n1", address="10.0.0.2:9878")
PATHS = [each.path for each in CONTROLLER_ENDPOINTS]
#: Those of queue scaling are in test_scaling_views.py, those of switchovers in test_switchover_views.py, those of
#: analyses in test_analysis_views.py, those of the history in test_past_answers.py, the stream in
#: test_controller_watch.py.
VIEWS_OF_SETS = [
    each
    for each in CONTROLLER_ENDPOINTS
    if not (each.changes or each.streams or each.path.startswith(("/v1/scaling/", "/v1/analyses", "/v1/history")))
    and each.path not in {other.path for other in SWITCHOVER_ENDPOINTS}
]


@pytest.fixture
async def controller(controller):
    return await controller.serve_http()


def stored(controller, *names, **values):
    """Let sets be known, as another controller has left them."""
    for name in names:
        controller.store.entry_changed(name, VersionedEntry(StoredSet(broker_set=a_set(broker_name=name, **values)), 1))


async def fail_master(controller, master=1):
    """Let the port of the master refuse connections."""
    controller.control.monitor.connection_lost(master)
    await controller.pass_ms(100)
    (probe,) = controller.take_probes()
    controller.control.monitor.probed(probe.key, ProbeOutcome.REFUSED)
    await controller.done()


async def elections(controller, query=""):
    status, body = await controller.get(f"/v1/elections{query}")
    assert status == 200
    return body["elections"]


async def refusal(controller, path):
    status, body = await controller.get(path)
    return status, body["error"]["code"], body["error"]["message"]


# Roles


async def test_roles_of_brokers_are_shown_as_they_are_answered(controller):
    controller.masters.add(at(1))
    await controller.a_set(1, 2)
    await controller.publish_roles()
    until_ms = controller.roles.holds.hold("broker-b", controller.clock.now_ms() + 200)
    stored(controller, "broker-b", master=2, master_epoch=4)
    status, body = await controller.get("/v1/roles")
    assert (status, body["isLeader"], body["total"]) == (200, True, 2)
    first, second = body["brokerSets"]
    assert first == {
        "brokerName": SET,
        "cluster": CLUSTER,
        "masterBrokerId": 1,
        "masterAddress": at(1),
        "masterEpoch": 1,
        "confirmed": True,
        "heldUntilUnixMs": None,
        "roles": [
            {"brokerId": 1, "address": at(1), "verdict": "serves", "doubt": ""},
            {"brokerId": 2, "address": at(2), "verdict": "superseded", "doubt": ""},
        ],
    }
    assert not second["confirmed"]
    assert second["heldUntilUnixMs"] == controller.clock.unix_ms() + until_ms - controller.clock.now_ms()
    assert {each["verdict"] for each in second["roles"]} == {"held"}


async def test_follower_shows_roles_as_unknown(controller):
    stored(controller, SET)
    controller.group.follows(OTHER)
    _, body = await controller.get("/v1/roles?prefix=broker")
    (shown,) = body["brokerSets"]
    assert not body["isLeader"]
    assert {(each["verdict"], each["doubt"]) for each in shown["roles"]} == {
        ("unknown", "this controller does not lead")
    }


# Probes


async def test_follower_is_ready(controller):
    controller.group.follows(OTHER)
    assert await controller.get("/readyz") == (200, {"status": "ready"})


async def test_without_a_leader_no_controller_is_ready(controller):
    assert await controller.get("/readyz") == (200, {"status": "ready"})
    controller.group.follows(None)
    assert await refusal(controller, "/readyz") == (503, "unavailable", "No controller leads at present.")
    assert (await controller.get("/livez"))[0] == 200


async def test_leader_with_an_expired_lease_is_not_ready(controller):
    controller.group.leads(controller.clock.now_ms() + 5_000)
    assert (await controller.get("/readyz"))[0] == 200
    controller.clock.pass_ms(5_001)
    assert (await refusal(controller, "/readyz"))[0] == 503


# The group


async def test_controllers_path_shows_the_group_as_this_controller_knows_it(controller):
    controller.group.members_changed((ME, OTHER))
    me = {"id": ME.id, "address": ME.address}
    other = {"id": OTHER.id, "address": OTHER.address}
    reported = {"group": "g", "role": "leader", "leaderId": ME.id, "leaderAddress": ME.address, "leaderChanges": 1}
    reported |= {"store": "embedded", "pauseMs": controller.control.detector.pause_ends_ms - controller.clock.now_ms()}
    reported["members"] = [me | {"isLeader": True, "isSelf": True}, other | {"isLeader": False, "isSelf": False}]
    assert await controller.get("/v1/controllers") == (200, reported)
    controller.group.follows(OTHER)
    reported |= {"role": "follower", "leaderId": OTHER.id, "leaderAddress": OTHER.address, "leaderChanges": 2}
    reported["members"] = [me | {"isLeader": False, "isSelf": True}, other | {"isLeader": True, "isSelf": False}]
    assert await controller.get("/v1/controllers") == (200, reported)
    controller.group.follows(None)
    _, body = await controller.get("/v1/controllers")
    assert (body["role"], body["leaderId"], body["leaderAddress"]) == ("candidate", None, None)


async def test_the_pause_after_the_start_runs_down_to_0(controller):
    _, before = await controller.get("/v1/controllers")
    assert before["pauseMs"] > 0
    controller.clock.pass_ms(before["pauseMs"] - 1)
    assert (await controller.get("/v1/controllers"))[1]["pauseMs"] == 1
    controller.clock.pass_ms(60_000)
    assert (await controller.get("/v1/controllers"))[1]["pauseMs"] == 0


# Sets


async def test_set_is_shown_with_each_broker_and_its_last_heartbeat(controller):
    await controller.a_set(1, 2)
    await controller.heartbeat(1, epoch=1, maxOffset=500, confirmOffset=480, electionPriority=3)
    last_contact_ms = controller.clock.unix_ms()
    controller.clock.pass_ms(700)
    controller.control.monitor.connection_lost(2)
    status, body = await controller.get(f"/v1/broker-sets/{SET}")
    assert status == 200
    one, two = body.pop("replicas")
    assert body == {
        "brokerName": SET,
        "cluster": CLUSTER,
        "state": "healthy",
        "masterBrokerId": 1,
        "masterAddress": at(1),
        "masterEpoch": 1,
        "syncStateSet": [1, 2],
        "syncStateSetEpoch": 2,
        "nextBrokerId": 3,
        "lastElection": 1,
        "lastElectionReason": controller.control.elections.of_set(SET).reason,
    }
    assert one == {
        "brokerId": 1,
        "address": at(1),
        "isMaster": True,
        "inSync": True,
        "alive": True,
        "suspect": False,
        "lastContactUnixMs": last_contact_ms,
        "epoch": 1,
        "maxOffset": 500,
        "confirmOffset": 480,
        "electionPriority": 3,
    }
    assert (two["brokerId"], two["isMaster"], two["inSync"], two["alive"], two["suspect"]) == (
        2,
        False,
        True,
        True,
        True,
    )


async def test_broker_without_a_heartbeat_is_shown_without_figures(controller):
    stored(controller, "broker-b")
    _, body = await controller.get("/v1/broker-sets/broker-b")
    assert (body["state"], body["masterBrokerId"], body["lastElectionReason"]) == ("no_master", 1, None)
    for replica in body["replicas"]:
        assert (replica["alive"], replica["suspect"], replica["lastContactUnixMs"]) == (False, False, None)
        assert {replica[key] for key in ("epoch", "maxOffset", "confirmOffset", "electionPriority")} == {None}


async def test_registered_broker_is_shown_without_a_log_end_before_its_heartbeat(controller):
    await controller.a_set(1, 2)
    await controller.register(2)
    _, body = await controller.get(f"/v1/broker-sets/{SET}")
    replica = body["replicas"][1]
    assert (replica["alive"], replica["lastContactUnixMs"]) == (True, controller.clock.unix_ms())
    assert (replica["epoch"], replica["maxOffset"]) == (None, None)


async def test_sets_are_paged_by_name_and_filtered_by_prefix(controller):
    stored(controller, "b-2", "a-1", "b-10", "b-1")
    seen, query = [], "?prefix=b-&limit=2"
    cursor = ""
    while True:
        status, body = await controller.get(f"/v1/broker-sets{query}{cursor}")
        assert (status, body["total"]) == (200, 3)
        seen.append([each["brokerName"] for each in body["brokerSets"]])
        if body["nextCursor"] is None:
            break
        cursor = f"&cursor={body['nextCursor']}"
    assert seen == [["b-1", "b-10"], ["b-2"]]
    _, body = await controller.get("/v1/broker-sets")
    assert [each["brokerName"] for each in body["brokerSets"]] == ["a-1", "b-1", "b-10", "b-2"]


async def test_set_with_special_characters_in_its_name_is_found(controller):
    stored(controller, "broker ü%")
    status, body = await controller.get("/v1/broker-sets/broker%20%C3%BC%25")
    assert (status, body["brokerName"]) == (200, "broker ü%")


async def test_follower_shows_the_sets_that_it_has_read(controller):
    controller.group.follows(OTHER)
    stored(controller, "broker-b")
    assert (await controller.get("/v1/broker-sets/broker-b"))[0] == 200


# Elections


async def test_election_is_shown_with_candidates_and_reason(controller):
    await controller.a_set(1, 2, 3, in_sync=[1, 2])
    await controller.heartbeat(1, 2, maxOffset=500)
    await controller.heartbeat(3, maxOffset=400)
    await controller.pass_ms(400)
    unix_ms = controller.clock.unix_ms()
    await fail_master(controller)
    last, first = await elections(controller)
    assert last["unixMs"] == last["lastUnixMs"] == unix_ms + 100
    del last["unixMs"], last["lastUnixMs"]
    candidates = last.pop("candidates")
    phases = last.pop("phases")
    assert last.pop("cause").startswith("master 1 failed: its connection closed and its port refuses connections")
    assert last == {
        "number": 2,
        "brokerName": SET,
        "cluster": CLUSTER,
        "trigger": "master_dead",
        "result": "new_master_elected",
        "reason": "broker 2 was elected; broker 1 is not alive; broker 3 is not in the SyncStateSet",
        "oldMaster": 1,
        "newMaster": 2,
        "masterEpoch": 2,
        "syncStateSetEpoch": 3,
        "unclean": False,
        "bytesAtStake": 0,
        "heldBy": ME.address,
        "advice": "",
        "force": "",
        "notified": [],
        "times": 1,
    }
    assert [(each["brokerId"], each["inSync"], each["verdict"]) for each in candidates] == [
        (1, True, "not alive"),
        (2, True, "elected"),
        (3, False, "not in the SyncStateSet"),
    ]
    assert candidates[2] == {
        "brokerId": 3,
        "address": at(3),
        "inSync": False,
        "verdict": "not in the SyncStateSet",
        "epoch": 1,
        "maxOffset": 400,
        "electionPriority": 2**31 - 1,
        "lostBytes": 0,
    }
    # Suspect when its connection closed, and judged once it was asked.
    assert phases == {"suspectMs": 400, "judgeMs": 100, "fenceMs": None, "commitMs": 0}
    assert (first["number"], first["trigger"], first["oldMaster"], first["newMaster"]) == (1, "broker", None, 1)
    assert (first["phases"]["suspectMs"], first["phases"]["judgeMs"]) == (None, None)


async def test_views_of_a_set_whose_last_broker_failed_tell_one_story(controller):
    """The only other one had failed before, out of sync; no broker at all is in contact any more."""
    controller.masters.add(at(1))
    await controller.a_set(1, 2, in_sync=[1])
    await controller.heartbeat(1, maxOffset=1_000)
    await controller.heartbeat(2, maxOffset=700)
    await controller.publish_roles()
    await controller.lose(2)
    await controller.heartbeat(1, maxOffset=1_000)
    last_unix_ms = controller.clock.unix_ms()
    await controller.pass_ms(200)
    await controller.lose(1)
    last = (await elections(controller))[0]
    assert last["cause"].endswith("its port refuses connections; last contact 300 ms before")
    assert last["reason"] == (
        "no broker of the SyncStateSet [1] can lead, and broker 1 stays recorded as master; "
        "broker 1 is not alive; broker 2 is not alive"
    )
    assert (last["result"], last["oldMaster"], last["newMaster"]) == ("no_master_elected", 1, None)
    assert last["advice"] == f"start broker 1 at {at(1)}: once it is back, it can lead"
    assert last["force"] == (
        f"rmq controller elect {SET} 1 --controller {ME.address} # once broker 1 runs again, unless it leads by then"
    )
    (logged,) = controller.events("election_failed")
    assert {key: logged[key] for key in ("cause", "reason", "new_master", "advice", "force")} == {
        key: last[{"new_master": "newMaster"}.get(key, key)]
        for key in ("cause", "reason", "new_master", "advice", "force")
    }
    (shown,) = (await controller.get("/v1/broker-sets"))[1]["brokerSets"]
    assert [(each["alive"], each["maxOffset"]) for each in shown["replicas"]] == [(False, 1_000), (False, 700)]
    assert shown["replicas"][0]["lastContactUnixMs"] == last_unix_ms
    (roles,) = (await controller.get("/v1/roles"))[1]["brokerSets"]
    assert (roles["confirmed"], roles["roles"][0]["verdict"]) == (False, "failed")


async def test_broker_that_fails_unheard_has_no_time_of_a_contact(controller):
    await controller.a_set(1, 2)
    controller.restart()
    await controller.pass_ms(11_000, beating=(2,))
    # The requests of 2 reach what started anew, and its views are those of before.
    await controller.session.close()
    await controller.server.stop()
    await controller.serve_http()
    controller.reachability.reached(BrokerKey(SET, 1), at(1), "")
    for probe in controller.take_probes():
        controller.control.monitor.probed(probe.key, ProbeOutcome.REFUSED)
    await controller.done()
    (failed,) = controller.events("broker_failed")
    assert (failed["silent_ms"], failed["reason"]) == (
        None,
        "it has sent no heartbeat since this controller started and its port refuses connections",
    )
    (shown,) = (await controller.get("/v1/broker-sets"))[1]["brokerSets"]
    assert shown["replicas"][0]["lastContactUnixMs"] is None
    assert (await elections(controller))[0]["phases"]["suspectMs"] is None


async def test_election_is_shown_with_its_role_notifications(controller):
    await controller.a_set(1, 2)
    controller.elections.notified(SET, 1, 2, NotificationResult("failed", 3_010, 3))
    controller.elections.notified(SET, 1, 1, NotificationResult("ok", 7, 1))
    (last,) = await elections(controller)
    assert last["notified"] == [
        {"brokerId": 1, "result": "ok", "afterMs": 7, "tries": 1},
        {"brokerId": 2, "result": "failed", "afterMs": 3_010, "tries": 3},
    ]


async def test_newest_elections_come_first_up_to_the_limit(controller):
    for name in ("b-1", "a-1", "b-2", "b-3"):
        await controller.a_set(1, name=name)
    assert [each["number"] for each in await elections(controller)] == [4, 3, 2, 1]
    assert [each["brokerName"] for each in await elections(controller, "?prefix=b-&limit=2")] == ["b-3", "b-2"]
    assert await elections(controller, "?prefix=zz") == []


# The configuration


# Errors


# The description


async def test_openapi_describes_exactly_the_paths(controller):
    status, described = await controller.get(openapi.PATH)
    assert status == 200
    assert set(described["paths"]) == {*PATHS, openapi.PATH}


@pytest.mark.parametrize("endpoint", VIEWS_OF_SETS, ids=lambda endpoint: endpoint.path)
async def test_openapi_describes_exactly_the_refusals_that_occur(controller, endpoint):
    _, described = await controller.get(openapi.PATH)
    controller.group.follows(None)
    seen = set()
    path = endpoint.path.replace("{name}", "nope")
    for query in ("", "?odd=1", ""):
        status, body = await controller.get(path + query)
        if query:
            # Then it is as if the process ended.
            controller.store.changes.close()
        if status != 200:
            msgspec.convert(body, ErrorAnswer)
            seen.add(str(status))
    assert seen == set(described["paths"][endpoint.path]["get"]["responses"]) - {"200", "500"}


async def test_draining_controller_is_not_ready(controller):
    controller.health.serving = Serving.DRAINING
    assert await refusal(controller, "/readyz?verbose") == (503, "unavailable", "This controller is draining.")
