"""The file of an agent: what it may say, and how anything else is refused."""

from ipaddress import ip_address, ip_interface

import msgspec
import pytest

from role_agent.__main__ import main
from role_agent.settings import HostPort, InvalidSettings, read_settings, settings_of

VALID = {
    "set": '"broker-a"',
    "brokerId": "1",
    "addresses": '["10.9.0.5/24", "fd00::5/64"]',
    "interface": '"eth0"',
    "controllers": '["10.0.0.11:9879", "[fd00::11]:9879"]',
    "listen": '"10.0.0.1:9990"',
    "peers": '["10.0.0.2:9990"]',
}


def text(**changed):
    lines = {key: value for key, value in (VALID | changed).items() if value is not None}
    return "\n".join(f"{key} = {value}" for key, value in lines.items())


def test_file_has_a_lease_of_3_s_and_an_interval_of_200_ms_by_default():
    settings = settings_of(text())
    assert (settings.lease_ms, settings.interval_ms, settings.ha_port) == (3000, 200, None)
    assert settings.addresses == (ip_interface("10.9.0.5/24"), ip_interface("fd00::5/64"))
    assert [str(each) for each in settings.controllers] == ["10.0.0.11:9879", "[fd00::11]:9879"]
    assert settings.peers == (HostPort(ip_address("10.0.0.2"), 9990),)


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"set": '"a b"'}, "set must be the brokerName"),
        ({"set": None}, "set"),
        ({"brokerId": "0"}, "mqadmin getSyncStateSet"),
        ({"brokerId": '"1"'}, "brokerId"),
        ({"addresses": "[]"}, "addresses must have at least one entry"),
        ({"addresses": '["10.9.0.5"]'}, "such as 10.9.0.5/24"),
        ({"addresses": '["broker.example/24"]'}, "such as 10.9.0.5/24"),
        ({"addresses": '["127.0.0.1/8"]'}, "that clients reach over the network"),
        ({"addresses": '["10.9.0.5/24", "10.9.0.5/24"]'}, "addresses has an entry twice"),
        ({"addresses": '["10.0.0.2/24"]'}, "10.0.0.2 moves"),
        ({"addresses": str([f"10.9.0.{each}/24" for each in range(1, 10)])}, "9 entries; 8 are allowed"),
        ({"interface": '"a/b"'}, "interface must be the name of a network interface"),
        ({"controllers": "[]"}, "controllers must have at least one entry"),
        ({"controllers": '["controller:9879"]'}, "controllers: 'controller:9879' must be an IP address with a port"),
        ({"controllers": '["10.0.0.11"]'}, "must be an IP address with a port"),
        ({"controllers": '["10.0.0.11:0"]'}, "must be an IP address with a port"),
        ({"listen": '"0.0.0.0:9990"'}, "listen: '0.0.0.0:9990' must be the address of one host"),
        ({"peers": '["10.0.0.1:9990"]'}, "this agent's own `listen`"),
        ({"peers": '["10.0.0.2:9990", "10.0.0.2:9990"]'}, "peers has an entry twice"),
        ({"haPort": "0"}, "haPort must be the `haListenPort`"),
        ({"haPort": "65536"}, "haPort must be the `haListenPort`"),
        ({"lease": '"1s"'}, "lease must be 2s to 30s"),
        ({"lease": '"3"'}, "lease must be 2s to 30s"),
        ({"interval": '"10ms"'}, "interval must be 50ms to 1s"),
        ({"interval": '"1s"'}, "lease must be at least four times interval"),
        ({"leas": '"3s"'}, "leas"),
        ({"peers": None}, "peers"),
    ],
)
def test_invalid_value_is_refused_with_its_property_and_what_is_allowed(changed, named):
    with pytest.raises((ValueError, msgspec.ValidationError)) as refused:
        settings_of(text(**changed))
    assert named in str(refused.value)


@pytest.mark.parametrize(
    ("content", "named"),
    [(b"\xff", "no UTF-8 text"), (b"set = ", "Invalid value"), (b"#" * 70_000, "more than 65536 bytes")],
)
def test_file_that_is_no_toml_is_refused_with_its_name(tmp_path, content, named):
    file = tmp_path / "agent.toml"
    file.write_bytes(content)
    with pytest.raises(InvalidSettings) as refused:
        read_settings(file)
    assert str(file) in str(refused.value)
    assert named in str(refused.value)


def test_missing_file_ends_the_start_with_a_sentence(tmp_path, capsys):
    with pytest.raises(SystemExit) as ended:
        main(["run", str(tmp_path / "nothing.toml")])
    assert ended.value.code == 2
    assert "nothing.toml cannot be read: No such file or directory" in capsys.readouterr().err


def test_unknown_interface_ends_the_start_with_a_sentence(tmp_path, capsys):
    file = tmp_path / "agent.toml"
    file.write_text(text(interface='"nosuch0"'))
    with pytest.raises(SystemExit) as ended:
        main(["run", str(file)])
    assert ended.value.code == 2
    assert "interface nosuch0: no interface with this name; `ip link` lists the interfaces" in capsys.readouterr().err


def test_check_accepts_a_valid_file(tmp_path, capsys):
    file = tmp_path / "agent.toml"
    file.write_text(text())
    main(["check", str(file)])
    assert capsys.readouterr().out == ""
