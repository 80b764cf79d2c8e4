"""Rules of role addresses as operators write them, and every mistake they can make."""

import pytest

from namesrv.core.role_addresses.checks import CHECKED_MAX
from namesrv.core.role_addresses.documents import NETWORKS_MAX, RULES_MAX, rules_of_toml
from serving.config.table_documents import TablesRefused


def rule(**properties):
    """Return the text of a rule; values are written as in the file."""
    return "\n".join(["[[roleAddress]]", *(f"{name} = {value}" for name, value in properties.items())]) + "\n"


A = rule(set='"broker-a"', master='"10.0.0.5:10911"')


def mistakes_of(text):
    with pytest.raises(TablesRefused) as refused:
        rules_of_toml(text)
    return [str(each) for each in refused.value.mistakes]


def test_rule_has_every_property():
    text = rule(
        set='"broker-a"',
        networks='["10.1.0.0/16", "fd00:1::/64", "::ffff:10.2.0.0/112"]',
        master='"[FD00:0::5]:10911"',
        slaves='{ 2 = "10.0.0.6:10911" }',
        controllerMode="true",
        hold='"10s"',
        verify="false",
    )
    (found,) = rules_of_toml(text).rules
    assert [str(network) for network in found.networks] == ["10.1.0.0/16", "fd00:1::/64", "10.2.0.0/16"]
    assert (found.master, found.slaves.by_id) == ("[fd00::5]:10911", {2: "10.0.0.6:10911"})
    assert (found.hold_ms, found.controller_mode, found.is_verified, found.line) == (10_000, True, False, 1)


def test_rule_of_one_set_and_one_address_holds_for_everybody_and_slaves_keep_their_own():
    (found,) = rules_of_toml(A).rules
    assert (found.networks, found.slaves.by_id, found.slaves.are_omitted, found.hold_ms) == ((), {}, False, 0)
    assert found.is_verified


def test_empty_file_has_no_rules():
    assert rules_of_toml("# none\n").rules == ()


@pytest.mark.parametrize(
    "address",
    [
        "broker-a.example.org:10911",
        "localhost:10911",
        "10.0.0.5",
        "10.0.0.5:0",
        "10.0.0.5:2",
        "10.0.0.5:65536",
        "010.0.0.5:10911",
        "10.0.0:10911",
        "fd00::5:10911",
        "[fd00::5%eth0]:10911",
        "0.0.0.0:10911",
        "224.0.0.1:10911",
        "",
    ],
)
def test_address_that_is_no_number_of_one_host_with_a_port_is_refused(address):
    (mistake,) = mistakes_of(rule(set='"broker-a"', master=f'"{address}"'))
    assert mistake.startswith(f"line 3, roleAddress 1: master: '{address}' is not allowed, but ")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("set", "3"),
        ("set", '"broker-[ab]"'),
        ("networks", "[]"),
        ("networks", '"10.0.0.0/8"'),
        ("networks", '["10.0.0.1/8"]'),
        ("networks", '["office"]'),
        ("networks", "[3]"),
        ("slaves", '"none"'),
        ("slaves", "{}"),
        ("slaves", '{ 0 = "10.0.0.6:10911" }'),
        ("slaves", '{ a = "10.0.0.6:10911" }'),
        ("slaves", '{ 1 = "host:10911" }'),
        ("slaves", '{ 1 = "10.0.0.6:10911", 2 = "10.0.0.6:10911" }'),
        ("hold", '"11s"'),
        ("hold", '"500ms"'),
        ("controllerMode", '"yes"'),
        ("verify", '"off"'),
        ("address", '"10.0.0.6:10911"'),
    ],
)
def test_mistake_is_named_with_its_line_and_property(name, value):
    others = {"set": '"broker-a"', "master": '"10.0.0.5:10911"', "controllerMode": "true"}
    text = "\n" + rule(**{each: there for each, there in others.items() if each != name}, **{name: value})
    line = text.split("\n").index(f"{name} = {value}") + 1
    assert mistakes_of(text)[0].startswith(f"line {line}, roleAddress 1: {name}: ")


def test_rule_needs_a_set():
    assert mistakes_of(rule(master='"10.0.0.5:10911"'))[0].startswith("line 1, roleAddress 1: set: is missing")


def test_pattern_may_leave_slaves_out_but_gives_no_address():
    (found,) = rules_of_toml(rule(set='"broker-*"', slaves='"omit"')).rules
    assert found.slaves.are_omitted
    assert "can match two broker sets" in mistakes_of(rule(set='"broker-?"', master='"10.0.0.5:10911"'))[0]
    assert "can match two broker sets" in mistakes_of(rule(set='"*"', slaves='{ 1 = "10.0.0.6:10911" }'))[0]


def test_hold_is_for_role_addresses_of_sets_in_controller_mode():
    for text in (A + 'hold = "5s"\n', rule(set='"a"', controllerMode="true", hold='"5s"')):
        assert "add controllerMode = true and master" in mistakes_of(text)[0]
    assert "hold" in mistakes_of(A + 'controllerMode = false\nhold = "5s"\n')[0]


def test_address_of_two_sets_is_refused():
    (mistake,) = mistakes_of(A + rule(set='"broker-b"', master='"10.0.0.5:10911"'))
    assert mistake == (
        "line 6, roleAddress 2: master: 10.0.0.5:10911 stands for broker id 0 of 'broker-a' already (roleAddress 1); "
        "one address leads to one broker only, so give each its own"
    )
    assert "already" in mistakes_of(A + rule(set='"broker-b"', slaves='{ 1 = "10.0.0.5:10911" }'))[0]
    assert "already" in mistakes_of(A + 'slaves = { 1 = "10.0.0.5:10911" }')[0]


def test_one_set_may_have_one_address_for_peers_of_two_networks():
    both = [
        rule(set='"broker-a"', networks=f'["{network}"]', master='"10.0.0.5:10911"')
        for network in ("10.1.0.0/16", "::/0")
    ]
    assert len(rules_of_toml("".join(both)).rules) == 2


@pytest.mark.parametrize("port", [10909, 10913])
def test_ports_that_collide_for_clients_with_a_vip_channel_are_refused(port):
    assert (
        "differ by 2: clients with vipChannelEnabled"
        in mistakes_of(A + rule(set='"broker-b"', master=f'"10.0.0.5:{port}"'))[0]
    )
    assert rules_of_toml(A + rule(set='"broker-b"', master=f'"10.0.0.6:{port}"'))


@pytest.mark.parametrize(
    ("first", "second"), [("", ""), ("", '["10.0.0.0/8"]'), ('["10.0.0.0/8"]', '["fd00::/8", "10.1.0.0/16"]')]
)
def test_two_rules_of_one_set_or_pattern_for_the_same_peers_are_refused(first, second):
    for name in ("broker-a", "broker-*"):
        rules = [
            rule(set=f'"{name}"', slaves='"omit"', **({"networks": networks} if networks else {}))
            for networks in (first, second)
        ]
        (mistake,) = mistakes_of("".join(rules))
        assert f"roleAddress 1 is about '{name}' too" in mistake


def test_too_many_rules_and_networks_are_refused():
    problem = f"{RULES_MAX + 1} role addresses are too many; the limit is {RULES_MAX}"
    assert mistakes_of(rule(set='"a"') * (RULES_MAX + 1)) == [problem]
    networks = [", ".join(f'"10.{n}.{m}.0/24"' for m in range(NETWORKS_MAX - 1)) for n in range(2)]
    text = "".join(rule(set=f'"broker-{n}"', networks=f"[{each}]") for n, each in enumerate(networks))
    assert f"more than {NETWORKS_MAX} different networks" in mistakes_of(text)[0]


def test_text_that_is_no_toml_is_refused():
    assert mistakes_of("[[roleAddress")[0].startswith("not TOML: ")


def test_addresses_are_verified_or_not_and_nothing_between():
    (mistake,) = mistakes_of(A + 'verify = "no"\n')
    assert mistake == "line 4, roleAddress 1: verify: 'no' is not allowed, but true or false is"
    assert rules_of_toml(A).digest != rules_of_toml(A + "verify = false\n").digest


def test_file_has_no_more_addresses_to_be_checked_than_are_checked_in_time():
    def rules(count, **properties):
        return "".join(
            rule(set=f'"broker-{first}"', slaves=slaves_of(first, min(100, count - first)), **properties)
            for first in range(0, count, 100)
        )

    def slaves_of(first, count):
        addresses = [f'{number + 1} = "10.{first // 100}.0.{number}:10911"' for number in range(count)]
        return f"{{ {', '.join(addresses)} }}"

    assert len(rules_of_toml(rules(CHECKED_MAX)).rules) == CHECKED_MAX // 100
    (mistake,) = mistakes_of(rules(CHECKED_MAX + 1))
    assert "the file has more than 2000 addresses that are checked; give rules verify = false" in mistake
    assert rules_of_toml(rules(CHECKED_MAX + 1, verify="false")).rules
