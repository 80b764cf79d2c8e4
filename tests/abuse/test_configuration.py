"""What somebody without any identity can make of a server with one request that changes its configuration."""

import contextlib
import os
import stat

import pytest
from peers.controllers import OurController
from peers.wire import UPDATE_CONFIG

UPDATE_CONTROLLER_CONFIG = 1009
SUCCESS = 0
NO_PERMISSION = 16
SECRET = "hunter2-of-the-environment"

#: What would send clients away, keep everybody out, drop living brokers, fill a disk, or hide what is done.
OF_ANY_SERVER = [
    "connectionsMax=1",
    "frameMaxLength=1024",
    "serializeType=ROCKETMQ",
    "partialFrameBytesMax=1024",
    "responseBufferBytesMax=1024",
    "queuedBytesMax=1024",
    "writeBufferHighWaterMark=1\nwriteBufferLowWaterMark=1",
    "serverSocketBacklog=1",
    "serverSocketRcvBufSize=1",
    "serverSocketSndBufSize=1",
    "serverChannelMaxIdleTimeSeconds=1",
    "serverChannelMaxIdleTimeSeconds=0",
    "enableShutdownGracefully=true\nshutdownWaitTimeSeconds=2147483647",
    "logLevel=debug",
    "logLevel=error",
    "logFormat=console",
    "configWhiteList=connectionsMax",
]
OF_A_NAME_SERVER = [
    *OF_ANY_SERVER,
    "namesrvAddrList=10.6.6.6:9876",
    "defaultThreadPoolQueueCapacity=1",
    "scanNotActiveBrokerInterval=2147483647",
    "scanNotActiveBrokerInterval=1",
    "needWaitForService=true\nwaitSecondsForService=2147483647",
    "needWaitForService=true",
    "needWaitForService=false",
    "waitSecondsForService=0",
    "waitSecondsForService=60",
    "enableTopicList=false",
    "enableAllTopicList=false",
    "notifyMinBrokerIdChanged=true",
    "returnOrderTopicConfigToBroker=false",
    "deleteTopicWithBrokerRegistration=true",
    "supportActingMaster=false",
    "orderMessageEnable=false",
    "orderMessageEnable=true",
]
OF_A_CONTROLLER = [
    *OF_ANY_SERVER,
    "controllerRequestThreadPoolQueueCapacity=1",
    "suspectTimeoutMs=600000",
    "suspectTimeoutMs=500",
    "suspectTimeoutMs=10000",
    "scalingOperationsMax=100",
    "scalingIntervalMs=60000",
    "roleProbeIntervalMs=10000",
    "notifyBrokerRoleChanged=false",
    "enableElectUncleanMaster=true",
    "enableElectUncleanMaster=false",
    "adoptUnknownBrokers=true",
    "controllerDLegerPeers=n0-10.6.6.6:9878",
]


def listed(answer):
    return dict(line.split("=", 1) for line in answer.body.decode().splitlines())


def taken(caller, code, changes):
    """Return which of these changes were not refused, with the answer."""
    answers = {change: caller.request(code, {}, change.encode()) for change in changes}
    return {change: (answer.code, answer.remark) for change, answer in answers.items() if answer.code != NO_PERMISSION}


def test_no_request_makes_a_name_server_useless(serve):
    served = serve(logLevel="info")
    before = listed(served.server.caller.request(319))
    assert taken(served.server.caller, UPDATE_CONFIG, OF_A_NAME_SERVER) == {}
    assert listed(served.server.caller.request(319)) == before
    served.assert_unharmed()


def test_no_request_makes_a_controller_useless(lab):
    controller = lab.kept(OurController(lab.folder)).start()
    before = listed(controller.caller.request(1010))
    assert taken(controller.caller, UPDATE_CONTROLLER_CONFIG, OF_A_CONTROLLER) == {}
    assert listed(controller.caller.request(1010)) == before


def test_what_operators_change_by_request_is_still_changed(serve, lab):
    caller = serve(logLevel="debug").server.caller
    for change in (
        b"supportActingMaster=true",
        b"scanNotActiveBrokerInterval=5000",
        b"serverChannelMaxIdleTimeSeconds=121",
        b"logLevel=info",
        b"serverWorkerThreads=4",
    ):
        assert caller.request(UPDATE_CONFIG, {}, change).code == SUCCESS, change
    controller = lab.kept(OurController(lab.folder)).start()
    for change in (b"notifyBrokerRoleChanged=true", b"scanNotActiveBrokerInterval=1000"):
        assert controller.caller.request(UPDATE_CONTROLLER_CONFIG, {}, change).code == SUCCESS, change


@pytest.mark.parametrize("code", [319, 1010], ids=["name server", "controller"])
def test_a_server_lists_the_byte_limits_that_are_in_force(serve, lab, code):
    server = serve().server if code == 319 else lab.kept(OurController(lab.folder)).start()
    limits = listed(server.caller.request(code))
    for key in ("partialFrameBytesMax", "responseBufferBytesMax", "queuedBytesMax"):
        assert 64 * 2**20 <= int(limits[key]) <= 512 * 2**20, key
    assert int(limits["frameMaxLength"]) == (64 if code == 319 else 2) * 2**20


def test_an_operator_may_open_a_property_to_requests(serve):
    caller = serve(configWhiteList="connectionsMax; scanNotActiveBrokerInterval").server.caller
    for change in (b"connectionsMax=1000", b"scanNotActiveBrokerInterval=60000"):
        assert caller.request(UPDATE_CONFIG, {}, change).code == SUCCESS, change
    refused = caller.request(UPDATE_CONFIG, {}, b"frameMaxLength=2000000")
    assert refused.code == NO_PERMISSION
    assert "--frame-max-length" in refused.remark


@pytest.fixture
def secretive(lab):
    """A NameServer with a secret in its environment, and a file that everybody may read."""
    with contextlib.ExitStack() as stack:
        server = lab.name_server(
            http=True, environment={"RMQ_NAMESRV_TLS_CLIENT_KEY_PASSWORD": SECRET, "RMQ_NAMESRV_LOG_LEVEL": "warning"}
        )
        stack.callback(server.process.kill)
        path = server.folder / "namesrv.properties"
        path.chmod(0o644)
        yield server, path


def files_with(folder, text):
    return [each for each in folder.rglob("*") if each.is_file() and text in each.read_bytes()]


def test_a_change_leaves_the_other_lines_of_the_file_as_they_are_comments_and_order_too(lab):
    server = lab.idle_name_server("namesrv", configWhiteList="waitSecondsForService")
    path = server.folder / "namesrv.properties"
    own = path.read_bytes()
    path.write_bytes(
        own + b"# why: ticket 4711 \xe9\n\nwaitSecondsForService : 10 \\\n\n! order counts\nlogFormat=json\n# end"
    )
    server.start()
    try:
        change = b"waitSecondsForService=11\nsupportActingMaster=true"
        assert server.caller.request(UPDATE_CONFIG, {}, change).code == SUCCESS
        assert path.read_bytes() == own + (
            b"# why: ticket 4711 \xe9\n\nwaitSecondsForService=11\n! order counts\nlogFormat=json\n# end\n"
            b"supportActingMaster=true\n"
        )
    finally:
        server.process.kill()


def test_what_the_environment_keeps_secret_comes_into_no_file(secretive):
    server, path = secretive
    own = path.read_bytes()
    before = path.stat()
    # What is so already changes nothing, and what is not known here neither.
    for change in (b"serverWorkerThreads=8", b"nobodyKnows=this"):
        assert server.caller.request(UPDATE_CONFIG, {}, change).code == SUCCESS
    assert path.read_bytes() == own
    assert (path.stat().st_ino, path.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    assert server.caller.request(UPDATE_CONFIG, {}, b"supportActingMaster=true").code == SUCCESS
    assert set(path.read_text().splitlines()) == {*own.decode().splitlines(), "supportActingMaster=true"}
    assert stat.S_IMODE(path.stat().st_mode) == 0o644
    assert path.stat().st_uid == os.getuid()
    assert [each for each in files_with(server.folder, SECRET.encode()) if "log" not in each.name] == []
