"""One control plane that the tests of a file share, and what was measured, for OPERATIONS.md."""

import contextlib
import itertools

import pytest
from measured import note
from operations.control_plane import ControlPlane

_serial = itertools.count()


@pytest.fixture
def figure(request):
    """Return what notes a figure: `figure("leader again", 0.4)`; all are printed at the end."""

    def noted(what, seconds):
        note(
            "operations: what was measured",
            (request.node.nodeid, what),
            f"{request.node.name}: {what}: {seconds:.2f} s",
        )

    return noted


@pytest.fixture(scope="module")
def shared_plane(tmp_path_factory):
    """Three controllers on an etcd of three with a small quota."""
    options = ("--quota-backend-bytes", 4 << 20)
    with contextlib.closing(ControlPlane(tmp_path_factory.mktemp("plane"), etcd_options=options)) as made:
        yield made.start()
