"""What a receiver gets: JSON and variables, whatever brokers call themselves."""

import json
import os

from callback_builders import a_callback, a_change, a_master

from controller.callbacks.role_callback import WHY_CHARS_MAX


def test_body_is_one_line_of_json_with_both_masters_and_the_epoch():
    body = a_callback(skipped=(4, 5), attempt=3).body()
    assert body.endswith(b"\n")
    assert body.count(b"\n") == 1
    assert json.loads(body) == {
        "event": "roleChange",
        "cluster": "DefaultCluster",
        "brokerName": "broker-a",
        "masterEpoch": 6,
        "oldMaster": {"brokerId": 1, "address": "10.0.0.1:30911"},
        "newMaster": {"brokerId": 2, "address": "10.0.0.2:30911"},
        "why": "master 1 failed: its port refuses connections",
        "time": "2026-05-28T20:26:40.123000Z",
        "timeUnixMs": 1_780_000_000_123,
        "skippedEpochs": {"first": 4, "last": 5},
        "attempt": 3,
        "controllerId": "n0",
    }


def test_set_without_master_has_none_in_the_body_and_blank_variables():
    callback = a_callback(a_change(new=None))
    assert json.loads(callback.body())["newMaster"] is None
    variables = callback.variables()
    assert (variables["ROLE_CHANGE_NEW_BROKER_ID"], variables["ROLE_CHANGE_NEW_ADDRESS"]) == ("", "")
    assert variables["ROLE_CHANGE_OLD_ADDRESS"] == "10.0.0.1:30911"
    assert (variables["ROLE_CHANGE_SKIPPED_FIRST"], variables["ROLE_CHANGE_SKIPPED_LAST"]) == ("", "")


def test_variables_have_what_the_body_has():
    assert a_callback(old=None, skipped=(2, 5)).variables() == {
        "ROLE_CHANGE_CLUSTER": "DefaultCluster",
        "ROLE_CHANGE_BROKER_NAME": "broker-a",
        "ROLE_CHANGE_MASTER_EPOCH": "6",
        "ROLE_CHANGE_OLD_BROKER_ID": "",
        "ROLE_CHANGE_OLD_ADDRESS": "",
        "ROLE_CHANGE_NEW_BROKER_ID": "2",
        "ROLE_CHANGE_NEW_ADDRESS": "10.0.0.2:30911",
        "ROLE_CHANGE_WHY": "master 1 failed: its port refuses connections",
        "ROLE_CHANGE_TIME": "2026-05-28T20:26:40.123000Z",
        "ROLE_CHANGE_SKIPPED_FIRST": "2",
        "ROLE_CHANGE_SKIPPED_LAST": "5",
        "ROLE_CHANGE_ATTEMPT": "1",
        "ROLE_CHANGE_CONTROLLER_ID": "n0",
    }


def test_names_that_no_environment_takes_are_replaced_there_only():
    callback = a_callback(a_change(broker_name="a\0b"))
    value = callback.variables()["ROLE_CHANGE_BROKER_NAME"]
    assert value == "a\ufffdb"
    assert os.fsencode(value)
    assert json.loads(callback.body())["brokerName"] == "a\0b"


def test_largest_callback_fits_into_a_pipe():
    names = {"cluster": "\1" * 255, "broker_name": "\1" * 255}
    change = a_change(**names, new=a_master()._replace(address="\1" * 255))
    assert len(a_callback(change, why="\1" * 10 * WHY_CHARS_MAX).body()) < 65_536


def test_attempts_of_one_change_share_a_key():
    assert a_callback(attempt=1).key == a_callback(attempt=7).key == "DefaultCluster/broker-a/6"
    assert a_callback(a_change(master_epoch=7)).key != a_callback().key
