"""Whatever goes wrong in one call to etcd, the next one is made: who stops asking never leads, or leads for ever."""

import asyncio
import threading

import pytest
from fakes.witness import RecordingWitness, eventually
from peers.processes import free_port

from controller.leadership import Leadership
from controller.store import Member
from controller.stores import etcd_membership, etcd_requests
from controller.stores.etcd_client import EtcdClient, EtcdOptions, Unreachable
from controller.stores.etcd_election import Election
from controller.stores.etcd_keys import Keys
from controller.stores.etcd_membership import Membership
from controller.stores.etcd_messages import grpc
from controller.stores.etcd_threads import CallThreads
from controller.stores.observer import NoObserver
from remoting.clock import SystemClock

ME = Member(id="n0", address="10.0.0.1:9878")
KEYS = Keys("g")
SOON_S = 20


@pytest.fixture
def client():
    """Two endpoints at which nobody is."""
    endpoints = tuple(f"127.0.0.1:{free_port()}" for _ in range(2))
    client = EtcdClient(EtcdOptions(endpoints=endpoints), SystemClock())
    yield client
    client.close()


def soon_ms():
    return SystemClock().now_ms() + 5_000


class Faltering(CallThreads):
    """Fails at once in each call, as nobody thought of."""

    def __init__(self):
        super().__init__(1, SystemClock(), NoObserver())
        self.calls = 0

    async def run(self, kind, work, **more):
        self.calls += 1
        raise RuntimeError("nobody thought of that")


@pytest.fixture
def threads():
    threads = Faltering()
    yield threads
    threads.close()


@pytest.fixture
async def told():
    """Return what is told of bugs."""
    told = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context["exception"]))
    return told


async def test_a_connection_that_another_thread_leaves_stays_open_for_who_has_it_already(client):
    connection = client._used_connection()
    other = threading.Thread(target=client._leave, args=(connection,), kwargs={"is_silent": True})
    other.start()
    other.join()
    with pytest.raises(grpc.RpcError):
        etcd_requests.look(KEYS)(connection, 0.2, ())
    connection.release()
    with pytest.raises(ValueError, match="closed"):
        etcd_requests.look(KEYS)(connection, 0.2, ())


def test_where_grpc_says_that_a_channel_is_closed_the_next_endpoint_is_asked(client):
    asked = []

    def question(connection, seconds, metadata):
        asked.append(connection.address)
        if len(asked) == 1:
            raise ValueError("Cannot invoke RPC on closed channel!")
        return "answer"

    assert client.ask(question, deadline_ms=soon_ms(), is_repeatable=False) == "answer"
    assert len(set(asked)) == 2


def test_where_it_says_so_everywhere_etcd_cannot_be_reached(client):
    def question(connection, seconds, metadata):
        raise ValueError("Cannot invoke RPC on closed channel!")

    with pytest.raises(Unreachable, match="closed channel"):
        client.ask(question, deadline_ms=soon_ms())


async def test_an_election_goes_on_whatever_a_step_of_it_raises_and_tells_it(client, threads, told):
    election = Election(client, KEYS, threads, SystemClock(), lambda: None)
    task = election.start(Leadership(me=ME, run="r"), RecordingWitness())
    await eventually(lambda: threads.calls >= 3 or task.done(), seconds=SOON_S, what="it is tried again")
    assert not task.done()
    assert {str(each) for each in told} == {"nobody thought of that"}
    election.stop()


async def test_a_membership_is_renewed_whatever_one_renewal_raises(client, threads, told, monkeypatch):
    monkeypatch.setattr(etcd_membership, "RENEW_EVERY_S", 0.01)
    monkeypatch.setattr(etcd_membership, "RETRY_S", 0.01)
    task = asyncio.create_task(Membership(client, KEYS, threads, ME).stay(lambda: True))
    await eventually(lambda: threads.calls >= 3 or task.done(), seconds=SOON_S, what="it is tried again")
    assert not task.done()
    assert told
    task.cancel()
