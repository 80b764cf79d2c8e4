"""Which addresses an HAProxy serves, from the rules of the NameServers and the sets of the controllers."""

import pytest

from namesrv.core.role_addresses.rules import RoleAddressRule, SlaveAddresses
from rmq.haproxy_config.frontends import (
    MasterFrontend,
    NotConfigurable,
    SlaveFrontend,
    frontends_of,
)


def known(*names):
    return dict.fromkeys(names, BROKERS)


BROKERS = {1: "10.0.0.1:10911", 2: "10.0.0.2:10911"}


def test_addresses_of_all_rules_of_a_set_lead_to_its_brokers():
    rules = [
        RoleAddressRule(set_name="b", master="10.9.0.6:10911"),
        RoleAddressRule(set_name="a", master="10.9.0.5:10911"),
        RoleAddressRule(set_name="a", master="[fd00::5]:10911"),
        RoleAddressRule(set_name="*", slaves=SlaveAddresses(are_omitted=True)),
    ]
    assert frontends_of(rules, known("a", "b", "c")) == (
        (
            MasterFrontend("a", ("10.9.0.5:10911", "[fd00::5]:10911"), BROKERS),
            MasterFrontend("b", ("10.9.0.6:10911",), BROKERS),
        ),
        (),
    )


def test_address_of_a_slave_leads_to_that_broker():
    rules = [RoleAddressRule(set_name="a", slaves=SlaveAddresses(by_id={2: "10.9.0.5:10921"}))]
    assert frontends_of(rules, known("a")) == ((), (SlaveFrontend("a", 2, ("10.9.0.5:10921",), BROKERS[2]),))


def test_only_addresses_of_chosen_hosts_are_served():
    rules = [
        RoleAddressRule(set_name="a", master="10.9.0.5:10911"),
        RoleAddressRule(set_name="b", master="[fd00::5]:10911"),
        RoleAddressRule(set_name="c", master="10.9.0.7:10911"),
    ]
    found = frontends_of(rules, known("a", "b"), ["10.9.0.5", "fd00::5"])
    assert [each.broker_name for each in found.masters] == ["a", "b"]


@pytest.mark.parametrize(
    ("rules", "hosts", "sentence"),
    [
        ([RoleAddressRule(set_name="x", master="10.9.0.5:10911")], (), r"the controllers know no broker of x: start"),
        ([RoleAddressRule(set_name="empty", master="10.9.0.5:10911")], (), "the controllers know no broker of empty"),
        (
            [RoleAddressRule(set_name="a", slaves=SlaveAddresses(by_id={7: "10.9.0.5:10921"}))],
            (),
            "a has no broker 7, but a rule gives it an address; its ids are 1, 2",
        ),
        ([], (), "no rule gives an address: nothing to serve"),
        (
            [RoleAddressRule(set_name="a", master="10.9.0.5:10911")],
            ("10.9.0.6",),
            "no rule gives an address at 10.9.0.6",
        ),
    ],
)
def test_what_does_not_fit_is_refused(rules, hosts, sentence):
    sets = known("a") | {"empty": {}}
    with pytest.raises(NotConfigurable, match=sentence):
        frontends_of(rules, sets, hosts)
