"""The record of an election tells brokers of 5.5.0 that died one after the other what happened, and helps."""

import pytest
from operations.control_plane import elections, events, shown
from peers.controllers import OurController
from peers.servers import registered
from peers.waiting import wait_until

pytestmark = [pytest.mark.java, pytest.mark.broad]

SET = "gone"
SOON_S = 60


def test_record_of_the_last_broker_that_died_is_true_outlives_the_controller_and_says_whom_to_start(lab):
    namesrv, controller = lab.name_server(), lab.kept(OurController(lab.folder)).start()
    elder, younger = (
        lab.broker(SET, label=label, namesrv=[namesrv.address], **controller.broker_settings())
        for label in ("elder", "younger")
    )
    for each in (elder, younger):
        each.start().ready()
        wait_until(lambda b=each: registered(namesrv, b), seconds=SOON_S, what=f"{each.name} registered")
    in_sync = lambda: shown(controller, f"/v1/broker-sets/{SET}")["syncStateSet"]  # noqa: E731
    wait_until(lambda: in_sync() == [1, 2], seconds=SOON_S, what="both are in sync")
    younger.process.kill()
    wait_until(lambda: in_sync() == [1], seconds=SOON_S, what="the slave is out of sync")

    elder.process.kill()
    (failed,) = wait_until(lambda: events(controller, "election_failed"), seconds=SOON_S, what="nobody leads")
    last = elections(controller, SET)[0]
    assert (last["result"], last["oldMaster"], last["newMaster"]) == ("no_master_elected", 1, None)
    assert {each["verdict"] for each in last["candidates"]} == {"not alive"}
    assert last["advice"] == f"start broker 1 at {elder.address}: once it is back, it can lead"
    assert last["force"].startswith(f"rmq controller elect {SET} 1 ")
    assert (failed["reason"], failed["advice"]) == (last["reason"], last["advice"])
    replicas = shown(controller, f"/v1/broker-sets/{SET}")["replicas"]
    assert [each["lastContactUnixMs"] is None for each in replicas] == [False, False]
    (roles,) = shown(controller, "/v1/roles")["brokerSets"]
    assert roles["confirmed"] is False

    controller.restart_with()
    wait_until(lambda: last in elections(controller, SET), seconds=SOON_S, what="the record is there again")
    elder.start().ready()
    wait_until(
        lambda: shown(controller, "/v1/roles")["brokerSets"][0]["confirmed"], seconds=SOON_S, what="it leads as advised"
    )
