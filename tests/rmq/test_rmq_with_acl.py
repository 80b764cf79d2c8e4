"""`rmq` at brokers of three releases that require signed requests: ACL 2.0 of 5.5.0, ACL 1.0 of the releases before."""

import pytest
from peers.acl import CONTROL, STRANGER, acl_1, acl_2
from peers.jars import V4_9, V5_1, V5_5
from peers.lab import Lab
from peers.servers import CLUSTER
from peers.waiting import wait_until
from rmq_runs import Rmq

# Three brokers take 20 s each.
pytestmark = [pytest.mark.java, pytest.mark.soak]


@pytest.fixture(scope="module", params=[V5_5, V5_1, V4_9])
def guarded(request, tmp_path_factory):
    lab = Lab(tmp_path_factory.mktemp("guarded"))
    try:
        namesrv = lab.name_server()
        own = acl_2() if request.param == V5_5 else acl_1(lab.folder, "guarded-0")
        lab.broker("guarded", namesrv=[namesrv.address], version=request.param, **own).start().ready()
        wait_until(lambda: namesrv.caller.addresses("guarded"), seconds=60, what="the broker is listed")
        yield namesrv
    finally:
        lab.close()


def operator(folder, namesrv, keys):
    file = folder / "tools.yml"
    file.write_text(f"accessKey: {keys.access}\nsecretKey: {keys.secret}\n")
    file.chmod(0o600)
    return Rmq(folder / "operator", NAMESRV_ADDR=namesrv.address, RMQ_ACCESS_KEY_FILE=str(file))


CREATE = ("topic", "create", "Orders", "--cluster", CLUSTER, "--read", "4", "--write", "4", "--yes")


def test_changes_without_keys_or_with_wrong_ones_are_no_rights(guarded, tmp_path):
    unsigned = Rmq(tmp_path / "nobody", NAMESRV_ADDR=guarded.address).run(*CREATE)
    wrong = operator(tmp_path, guarded, STRANGER).run(*CREATE)

    assert (unsigned.code, wrong.code) == (5, 5), (unsigned, wrong)


def test_topics_and_options_are_read_and_changed_with_keys(guarded, tmp_path):
    rmq = operator(tmp_path, guarded, CONTROL)
    rmq.items(*CREATE)
    wait_until(lambda: "Orders" in rmq.run("topic", "list").out, seconds=20, what="the topic is listed")

    assert rmq.items("topic", "show", "Orders")[0]["readQueueNums"] == 4
    assert "Orders" in {row["topic"] for row in rmq.items("topic", "list", "--long")}
    assert rmq.items("broker", "list")[0]["brokerName"] == "guarded"
    rmq.items("config", "set", "broker", "--at", "guarded", "fileReservedTime=47", "--yes")
    assert rmq.items("config", "get", "broker", "--at", "guarded", "fileReservedTime")[0]["value"] == "47"
    rmq.items("topic", "delete", "Orders", "--cluster", CLUSTER, "--yes")
    assert rmq.run("topic", "route", "Orders").code == 4
