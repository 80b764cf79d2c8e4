"""A site of our servers with one broker that answers what a test decides."""

from types import SimpleNamespace

import pytest
from answering_peer import AnsweringPeer
from peers.controllers import OurController
from peers.servers import OurNameServer
from rmq_brokers import broker_answers, register
from rmq_runs import Rmq


@pytest.fixture(scope="package")
def servers(tmp_path_factory):
    """Two NameServers and a controller of ours, without brokers."""
    folder = tmp_path_factory.mktemp("our_site")
    started = [
        OurNameServer(folder, "ns1"),
        OurNameServer(folder, "ns2"),
        OurController(folder, configWhiteList="enableElectUncleanMaster"),
    ]
    for each in started:
        each.start()
    yield SimpleNamespace(ns1=started[0], ns2=started[1], controller=started[2])
    for each in started:
        each.process.kill()


@pytest.fixture
def site(servers, tmp_path):
    """The servers with broker-a, which has the topic Orders, at both NameServers."""
    broker = AnsweringPeer(broker_answers())
    lines = [register(each, "broker-a", broker.address, ["Orders"]) for each in (servers.ns1, servers.ns2)]
    rmq = Rmq(
        tmp_path / "operator",
        NAMESRV_ADDR=f"{servers.ns1.address};{servers.ns2.address}",
        RMQ_CONTROLLER=servers.controller.address,
        RMQ_CONTROLLER_HTTP=f"http://127.0.0.1:{servers.controller.http_port}",
    )
    yield SimpleNamespace(rmq=rmq, broker=broker, **vars(servers))
    for each in lines:
        each.close()
    broker.close()
