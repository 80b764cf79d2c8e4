"""What breaks, and how it is broken on purpose: processes, disks, clocks and networks."""

import contextlib

import pytest
from peers.lab import Lab
from peers.networks import Network, why_not
from peers.programs import cannot_run


@pytest.fixture
def lab(tmp_path):
    with contextlib.closing(Lab(tmp_path)) as own:
        yield own


@pytest.fixture
def network():
    """A network that leads nowhere; the test runs in it."""
    if reason := why_not():
        cannot_run(reason)
    network = Network()
    try:
        with network.inside():
            yield network
    finally:
        network.close()
