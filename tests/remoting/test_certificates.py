import datetime as dt
import ssl
from pathlib import Path

import pytest
from certificates_made import END, Authority, end_unix_s

from remoting.certificates import expiry_unix_s, self_signed


@pytest.mark.parametrize("end", [END, dt.datetime(2050, 1, 1, tzinfo=dt.UTC)], ids=["UTC", "generalized"])
def test_the_end_of_a_certificate_is_read_from_the_first_of_a_chain(tmp_path, end):
    _, path = Authority().write_pair(tmp_path, "server", end=end)
    assert expiry_unix_s("Bag Attributes\n    friendlyName: server\n" + Path(path).read_text()) == end_unix_s(end)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "-----BEGIN CERTIFICATE-----\n",
        "-----END CERTIFICATE-----\n-----BEGIN CERTIFICATE-----",
        "-----BEGIN CERTIFICATE-----\nMAA=\n-----END CERTIFICATE-----",
        "-----BEGIN CERTIFICATE-----\n!!\n-----END CERTIFICATE-----",
        "-----BEGIN PRIVATE KEY-----\nMAA=\n-----END PRIVATE KEY-----",
    ],
)
def test_what_is_no_certificate_has_no_end(text):
    with pytest.raises(ValueError, match=r"certificate|Incorrect|Invalid|Only base64"):
        expiry_unix_s(text)


def test_a_certificate_made_on_the_spot_holds_a_key_and_outlives_the_process(tmp_path):
    made = self_signed(1_800_000_000)
    path = tmp_path / "made.pem"
    path.write_bytes(made)
    ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(path)
    assert expiry_unix_s(made.decode()) == 1_800_000_000 + 3650 * 86400
