"""Which role addresses clients get, and when each leads to another master, in the history of a NameServer."""

import json
from contextlib import asynccontextmanager

import pytest
from broker_messages import MASTER
from builders import BROKER, CLUSTER, a_registration, an_address
from fakes.answering_peer import peers, success
from fakes.leadership_listener import eventually
from fakes.role_address_site import CHECKED_RULE, OWN, ROLE, SOON_S, THERE, Site
from route_states import register_broker

from history.rows import BrokerRef
from namesrv.core.role_addresses.checks import AddressMove, RoleAddressUse
from namesrv.core.role_addresses.documents import rules_of_toml
from namesrv.core.route_state import RouteState
from namesrv.recording.route_recorder import GivenRoleAddresses, role_address_event
from namesrv.settings.config import NameServerConfig

RULE = f'[[roleAddress]]\nset = "{BROKER}"\nmaster = "{ROLE}"\nverify = false\n'
GIVEN = role_address_event("given", BrokerRef(CLUSTER, BROKER, 0), ROLE, is_checked=False)
NEXT = {"brokerIP1": "10.0.0.9", "listenPort": "10911"}
NEXT_ADDRESS = "10.0.0.9:10911"


class Recorded:
    """A state with rules, and what is recorded of it."""

    def __init__(self):
        self.state = RouteState(NameServerConfig())
        self.given = GivenRoleAddresses(self.state)

    def replace(self, rules):
        self.state.role_addresses.replace(rules_of_toml(rules), 0)

    def register(self):
        register_broker(self.state, a_registration(), 0)


def test_address_is_recorded_once_its_set_is_registered_and_again_when_its_rule_is_gone():
    recorded = Recorded()
    recorded.replace(RULE)
    assert recorded.given.changes() == []
    recorded.register()
    assert (recorded.given.changes(), recorded.given.changes(), recorded.given.all()) == ([GIVEN], [], [GIVEN])
    recorded.replace("")
    assert recorded.given.changes() == [GIVEN._replace(event_type="withdrawn")]
    assert recorded.given.all() == []


def test_move_of_a_masters_address_alone_is_recorded():
    recorded = Recorded()
    move = AddressMove(RoleAddressUse(BROKER, 0, ROLE), NEXT_ADDRESS, an_address(broker_id=0))
    assert recorded.given.moved(move) is None
    recorded.register()
    assert recorded.given.moved(move._replace(use=RoleAddressUse(BROKER, 1, ROLE))) is None
    broker = BrokerRef(CLUSTER, BROKER, 0, NEXT_ADDRESS)
    expected = role_address_event("leads", broker, ROLE, an_address(broker_id=0), is_checked=True)
    assert recorded.given.moved(move) == expected


class Proxy:
    """Stands for a proxy: answers as the broker to which it leads."""

    def __init__(self):
        self.options = {"brokerName": "broker-a", "brokerId": "0", "brokerIP1": "10.0.0.1", "listenPort": "10911"}

    def answer(self, _code, _fields):
        return success("".join(f"{key}={value}\n" for key, value in self.options.items()).encode())


@asynccontextmanager
async def failed_over(site, folder):
    """Yield the role address of a set once it has led to its first master, and then to the next one."""
    proxy = Proxy()
    async with peers(proxy.answer) as (peer,):
        site.file.write_text(CHECKED_RULE.format(THERE).replace(ROLE, peer.address))
        async with site.running(role_address_file=str(site.file), history_dir=str(folder)):
            await eventually(lambda: site.events("role_address_applied"), seconds=SOON_S, what="the first master")
            await site.register(MASTER | {"brokerAddr": NEXT_ADDRESS})
            proxy.options |= NEXT
            await eventually(lambda: site.events("role_address_moved"), seconds=SOON_S, what="the next master")
            yield peer.address


def rows_of(folder):
    files = sorted((folder / "landing/v1/family=role_address").rglob("*.jsonl"))
    return [json.loads(line) for path in files for line in path.read_text().splitlines()]


@pytest.fixture
def site(tmp_path):
    return Site(tmp_path)


async def test_each_master_to_which_an_address_led_is_in_the_history_and_the_log(site, tmp_path):
    async with failed_over(site, tmp_path / "history") as address:
        (logged,) = site.events("role_address_moved")
    assert (logged["broker"], logged["addr"]) == ("broker-a", address)
    assert (logged["leads_to"], logged["former_addr"]) == (NEXT_ADDRESS, OWN)
    rows = rows_of(tmp_path / "history")
    assert [(row["broker_addr"], row.get("former_addr")) for row in rows if row["event_type"] == "leads"] == [
        (OWN, None),
        (NEXT_ADDRESS, OWN),
    ]
    assert {(row["cluster"], row["broker_name"], row["broker_id"], row["role_address"]) for row in rows} == {
        (MASTER["clusterName"], "broker-a", 0, address)
    }
