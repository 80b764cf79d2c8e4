"""Both kinds of stores, for the tests of what they have in common."""

import pytest
from fakes.leadership_listener import RecordingListener, eventually
from peers.etcd import running_etcd

from remoting.clock import SystemClock
from store.embedded import EmbeddedStore
from store.etcd.etcd_store import EtcdOptions, EtcdStore
from store.store import ControllerMember


@pytest.fixture
def me():
    return ControllerMember(id="n0", address="10.0.0.1:9878")


@pytest.fixture(scope="module")
def etcd(tmp_path_factory):
    with running_etcd(tmp_path_factory.mktemp("etcd")) as etcd:
        yield etcd


@pytest.fixture(params=["embedded", pytest.param("etcd", marks=pytest.mark.etcd)])
def kind(request):
    return request.param


@pytest.fixture
def made(kind, request, tmp_path):
    """Return a function that makes the store anew, as the next process does."""
    if kind == "embedded":
        return lambda **more: EmbeddedStore(tmp_path / "store", **more)
    options = EtcdOptions(endpoints=request.getfixturevalue("etcd").endpoints, group=str(tmp_path))
    return lambda **more: EtcdStore(options, SystemClock(), **more)


@pytest.fixture
def listener():
    return RecordingListener()


@pytest.fixture
async def opened(made, listener, me):
    """Return a function that makes the store anew, in place of the one before, and waits until it leads."""
    stores = []

    async def open_one(**more):
        while stores:
            await stores.pop().close()
        store = made(**more)
        stores.append(store)
        listener.is_leading = False
        await store.join(me, listener)
        await eventually(lambda: listener.is_leading, seconds=30, what="the only controller leads")
        return store

    yield open_one
    for store in stores:
        await store.close()


@pytest.fixture
async def backend(opened):
    return await opened()
