"""What brokers report about themselves."""

import json

import pytest

from remoting.admin.brokers import DelayLevel, broker_options, broker_runtime, ha_status
from remoting.protocol.command import RemotingCommand
from remoting.protocol.errors import BodyError

TABLE = {
    "brokerVersionDesc": "V5_5_0",
    "bootTimestamp": "1795580193875",
    "commitLogMinOffset": "0",
    "commitLogMaxOffset": "265333",
    "dispatchBehindBytes": "12",
    "putTps": "89.8640543782487 3.0 1.0",
    "scheduleMessageOffset_1": "5,7",
    "scheduleMessageOffset_18": "x,7",
    "runtime": "[ 0 days, 0 hours, 0 minutes, 28 seconds ]",
}
MASTER = (
    b'{"haClientRuntimeInfo":{"lastReadTimestamp":0,"lastWriteTimestamp":0,"masterFlushOffset":0,"maxOffset":0,'
    b'"transferredByteInSecond":0},"haConnectionInfo":[{"addr":"10.0.0.2:40000","diff":10,"inSync":true,'
    b'"slaveAckOffset":990,"transferFromWhere":0,"transferredByteInSecond":0}],"inSyncSlaveNums":1,"master":true,'
    b'"masterCommitLogMaxOffset":1000}'
)


def found(wanted, body):
    return wanted.read_response(RemotingCommand(0, body=body))


def runtime_with(**values):
    table = {name: value for name, value in (TABLE | values).items() if value is not None}
    return found(broker_runtime(), json.dumps({"table": table}).encode())


def test_broker_reports_its_version_log_and_delay_levels():
    runtime = runtime_with()
    assert (runtime.version, runtime.boot_unix_ms) == ("V5_5_0", 1_795_580_193_875)
    assert (runtime.commit_log_min_offset, runtime.commit_log_max_offset) == (0, 265_333)
    assert (runtime.dispatch_behind_bytes, runtime.put_tps) == (12, 89.8640543782487)
    assert runtime.delay_levels == {1: DelayLevel(delivered_offset=5, max_offset=7)}


@pytest.mark.parametrize("text", [None, "", "  ", "x y z"])
def test_rate_that_a_broker_does_not_know_yet_is_none_and_not_zero(text):
    assert runtime_with(putTps=text).put_tps is None


def test_values_that_a_broker_does_not_report_are_none():
    runtime = runtime_with(commitLogMaxOffset=None, dispatchBehindBytes="many")
    assert (runtime.commit_log_max_offset, runtime.dispatch_behind_bytes) == (None, None)


def test_wanted_options_are_read_and_others_not():
    body = b"brokerRole=ASYNC_MASTER\nbrokerId=0\nnamesrvAddr=a=b;c\n"
    assert found(broker_options({"brokerRole", "namesrvAddr", "noSuchOption"}), body) == {
        "brokerRole": "ASYNC_MASTER",
        "namesrvAddr": "a=b;c",
    }


@pytest.mark.parametrize("role", [True, False])
def test_broker_reports_whether_it_is_master_and_where_its_log_ends(role):
    text = MASTER.replace(b'"master":true', b'"master":%b' % json.dumps(role).encode())
    status = found(ha_status(), text)
    assert (status.is_master, status.max_offset) == (role, 1000)


def test_replication_without_a_role_is_an_error():
    with pytest.raises(BodyError):
        found(ha_status(), b"{}")
