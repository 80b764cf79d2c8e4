"""A site of our servers with one broker that answers what a test decides."""

from types import SimpleNamespace

import pytest
from answering_peer import AnsweringPeer
from peers.controllers import OurController
from peers.lab import Lab
from peers.servers import OurNameServer
from rmq_brokers import admin_token, broker_answers, forget_away, register
from rmq_runs import Ran, Rmq

from rmq.cli import command_line
from rmq.commands.table import COMMANDS


@pytest.fixture
def run_here(capsys, monkeypatch, tmp_path):
    """Runs a command in this process: to start one takes most of the time of a test otherwise."""
    monkeypatch.setenv("HOME", str(tmp_path))

    def run(*words):
        code = command_line.run(COMMANDS, words)
        return Ran(int(code), *capsys.readouterr())

    return run


@pytest.fixture(scope="session")
def servers(tmp_path_factory):
    """Two NameServers and a controller of ours, without brokers."""
    lab = Lab(tmp_path_factory.mktemp("our_site"))
    settings = {"http": True, "httpAdminTokenFile": admin_token(lab.folder)}
    try:
        yield SimpleNamespace(
            ns1=lab.kept(OurNameServer(lab.folder, "ns1", **settings)).start(),
            ns2=lab.kept(OurNameServer(lab.folder, "ns2", **settings)).start(),
            controller=lab.kept(OurController(lab.folder, configWhiteList="enableElectUncleanMaster")).start(),
        )
    finally:
        lab.close()


@pytest.fixture
def site(servers, tmp_path):
    """The servers with broker-a, which has the topic Orders, at both NameServers."""
    broker = AnsweringPeer(broker_answers())
    for each in (servers.ns1, servers.ns2):
        forget_away(each)
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
