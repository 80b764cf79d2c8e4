"""Brokers that enforce ACL take what our servers send, because it is signed as their clients sign."""

import itertools
import json
import os
import re
import sys
import urllib.request

import pytest
from peers.acl import CONTROL, LEAST, STRANGER, acl_1, acl_2, admit_least, request_as, servers_keys
from peers.controllers import OurController
from peers.jars import REPOSITORY, V4_9, V5_1, V5_5
from peers.processes import Process
from peers.servers import registered
from peers.waiting import wait_until
from peers.wire import SUCCESS, addresses_in

pytestmark = [pytest.mark.broad, pytest.mark.java]

_numbers = itertools.count()

#: The brokers' own look at the controller: longer than any test, so that only the controller's word moves a role.
NO_POLL_MS = 600_000

START_S = 60
#: What a broker logs when it takes a 905.
MIN_ID_NOTIFIED = r"min broker id changed, prev \d+, new 1\b"
DENIED = "broker_request_denied"
NOT_SIGNED = "broker_request_not_signed"
DELETE_TOPIC = 215


def events(process, name):
    """Return the lines of one event that a process of ours has logged."""
    lines = [line for line in process.text().splitlines() if line.startswith("{")]
    return [line for line in map(json.loads, lines) if line["event"] == name]


def no_key_is_shown(process):
    return CONTROL.secret not in process.text() and STRANGER.secret not in process.text()


class Sets:
    """A NameServer and a controller with these keys, and a set of two brokers in controller mode."""

    def __init__(self, lab, version, keys):
        self.lab = lab
        self.version = version
        self.namesrv = lab.name_server()
        self.controller = lab.kept(OurController(lab.folder, **servers_keys(keys))).start()
        self.brokers = [self._broker(version, label) for label in ("first", "second")]

    def _broker(self, version, label):
        own = acl_2() if version == V5_5 else acl_1(self.lab.folder, label)
        own |= self.controller.broker_settings() | {"syncBrokerMetadataPeriod": NO_POLL_MS}
        return self.lab.broker("guarded", label=label, version=version, namesrv=[self.namesrv.address], **own)

    def start(self):
        for broker in self.brokers:
            broker.start().ready()
        wait_until(self.in_sync, seconds=START_S, what=lambda: f"both in sync: {self.controller.set_state('guarded')}")
        if self.version == V5_5:
            for broker in self.brokers:
                admit_least(broker)
        return self

    def in_sync(self):
        state = self.controller.set_state("guarded")
        return state is not None and len(state.in_sync) == 2

    def lose_the_master(self):
        """Kill the master; return the other one's id once the controller has made it master."""
        state = self.controller.set_state("guarded")
        master = next(each for each in self.brokers if each.address == state.addresses[state.master])
        heir = next(each for each in self.brokers if each is not master)
        master.process.kill()
        heirs_id = state.id_of(heir.address)
        wait_until(
            lambda: (now := self.controller.set_state("guarded")) and now.master == heirs_id,
            seconds=START_S,
            what="another master",
        )
        return heir, heirs_id

    def notified(self, broker_id):
        """Return how telling a broker of the last election ended, None while it goes on."""
        url = f"http://127.0.0.1:{self.controller.http_port}/v1/elections?limit=1"
        with urllib.request.urlopen(url) as answer:
            (election,) = json.load(answer)["elections"]
        results = {each["brokerId"]: each["result"] for each in election["notified"]}
        return results.get(broker_id)


@pytest.mark.parametrize(
    "keys", [pytest.param(CONTROL, marks=pytest.mark.soak), LEAST], ids=["super user", "least rights"]
)
@pytest.mark.parametrize("version", [V5_5, V5_1])
def test_a_broker_that_checks_signatures_is_notified_that_it_is_master(lab, version, keys):
    sets = Sets(lab, version, keys).start()
    begun = sets.controller.process.position()
    heir, heirs_id = sets.lose_the_master()
    wait_until(lambda: sets.notified(heirs_id) is not None, seconds=30, what="the broker to be told")
    assert sets.notified(heirs_id) == "ok"
    master = {"0": heir.address}
    wait_until(
        lambda: addresses_in(sets.namesrv.caller.route("guarded"), "guarded") == master, seconds=30, what="its route"
    )
    log = sets.controller.process
    # Before, the user with the least rights was not made yet.
    assert [name for name in ("role_notification_failed", DENIED) if name in log.text(begun)] == []
    assert no_key_is_shown(log)


@pytest.mark.parametrize(
    ("keys", "version"), [(None, V5_5), (STRANGER, V5_1)], ids=["without keys, 5.5.0", "with wrong keys, 5.1.4"]
)
def test_a_controller_whose_signature_a_broker_refuses_logs_what_to_set(lab, version, keys):
    sets = Sets(lab, version, keys).start()
    _, heirs_id = sets.lose_the_master()
    wait_until(lambda: sets.notified(heirs_id) is not None, seconds=30, what="the controller to give up")
    assert sets.notified(heirs_id) == "refused"
    log = sets.controller.process
    denied = events(log, DENIED)
    assert {line["signed"] for line in denied} == {keys is not None}
    assert "brokerAccessKey" in denied[0]["advice"]
    assert no_key_is_shown(log)


@pytest.mark.parametrize(
    "keys",
    [pytest.param(CONTROL, marks=pytest.mark.soak), LEAST, STRANGER, pytest.param(None, marks=pytest.mark.soak)],
    ids=["super user", "least rights", "with wrong keys", "without keys"],
)
def test_a_slave_that_checks_signatures_learns_of_its_lost_master_from_the_name_server(lab, keys):
    namesrv = lab.name_server(supportActingMaster=True, notifyMinBrokerIdChanged=True, **servers_keys(keys))
    settings = acl_2(enableSlaveActingMaster=True, slaveReadEnable=True)
    master, slave = (lab.broker("paired", broker_id=number, namesrv=[namesrv.address], **settings) for number in (0, 1))
    for each in (master, slave):
        each.start()
    for each in (master, slave):
        each.ready()
    wait_until(lambda: registered(namesrv, master, slave), seconds=START_S, what="both registered")
    admit_least(slave)
    position, begun = slave.process.position(), namesrv.process.position()
    master.process.kill()
    if keys in (CONTROL, LEAST):
        slave.process.wait_for(MIN_ID_NOTIFIED, seconds=20, position=position)
        assert DENIED not in namesrv.process.text(begun)
    else:
        wait_until(lambda: events(namesrv.process, DENIED), seconds=20, what="the NameServer to tell of the refusal")
        (denied, *_) = events(namesrv.process, DENIED)
        assert (denied["addr"], denied["request_code"]) == (slave.address, 905)
        assert re.search(MIN_ID_NOTIFIED, slave.process.text()) is None
    assert no_key_is_shown(namesrv.process)


class Sampling:
    """A sampler of one topic, with these keys."""

    def __init__(self, lab, namesrv, topic, keys):
        name = f"sampler-{next(_numbers)}"
        self.history = lab.folder / f"{name}-history"
        env = os.environ | {"PYTHONPATH": str(REPOSITORY), "HOME": str(lab.folder)}
        if keys:
            env |= {"RMQ_SAMPLER_BROKER_ACCESS_KEY": keys.access, "RMQ_SAMPLER_BROKER_SECRET_KEY": keys.secret}
            env |= {"RMQ_SAMPLER_BROKER_ACCESS_ADDRESSES": "127.0.0.0/8"}
        command = [sys.executable, "-m", "rmq", "sample", "--namesrv", namesrv.address, "--topics", topic]
        command += ["--history", self.history, "--interval", "1"]
        self.process = Process(name, command, folder=lab.folder, env=env)
        lab.kept(self)

    def rows(self):
        files = self.history.glob("landing/v1/family=offset_sample/**/*.jsonl*")
        return [line for file in files for line in file.read_text().splitlines() if '"max_offset":0' in line]


@pytest.mark.parametrize("version", [V5_5, V5_1, V4_9])
def test_samples_are_taken_of_brokers_that_check_signatures(lab, version):
    namesrv = lab.name_server()
    own = acl_2() if version == V5_5 else acl_1(lab.folder, "sampled-0")
    broker = lab.broker("sampled", version=version, namesrv=[namesrv.address], **own).start().ready()
    wait_until(lambda: registered(namesrv, broker), seconds=START_S, what="it registered")
    if version == V5_5:
        admit_least(broker)
    for keys in (CONTROL, LEAST):
        trusted = Sampling(lab, namesrv, broker.name, keys)
        wait_until(trusted.rows, seconds=30, what=lambda who=trusted: f"a sample: {who.process.text()}")
        assert [events(trusted.process, name) for name in ("samples_missing", DENIED, NOT_SIGNED)] == [[], [], []]
    # What a signature of theirs would be good for, were it replayed.
    assert request_as(broker, LEAST, DELETE_TOPIC, {"topic": broker.name}).code != SUCCESS
    for keys in (STRANGER, None):
        stranger = Sampling(lab, namesrv, broker.name, keys)
        wait_until(lambda who=stranger: events(who.process, DENIED), seconds=30, what="the refusal to be told")
        (denied, *_) = events(stranger.process, DENIED)
        assert (denied["addr"], denied["signed"]) == (broker.address, keys is not None)
        assert "RMQ_SAMPLER_BROKER_ACCESS_KEY" in denied["advice"]
        assert no_key_is_shown(stranger.process)
