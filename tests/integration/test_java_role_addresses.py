"""Role addresses with real brokers: a NameServer gives the address of a proxy once it leads to the master."""

import json
import urllib.request

import pytest
from peers.acl import CONTROL, LEAST, STRANGER, acl_1, acl_2, admit_least, servers_keys
from peers.controllers import OurController
from peers.jars import V4_9, V5_1, V5_5
from peers.processes import free_port
from peers.programs import require
from peers.servers import HAProxy, registered
from peers.waiting import wait_until
from peers.wire import addresses_in

pytestmark = pytest.mark.java

START_S = 120
#: A change of the rules, a check with its growing waits, an alarm after 15 s: on a machine that others use as well.
SOON_S = 90


class Site:
    """A NameServer with a rule for the set `ruled`, whose brokers register over the member port."""

    def __init__(self, lab, proxy, **properties):
        self.proxy = proxy
        self.rules = lab.folder / "role-addresses.toml"
        self.write_rule()
        self.member_port = free_port()
        self.members = f"127.0.0.1:{self.member_port}"
        own = {"roleAddressFile": self.rules, "memberPort": self.member_port}
        self.namesrv = lab.name_server(http=True, **own, **properties)

    def write_rule(self, *lines):
        rule = ["[[roleAddress]]", 'set = "ruled"', f'master = "{self.proxy.address}"', 'slaves = "omit"', *lines]
        self.rules.write_text("\n".join(rule) + "\n")

    def routed(self):
        """Return broker id -> address as a client gets it; the set has a topic of its name."""
        return addresses_in(self.namesrv.caller.route("ruled"), "ruled")

    def check(self):
        """Return what the NameServer shows of the address of the master."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.namesrv.http_port}/v1/role-addresses") as answer:
            (check,) = json.load(answer)["rules"][0]["checks"]
        return check

    def wait_for(self, state):
        check = wait_until(lambda: (found := self.check())["state"] == state and found, seconds=SOON_S, what=self.check)
        return check["problem"] or ""

    def logged(self, event):
        lines = [line for line in self.namesrv.process.text().splitlines() if line.startswith("{")]
        return [line for line in map(json.loads, lines) if line["event"] == event]


@pytest.fixture
def proxy(lab):
    """A proxy that leads to nobody yet."""
    require("haproxy")
    proxy = lab.kept(HAProxy(lab.folder, "role-proxy", target=f"127.0.0.1:{free_port()}"))
    proxy.launch()
    return proxy


def test_clients_get_the_address_of_a_proxy_once_it_leads_to_the_master_and_keep_it_over_a_failover(lab, proxy):
    controller = lab.kept(OurController(lab.folder)).start()
    site = Site(lab, proxy)
    settings = controller.broker_settings()
    brokers = [lab.broker("ruled", label=label, namesrv=[site.members], **settings) for label in ("one", "two")]
    for broker in brokers:
        broker.start()
    for broker in brokers:
        broker.ready()
    state = wait_until(
        lambda: (now := controller.set_state("ruled")) and len(now.in_sync) == 2 and now,
        seconds=START_S,
        what="both in sync",
    )
    wait_until(lambda: registered(site.namesrv, *brokers), seconds=START_S, what="both registered")
    master = next(each for each in brokers if each.address == state.addresses[state.master])
    slave = next(each for each in brokers if each is not master)
    wait_until(lambda: site.routed().get("0") == master.address, seconds=START_S, what="the real master")
    assert site.wait_for("refused")

    proxy.move_to(slave.address)
    wait_until(lambda: slave.address in site.check()["problem"], seconds=SOON_S, what=site.check)
    assert site.routed()["0"] == master.address

    proxy.move_to(master.address)
    site.wait_for("in_force")
    assert site.routed() == {"0": proxy.address}
    producer = lab.producer("through", namesrv=[site.namesrv.address], topic="through_proxy", count=20).finish()
    assert producer.failures() == []
    # Whoever looks at the member port still gets the brokers' own addresses.
    assert site.namesrv.caller.addresses("ruled")["0"] == master.address

    master.process.kill()
    wait_until(
        lambda: site.namesrv.caller.addresses("ruled").get("0") == slave.address,
        seconds=START_S,
        what="an election",
    )
    assert site.routed() == {"0": proxy.address}
    assert "connection" in site.wait_for("failing") or "no answer" in site.check()["problem"]
    assert site.routed() == {"0": proxy.address}
    proxy.move_to(slave.address)
    site.wait_for("in_force")
    assert [line["broker"] for line in site.logged("role_address_recovered")] == ["ruled"]
    moved = site.logged("role_address_moved")[-1]
    assert (moved["leads_to"], moved["former_addr"]) == (slave.address, master.address)


@pytest.mark.broad
@pytest.mark.parametrize("version", [V4_9, V5_1, V5_5])
def test_master_and_slave_of_each_release_differ_in_their_options(lab, proxy, version):
    site = Site(lab, proxy)
    pair = [lab.broker("ruled", broker_id=number, namesrv=[site.members], version=version) for number in (0, 1)]
    for broker in pair:
        broker.start()
    for broker in pair:
        broker.ready()
    wait_until(lambda: registered(site.namesrv, *pair), seconds=START_S, what="both registered")
    proxy.move_to(pair[1].address)
    wait_until(lambda: "broker id 1 of ruled" in (site.check()["problem"] or ""), seconds=SOON_S, what="the slave")
    proxy.move_to(pair[0].address)
    site.wait_for("in_force")
    assert site.routed() == {"0": proxy.address}


@pytest.mark.broad
@pytest.mark.parametrize("version", [V4_9, V5_1, V5_5])
@pytest.mark.parametrize(("keys", "state"), [(LEAST, "in_force"), (STRANGER, "refused"), (None, "refused")])
def test_broker_with_acl_answers_only_a_check_that_is_signed(lab, proxy, version, keys, state):
    site = Site(lab, proxy, **servers_keys(keys))
    own = acl_2() if version == V5_5 else acl_1(lab.folder, "ruled-0")
    broker = lab.broker("ruled", namesrv=[site.members], version=version, **own).start().ready()
    if version == V5_5:
        admit_least(broker)
    wait_until(lambda: registered(site.namesrv, broker), seconds=START_S, what="the broker")
    proxy.move_to(broker.address)
    if state == "in_force":
        site.wait_for(state)
        assert site.routed() == {"0": proxy.address}
    else:
        wait_until(lambda: site.logged("broker_request_denied"), seconds=SOON_S, what="a denial")
        assert site.wait_for(state).startswith("code ")
        assert site.routed()["0"] == broker.address
        assert CONTROL.secret not in site.namesrv.process.text()
