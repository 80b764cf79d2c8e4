"""One site for the tests with brokers of 5.5.0."""

import pytest
from mqadmin_site import running_site
from peers.jars import V5_5


@pytest.fixture(scope="module")
def site_5_5(tmp_path_factory):
    with running_site(tmp_path_factory.mktemp("mqadmin_site"), V5_5) as site:
        yield site
