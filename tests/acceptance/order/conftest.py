"""Real brokers and orderly clients, shared by the tests of a file."""

import contextlib

import pytest
from orderly_site import LoneOrderlyBroker, OrderlySite
from peers.jars import V4_9, V5_1, V5_5
from peers.lab import Lab


@pytest.fixture(scope="module", params=[V5_5, pytest.param(V5_1, marks=pytest.mark.soak)])
def started_site(request, tmp_path_factory):
    with contextlib.closing(OrderlySite(Lab(tmp_path_factory.mktemp("locks")), request.param)) as site:
        yield site


@pytest.fixture
def site(started_site):
    started_site.complete()
    return started_site


@pytest.fixture(
    scope="module",
    params=[V5_5, pytest.param(V5_1, marks=pytest.mark.soak), pytest.param(V4_9, marks=pytest.mark.soak)],
)
def lone(request, tmp_path_factory):
    with contextlib.closing(LoneOrderlyBroker(Lab(tmp_path_factory.mktemp("lone")), request.param)) as site:
        yield site
