"""What clients in an open network get at the port at which they look NameServers up: that, and nothing else."""

import urllib.error
import urllib.request

import pytest
from peers.processes import free_port


@pytest.fixture
def lookups(serve):
    """The URL of the look-up port of a NameServer, and that of its HTTP side."""
    port = free_port()
    served = serve(lookupPort=port)
    return f"http://127.0.0.1:{port}", f"http://127.0.0.1:{served.server.http_port}"


def get(url):
    with urllib.request.urlopen(url, timeout=30) as answer:
        return answer.read().decode()


def test_clients_look_up_at_both_ports(lookups):
    at_lookups, at_http = lookups
    for path in ("/rocketmq/nsaddr", "/rocketmq/nsaddr-unit?nofix=1"):
        assert get(at_lookups + path) == get(at_http + path)


def test_look_up_port_shows_nothing_else(lookups):
    for path in ("/v1/brokers", "/v1/topics", "/v1/config", "/metrics", "/livez", "/ui/", "/v1/routes/watch"):
        with pytest.raises(urllib.error.HTTPError, match="404"):
            get(lookups[0] + path)
