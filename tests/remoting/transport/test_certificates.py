import datetime as dt
import ssl
from pathlib import Path

import pytest
from certificates_made import END, Authority, end_unix_s

from remoting.transport.tls import expiry_unix_s, self_signed


@pytest.mark.parametrize("end", [END, dt.datetime(2050, 1, 1, tzinfo=dt.UTC)], ids=["UTC", "generalized"])
def test_expiry_is_that_of_the_first_certificate_of_a_chain(tmp_path, end):
    _, path = Authority().write_pair(tmp_path, "server", end=end)
    assert expiry_unix_s(b"Bag Attributes\n    friendlyName: server\n" + Path(path).read_bytes()) == end_unix_s(end)


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
def test_text_without_a_certificate_is_refused(text):
    with pytest.raises(ValueError, match=r"^no certificate in PEM form$"):
        expiry_unix_s(text.encode())


def test_self_signed_certificate_has_its_key_and_outlives_the_process(tmp_path):
    made = self_signed(1_800_000_000)
    path = tmp_path / "made.pem"
    path.write_bytes(made)
    ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(path)
    assert expiry_unix_s(made) == 1_800_000_000 + 3650 * 86400


def test_expiry_is_read_from_a_certificate_with_the_older_pem_heading(tmp_path):
    _, path = Authority().write_pair(tmp_path, "server")
    assert expiry_unix_s(Path(path).read_bytes().replace(b" CERTIFICATE", b" X509 CERTIFICATE")) == end_unix_s()
