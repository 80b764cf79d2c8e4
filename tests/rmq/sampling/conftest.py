"""Java peers for the sampler."""

import contextlib

import pytest
from peers.lab import Lab


@pytest.fixture
def lab(tmp_path):
    with contextlib.closing(Lab(tmp_path)) as own:
        yield own
