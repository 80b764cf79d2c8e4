"""TLS contexts from settings and files; what they do in a connection is in test_server_tls.py."""

import ssl
from pathlib import Path

import pytest
from certificates_made import Authority, end_unix_s
from fakes.clock import FakeClock

from remoting.transport.tls import TlsContexts, TlsError, TlsSettings, client_context

SERVER_12 = "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"


def contexts(settings):
    return TlsContexts(settings, FakeClock())


def test_the_context_in_use_has_the_end_of_its_certificate(settings):
    loaded = contexts(settings())
    assert loaded.certificate_expiry_unix_s is None
    assert loaded.reload() is None
    assert loaded.certificate_expiry_unix_s == end_unix_s()
    assert loaded.server_context().verify_mode == ssl.CERT_NONE


def test_there_is_no_context_before_the_files_are_read_nor_if_they_are_not_set(settings):
    with pytest.raises(TlsError, match="not loaded yet"):
        contexts(settings()).server_context()
    for missing, name in (("server_key_path", "tls.server.keyPath"), ("server_cert_path", "tls.server.certPath")):
        loaded = contexts(settings(**{missing: ""}))
        error = loaded.reload()
        assert f"{name}: not set" in str(error)
        with pytest.raises(TlsError) as caught:
            loaded.server_context()
        assert caught.value is error


def test_test_mode_makes_a_certificate_at_the_first_use_and_keeps_it():
    made = contexts(TlsSettings(server_key_path="/nowhere"))
    assert made.reload() is None
    assert not made.changed()
    assert made.server_context() is made.server_context()
    assert made.certificate_expiry_unix_s is None


def test_test_mode_without_a_writable_folder_is_an_error(monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", "/nowhere")
    with pytest.raises(TlsError, match="no certificate can be made"):
        contexts(TlsSettings()).server_context()


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"server_key_path": "/nowhere/key"}, "tls.server.keyPath=/nowhere/key: No such file"),
        ({"server_cert_path": "/nowhere/cert"}, "tls.server.certPath=/nowhere/cert: No such file"),
        ({"server_cert_path": __file__}, "tls.server.certPath=.*no certificate"),
        ({"server_key_path": __file__}, "tls.server.keyPath=.*does not go with"),
        ({"server_need_client_auth": "require"}, "require needs tls.server.authClient=true"),
        (
            {"server_need_client_auth": "require", "server_auth_client": True, "server_trust_cert_path": "/nowhere"},
            "tls.server.trustCertPath=/nowhere: No such file",
        ),
        (
            {"server_need_client_auth": "require", "server_auth_client": True, "server_trust_cert_path": __file__},
            "tls.server.trustCertPath=.*no certificate",
        ),
        ({"ciphers": "NO_SUCH_CIPHER"}, "tls.ciphers=NO_SUCH_CIPHER: no cipher"),
        ({"protocols": "TLSv1.2,SSLv3"}, "SSLv3 is not one of"),
        ({"protocols": "TLSv1.2", "ciphers": "TLS_AES_128_GCM_SHA256"}, "none of them belongs"),
    ],
)
def test_settings_that_make_no_context_are_named(settings, changes, problem):
    error = contexts(settings(**changes)).reload()
    assert error is not None
    with pytest.raises(TlsError, match=problem):
        raise error


def test_an_encrypted_key_needs_its_password(tmp_path, authority):
    key, cert = authority.write_pair(tmp_path, "locked", password="open sesame")
    locked = {"test_mode_enable": False, "server_key_path": key, "server_cert_path": cert}
    assert contexts(TlsSettings(**locked, server_key_password="open sesame")).reload() is None
    for password in ("", "wrong"):
        error = contexts(TlsSettings(**locked, server_key_password=password)).reload()
        assert "does not go with" in str(error)
        assert error.path == key
    assert "open sesame" not in repr(TlsSettings(server_key_password="open sesame"))


@pytest.mark.parametrize(
    ("need", "auth_client", "mode"),
    [
        ("none", True, ssl.CERT_NONE),
        ("optional", True, ssl.CERT_OPTIONAL),
        ("require", True, ssl.CERT_REQUIRED),
        ("optional", False, ssl.CERT_NONE),
    ],
)
def test_clients_are_verified_as_the_settings_require(tmp_path, settings, authority, need, auth_client, mode):
    trust = authority.write(tmp_path / "ca.pem")
    loaded = contexts(
        settings(server_need_client_auth=need, server_auth_client=auth_client, server_trust_cert_path=trust)
    )
    assert loaded.reload() is None
    assert loaded.server_context().verify_mode == mode


def test_without_a_trust_file_clients_are_verified_with_the_authorities_of_the_system(settings):
    assert contexts(settings(server_need_client_auth="require", server_auth_client=True)).reload() is None


@pytest.mark.parametrize(
    ("changes", "lowest", "highest"),
    [
        ({}, "TLSv1_2", "TLSv1_3"),
        ({"protocols": "TLSv1.3"}, "TLSv1_3", "TLSv1_3"),
        ({"protocols": "TLSv1.2"}, "TLSv1_2", "TLSv1_2"),
        ({"ciphers": SERVER_12}, "TLSv1_2", "TLSv1_2"),
        ({"ciphers": "TLS_AES_128_GCM_SHA256"}, "TLSv1_3", "TLSv1_3"),
        ({"ciphers": f"TLS_AES_128_GCM_SHA256, {SERVER_12}"}, "TLSv1_2", "TLSv1_3"),
    ],
)
def test_protocols_and_ciphers_limit_the_versions(settings, changes, lowest, highest):
    loaded = contexts(settings(**changes))
    assert loaded.reload() is None
    context = loaded.server_context()
    assert (context.minimum_version.name, context.maximum_version.name) == (lowest, highest)


@pytest.mark.parametrize(
    ("java", "openssl"),
    [
        (SERVER_12, "ECDHE-RSA-AES128-GCM-SHA256"),
        ("TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA384", "ECDHE-ECDSA-AES256-SHA384"),
        ("TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256", "ECDHE-ECDSA-CHACHA20-POLY1305"),
        ("TLS_RSA_WITH_AES_128_GCM_SHA256", "AES128-GCM-SHA256"),
        ("TLS_DHE_RSA_WITH_AES_256_GCM_SHA384", "DHE-RSA-AES256-GCM-SHA384"),
        ("ECDHE-RSA-AES256-GCM-SHA384", "ECDHE-RSA-AES256-GCM-SHA384"),
    ],
)
def test_ciphers_may_have_the_names_that_java_uses(settings, java, openssl):
    loaded = contexts(settings(ciphers=java))
    assert loaded.reload() is None
    names = {each["name"] for each in loaded.server_context().get_ciphers() if each["protocol"] != "TLSv1.3"}
    assert names == {openssl}


# Files that change


def replace(settings, authority, tmp_path, *which):
    key, cert = authority.write_pair(tmp_path, "next")
    for name, new in (("server_key_path", key), ("server_cert_path", cert)):
        if name in which:
            Path(getattr(settings, name)).write_bytes(Path(new).read_bytes())


def test_another_key_and_another_certificate_together_call_for_a_reload(settings, authority, tmp_path):
    loaded = contexts(settings())
    loaded.reload()
    first = loaded.server_context()
    assert not loaded.changed()
    replace(loaded.settings, authority, tmp_path, "key_path")
    assert not loaded.changed(), "the certificate has still to come"
    replace(loaded.settings, authority, tmp_path, "server_key_path", "server_cert_path")
    assert loaded.changed()
    assert loaded.reload() is None
    assert not loaded.changed()
    assert loaded.server_context() is not first


def test_another_trust_file_calls_for_a_reload_and_a_deleted_file_does_not(settings, authority, tmp_path):
    trust = Path(authority.write(tmp_path / "ca.pem"))
    loaded = contexts(
        settings(server_auth_client=True, server_need_client_auth="require", server_trust_cert_path=str(trust))
    )
    loaded.reload()
    trust.unlink()
    assert not loaded.changed()
    Authority("Another").write(trust)
    assert loaded.changed()


def test_a_failed_reload_keeps_the_old_and_is_tried_again_when_the_files_are_whole(settings, authority, tmp_path):
    loaded = contexts(settings())
    loaded.reload()
    first = loaded.server_context()
    replace(loaded.settings, authority, tmp_path, "server_key_path", "server_cert_path")
    whole = Path(loaded.settings.server_cert_path).read_bytes()
    Path(loaded.settings.server_cert_path).write_bytes(whole[:200])
    assert loaded.changed()
    assert "tls.server.certPath" in str(loaded.reload())
    assert loaded.server_context() is first
    assert loaded.certificate_expiry_unix_s == end_unix_s()
    assert not loaded.changed(), "the same broken files are not tried for ever"
    Path(loaded.settings.server_cert_path).write_bytes(whole)
    assert loaded.changed()
    assert loaded.reload() is None
    assert loaded.server_context() is not first


def test_server_without_tls_reads_no_file(settings):
    off = contexts(settings(server_mode="disabled", server_key_path="/nowhere"))
    assert off.reload() is None
    assert not off.changed()


# The client's side


def test_client_verifies_servers_only_if_configured(tmp_path, authority):
    trust = authority.write(tmp_path / "ca.pem")
    assert client_context(TlsSettings(client_auth_server=True)).verify_mode == ssl.CERT_NONE, "test mode trusts all"
    assert client_context(TlsSettings(test_mode_enable=False)).verify_mode == ssl.CERT_NONE
    verifying = TlsSettings(test_mode_enable=False, client_auth_server=True, client_trust_cert_path=trust)
    context = client_context(verifying)
    assert context.verify_mode == ssl.CERT_REQUIRED
    assert not context.check_hostname
    assert len(context.get_ca_certs()) == 1


def test_a_client_shows_its_certificate_if_it_has_one(tmp_path, authority):
    key, cert = authority.write_pair(tmp_path, "client")
    client_context(TlsSettings(test_mode_enable=False, client_key_path=key, client_cert_path=cert))
    with pytest.raises(TlsError, match=r"tls\.client\.keyPath=/nowhere"):
        client_context(TlsSettings(test_mode_enable=False, client_key_path="/nowhere", client_cert_path=cert))
