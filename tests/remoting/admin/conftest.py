"""Java peers for administrative requests."""

import contextlib

import pytest
from peers.lab import Lab


@pytest.fixture
def lab(tmp_path):
    with contextlib.closing(Lab(tmp_path)) as own:
        yield own
