"""Labs of their own for tests, and one mqadmin for all."""

import contextlib

import pytest
from peers.jars import V4_9
from peers.lab import Lab


@pytest.fixture
def lab(tmp_path):
    with contextlib.closing(Lab(tmp_path)) as own:
        yield own


@pytest.fixture(scope="module")
def module_lab(tmp_path_factory):
    with contextlib.closing(Lab(tmp_path_factory.mktemp("lab"))) as shared:
        yield shared


@pytest.fixture(scope="session")
def mqadmin(tmp_path_factory):
    """The mqadmin of 4.9.7, which needs 0.1 s for most commands; that of 5.5.0 often waits 3 s before it ends."""
    with contextlib.closing(Lab(tmp_path_factory.mktemp("mqadmin"))) as session_lab:
        yield session_lab.mqadmin(version=V4_9)
