"""A broker of each release with its NameServer, clients and topics, which the tests of this folder share."""

import contextlib

import pytest
from peers.lab import Lab

from scaling.sites import EVERY_RELEASE, ScalingSite


@pytest.fixture(scope="package", params=EVERY_RELEASE)
def site(request, tmp_path_factory):
    """A broker of any release with its NameServer and clients; the tests of one release run in a row."""
    with contextlib.closing(ScalingSite(Lab(tmp_path_factory.mktemp("site")), request.param)) as started:
        yield started
