"""Values that do not go together, and how they are told."""

import pytest

from namesrv.settings.config import NAMESRV, NameServerConfig
from serving.config.checks import BadOption, ConfigError, bad_option, conflicts

KEYS = {"broker_access_key": "u", "broker_secret_key": "p"}
NAMED = {"broker_access_addresses": "10.0.0.0/8"}
FOR_WHOM = (
    "set as well, because keys are set: addresses or networks of the brokers whose requests are signed, such as "
    "10.0.0.0/16;broker-a.example.org:10911 (or verify brokers: tls.enable=true, tls.client.authServer=true, "
    "tls.client.trustCertPath and tls.test.mode.enable=false)"
)
TO_BE_NAMED = ("broker_access_addresses", FOR_WHOM)


@pytest.mark.parametrize(
    ("config", "found"),
    [
        ({}, []),
        (
            {"write_buffer_low_water_mark_bytes": 3, "write_buffer_high_water_mark_bytes": 2},
            [("write_buffer_low_water_mark_bytes", "at most writeBufferHighWaterMark, which is 2")],
        ),
        ({"write_buffer_low_water_mark_bytes": 2, "write_buffer_high_water_mark_bytes": 2}, []),
        ({"write_buffer_low_water_mark_bytes": 3, "write_buffer_high_water_mark_bytes": 0}, []),
        ({"tls_server_cert_path": "/c"}, [("tls_server_key_path", "set as well, because tls.server.certPath is")]),
        ({"tls_server_key_path": "/k"}, [("tls_server_cert_path", "set as well, because tls.server.keyPath is")]),
        ({"tls_server_key_path": "/k", "tls_server_cert_path": "/c"}, []),
        ({"tls_client_cert_path": "/c"}, [("tls_client_key_path", "set as well, because tls.client.certPath is")]),
        ({"broker_access_key": "u", "broker_secret_key_path": "/p", **NAMED}, []),
        (NAMED, []),
        (KEYS, [TO_BE_NAMED]),
        (
            KEYS | {"tls_enable": True, "tls_client_auth_server": True, "tls_client_trust_cert_path": "/c"},
            [TO_BE_NAMED],
        ),
        (
            KEYS
            | {"tls_enable": True, "tls_client_auth_server": True, "tls_client_trust_cert_path": "/c"}
            | {"tls_test_mode_enable": False},
            [],
        ),
        (
            {"broker_access_key_path": "/u"},
            [("broker_secret_key", "set as well, or brokerSecretKeyPath, because there is an access key")],
        ),
        (
            {"broker_secret_key": "p"},
            [("broker_access_key", "set as well, or brokerAccessKeyPath, because there is a secret key")],
        ),
        (
            {"broker_access_key": "u", "broker_access_key_path": "/u", "broker_secret_key": "p", **NAMED},
            [("broker_access_key_path", "blank, because brokerAccessKey is set")],
        ),
        (
            {"broker_access_key": "u", "broker_secret_key_path": "/p", "broker_secret_key": "p", **NAMED},
            [("broker_secret_key_path", "blank, because brokerSecretKey is set")],
        ),
        ({"http_port": 9876}, [("http_port", "another port than listenPort")]),
        ({"http_port": 9876, "bind_address": "127.0.0.1"}, [("http_port", "another port than listenPort")]),
        ({"http_port": 9876, "bind_address": "10.0.0.1"}, []),
        ({"http_port": 0, "listen_port": 0}, []),
    ],
)
def test_values_that_do_not_go_together_are_found(config, found):
    assert list(conflicts(NAMESRV, NameServerConfig(**config))) == found


def test_a_bad_value_is_reported_with_its_source_and_what_is_allowed():
    assert str(bad_option(NAMESRV.options["listen_port"], "98760", "line 7 of ns.conf")) == (
        "line 7 of ns.conf: listenPort must be a whole number from 0 to 65535, not '98760'"
    )
    assert str(bad_option(NAMESRV.options["tls_server_key_path"], "", "default", "set as well")) == (
        "default: tls.server.keyPath must be set as well, and is blank"
    )


def test_a_bad_value_is_shown_in_part_if_it_is_long_and_not_at_all_if_it_is_secret():
    assert str(bad_option(NAMESRV.options["log_level"], "x" * 5000, "option --log-level")).endswith(
        f"not '{'x' * 80}...'"
    )
    assert "hunter" not in str(bad_option(NAMESRV.options["tls_server_key_password"], "hunter" * 1000, "option"))


def test_an_error_has_one_line_for_each_bad_value():
    bad = (BadOption("a", "1", "here", "2"), BadOption("b", "", "there", "3"))
    assert str(ConfigError(bad)) == "here: a must be 2, not '1'\nthere: b must be 3, and is blank"
    assert ConfigError(bad).bad == bad
