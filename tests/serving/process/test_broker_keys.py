"""Keys for brokers with ACL: where they come from, and that they are shown nowhere."""

import pytest

from namesrv.settings.config import NAMESRV, NameServerConfig
from remoting.protocol.named_addresses import named_addresses
from remoting.protocol.properties import Property
from remoting.protocol.signing import Credentials, Signer
from serving.config.options import Fixed
from serving.config.text import listed_properties, shown_unknown
from serving.process.broker_keys import KEY_BYTES_MAX, credentials_of, signer_of
from serving.process.not_started import NotStarted


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
    with pytest.raises(NotStarted, match=r"brokerSecretKeyPath: .*password must hold a key") as refused:
        credentials_of(config(broker_access_key="u", broker_secret_key_path=f"{tmp_path}/password"))
    assert "hunter" not in str(refused.value)


def test_a_file_that_is_not_there_ends_the_start_with_its_name():
    with pytest.raises(NotStarted, match="brokerAccessKeyPath: /nowhere cannot be read: No such file"):
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
