"""Networks of hosts that exist for one test; they need root."""

import pytest
from agent_sites import Site
from peers.networks import Network, why_not
from peers.programs import cannot_run, require


@pytest.fixture
def network():
    require("ip", "nft")
    if reason := why_not():
        cannot_run(reason)
    network = Network()
    try:
        yield network
    finally:
        network.close()


@pytest.fixture
def site(request, network, tmp_path):
    """Two hosts with brokers and agents; a parameter is their lease in seconds."""
    site = Site(network, tmp_path, **({"lease_s": request.param} if hasattr(request, "param") else {}))
    try:
        yield site.start()
    finally:
        site.close()
