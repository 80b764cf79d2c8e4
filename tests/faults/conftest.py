"""What breaks, and how it is broken on purpose: processes, disks, clocks and networks."""

import contextlib

import pytest
from peers.lab import Lab


@pytest.fixture
def lab(tmp_path):
    with contextlib.closing(Lab(tmp_path)) as own:
        yield own
