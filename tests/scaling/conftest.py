"""A broker of each release with its NameServer, clients and topics, shared by all tests of this folder."""

import contextlib

import pytest
from peers.jars import V4_9, V5_1, V5_5
from peers.lab import Lab
from sites import ScalingSite

#: Needs a broker of any release; the tests of one release run in a row.
EVERY_RELEASE = [V5_5, V5_1, V4_9]


@pytest.fixture(scope="session", params=EVERY_RELEASE)
def site(request, tmp_path_factory):
    with contextlib.closing(ScalingSite(Lab(tmp_path_factory.mktemp("site")), request.param)) as started:
        yield started
