"""One Spark for all tests of this folder: it takes ten seconds to start."""

import os

import pytest

from analytics.session import NoJava, SparkOptions, start_session

#: Small, since many of them run beside each other on one machine.
OPTIONS = SparkOptions(master="local[2]", driver_memory="1g", app_name="tests")


@pytest.fixture(scope="session")
def spark():
    try:
        session = start_session(OPTIONS)
    except NoJava as why:
        (pytest.fail if os.environ.get("CI") else pytest.skip)(str(why))
    yield session
    session.stop()
