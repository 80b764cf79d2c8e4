"""Whatever needs an event loop runs on the product's, and on that of the standard library; TLS has an authority."""

import asyncio

import pytest
import uvloop
from certificates_made import Authority

from remoting.transport.tls import TlsSettings


def pytest_asyncio_loop_factories(config, item):
    return {"uvloop": uvloop.new_event_loop, "asyncio": asyncio.SelectorEventLoop}


@pytest.fixture(scope="session")
def authority():
    return Authority()


@pytest.fixture
def settings(tmp_path, authority):
    """TLS settings with a certificate of the authority."""
    key, cert = authority.write_pair(tmp_path, "server")

    def make(**changes):
        return TlsSettings(**({"test_mode_enable": False, "server_key_path": key, "server_cert_path": cert} | changes))

    return make
