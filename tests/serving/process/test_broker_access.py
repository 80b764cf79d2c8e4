"""Keys for brokers with ACL, and what is logged of requests that such brokers do not take."""

import pytest
from fakes.clock import FakeClock
from fakes.lines import Lines

from namesrv.settings.config import NAMESRV, NameServerConfig
from remoting.protocol.addresses import named_addresses
from remoting.protocol.properties import Property
from remoting.protocol.signing import Credentials, Denial, Signer
from serving.config.options import Fixed
from serving.config.server_kind import listed_properties, shown_unknown
from serving.logging.logs import Logs, json_line
from serving.metrics.counters import CounterTable
from serving.process.broker_access import (
    ADDRESSES_MAX,
    KEY_BYTES_MAX,
    SigningLog,
    credentials_of,
    signer_of,
)
from serving.process.start import StartFailed


def config(**values):
    return NameServerConfig(**values)


#: Brokers show certificates of an authority that the operator names.
VERIFYING = {
    "tls_enable": True,
    "tls_test_mode_enable": False,
    "tls_client_auth_server": True,
    "tls_client_trust_cert_path": "/etc/ca.pem",
}


def test_without_keys_there_are_no_credentials():
    assert credentials_of(config()) is None
    assert signer_of(config(broker_access_addresses="10.0.0.0/8")) is None


def test_requests_are_signed_for_the_addresses_beside_the_keys():
    keys = {"broker_access_key": "somebody", "broker_secret_key": "a secret"}
    named = "10.0.0.0/8;broker-a:10911"
    expected = Signer(credentials=Credentials("somebody", "a secret"), named=named_addresses(named))
    assert signer_of(config(broker_access_addresses=named, **keys)) == expected


@pytest.mark.parametrize(
    "less", [{}, *({name: type(value)()} for name, value in VERIFYING.items() if name != "tls_test_mode_enable")]
)
def test_requests_are_signed_for_all_brokers_only_if_an_authority_of_the_operator_verifies_them(less):
    keys = {"broker_access_key": "somebody", "broker_secret_key": "a secret"}
    assert signer_of(config(**keys, **VERIFYING | less)).verifies_all is (not less)
    assert not signer_of(config(**keys, **VERIFYING | {"tls_test_mode_enable": True})).verifies_all


def test_keys_may_be_properties():
    found = credentials_of(config(broker_access_key="somebody", broker_secret_key=" a secret "))
    assert found == Credentials("somebody", " a secret ")


def test_keys_may_be_files_as_mounted_secrets_are(tmp_path):
    (tmp_path / "user").write_text("somebody")
    (tmp_path / "password").write_text("a secret\n")
    paths = {"broker_access_key_path": f"{tmp_path}/user", "broker_secret_key_path": f"{tmp_path}/password"}
    assert credentials_of(config(**paths)) == Credentials("somebody", "a secret")


@pytest.mark.parametrize("content", [b"", b" \n", b"hunter\xff2", b"hunter2" * KEY_BYTES_MAX])
def test_a_file_without_a_key_ends_the_start_and_is_not_shown(tmp_path, content):
    (tmp_path / "password").write_bytes(content)
    with pytest.raises(StartFailed, match=r"brokerSecretKeyPath: .*password must hold a key") as refused:
        credentials_of(config(broker_access_key="u", broker_secret_key_path=f"{tmp_path}/password"))
    assert "hunter" not in str(refused.value)


def test_a_file_that_is_not_there_ends_the_start_with_its_name():
    with pytest.raises(StartFailed, match="brokerAccessKeyPath: /nowhere cannot be read: No such file"):
        credentials_of(config(broker_access_key_path="/nowhere", broker_secret_key="p"))


def test_no_request_may_change_them():
    keys = [option for option in NAMESRV.options.values() if option.key.startswith(("brokerAccess", "brokerSecret"))]
    assert len(keys) == 5
    assert all(isinstance(option.by_request, Fixed) for option in keys)


def test_neither_key_is_shown_in_a_listing_or_a_representation():
    shown = config(broker_access_key="hunter1", broker_secret_key="hunter2")
    listed = listed_properties(NAMESRV, shown)
    assert (listed["brokerAccessKey"], listed["brokerSecretKey"]) == ("******", "******")
    assert "hunter" not in f"{shown} {credentials_of(shown)}"


def test_a_misspelled_key_is_not_shown_either():
    misspelled = Property("brokersAccessKey", "hunter1", 1)
    assert shown_unknown(misspelled.key, misspelled.value) == "******"


def signing_log(logs, counters=None, *, has_keys=True, **options):
    counters = counters or CounterTable(known=[()])
    return SigningLog(logs, "the keys", "the list", counters, has_keys=has_keys, **options)


@pytest.fixture
def lines():
    return Lines()


@pytest.fixture
def clock():
    return FakeClock()


@pytest.fixture
def logs(lines, clock):
    own = Logs(lines, json_line(), clock, {})
    yield own
    own.close(1)


@pytest.mark.parametrize(
    ("has_keys", "is_signed", "advice"),
    [
        (
            True,
            True,
            (
                "the keys must be a user that this broker knows, with its password and its rights: "
                "with ACL 2.0 Update of the cluster"
            ),
        ),
        (True, False, "name this address or its network in the list, if it is a broker of yours"),
        (False, False, "set the keys to a user of the brokers with its password, and the list to their networks"),
    ],
)
def test_a_denial_is_logged_with_what_to_do(lines, logs, has_keys, is_signed, advice):
    denial = Denial(address="a:1", request_code=1008, remark=" no ", is_signed=is_signed)
    signing_log(logs, has_keys=has_keys).denied(denial)
    (line,) = lines.decoded()
    assert (line["event"], line["addr"], line["request_code"]) == ("broker_request_denied", "a:1", 1008)
    assert (line["signed"], line["error"]) == (is_signed, "no")
    assert line["advice"].startswith(advice)


def test_each_unsigned_request_counts_and_each_address_is_logged_once(lines, logs):
    counters = CounterTable(known=[()])
    signing = signing_log(logs, counters, no_brokers=frozenset({"ns:9876"}))
    for address in ("a:1", "b:1", "a:1", "ns:9876"):
        signing.unsigned(address)
    assert [(line["event"], line["addr"]) for line in lines.decoded()] == [
        ("broker_request_not_signed", "a:1"),
        ("broker_request_not_signed", "b:1"),
    ]
    assert all("the list" in line["advice"] for line in lines.decoded())
    assert counters.counts() == {(): 3}


def test_so_many_addresses_are_remembered_and_then_the_oldest_is_logged_again(lines, logs, clock):
    signing = signing_log(logs)
    others = [f"b{number}:1" for number in range(ADDRESSES_MAX - 1)]
    for address in ("a:1", *others, "a:1", "c:1", "a:1"):
        # The limit of all lines together is another one's.
        clock.pass_ms(10)
        signing.unsigned(address)
    logged = [line["addr"] for line in lines.decoded()]
    assert logged == ["a:1", *others, "c:1", "a:1"]
