import base64
import datetime as dt
import ssl
from pathlib import Path

import pytest
from certificates_made import END, Authority, end_unix_s

from remoting.transport.certificates import expiry_unix_s, self_signed


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
        "-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----",
        "-----BEGIN CERTIFICATE-----\nMAA\n-----END CERTIFICATE-----",
        "-----BEGIN CERTIFICATE-----\n!!\n-----END CERTIFICATE-----",
        "-----BEGIN PRIVATE KEY-----\nMAA=\n-----END PRIVATE KEY-----",
    ],
)
def test_what_is_no_certificate_has_no_end(text):
    with pytest.raises(ValueError, match=r"certificate|padding|time data"):
        expiry_unix_s(text)


def test_a_certificate_made_on_the_spot_holds_a_key_and_outlives_the_process(tmp_path):
    made = self_signed(1_800_000_000)
    path = tmp_path / "made.pem"
    path.write_bytes(made)
    ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(path)
    assert expiry_unix_s(made.decode()) == 1_800_000_000 + 3650 * 86400


def element(kind, *content):
    content = b"".join(content)
    return bytes([kind, len(content)]) + content


def test_a_certificate_of_the_first_version_and_of_other_pem_headings_is_read():
    anything = element(0x30)
    validity = element(0x30, element(0x17, b"240102030405Z"), element(0x17, b"491231235959Z"))
    serial = element(0x02, b"\1")
    der = element(0x30, element(0x30, serial, anything, anything, validity, anything), anything)
    text = base64.b64encode(der).decode()
    for heading in ("CERTIFICATE", "X509 CERTIFICATE", "TRUSTED CERTIFICATE"):
        assert expiry_unix_s(f"-----BEGIN {heading}-----\n{text}\n-----END {heading}-----\n") == end_unix_s()
