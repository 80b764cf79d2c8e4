"""Whatever goes wrong in one call to etcd, the next one is made: who stops asking never leads, or leads for ever."""

import threading

import pytest
from fakes.leadership_listener import RecordingListener, eventually
from peers.processes import free_port
from peers.waiting import wait_until

from remoting.background_tasks import BackgroundTasks
from remoting.clock import SystemClock
from store.etcd import calls, watch
from store.etcd import etcd_store as registration
from store.etcd.client import EtcdClient, EtcdOptions, System, Unreachable, grpc
from store.etcd.etcd_store import Membership
from store.etcd.keys import Keys
from store.etcd.lease import LeaderElection
from store.etcd.lease_state_machine import Leadership
from store.etcd.threads import CallThreads
from store.etcd.watch import Watch
from store.store import ControllerMember, OutcomeUnknown, ignore

ME = ControllerMember(id="n0", address="10.0.0.1:9878")
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
        super().__init__(1, SystemClock(), ignore)
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
def reported_errors():
    """Return what is reported of faults."""
    return []


@pytest.fixture
def tasks(reported_errors):
    return BackgroundTasks(lambda _, error: reported_errors.append(error))


async def test_connection_left_by_one_thread_stays_open_for_another_that_uses_it(client):
    connection = client._used_connection()
    other = threading.Thread(target=client._leave, args=(connection,), kwargs={"is_silent": True})
    other.start()
    other.join()
    with pytest.raises(grpc.RpcError):
        calls.read_leader(KEYS)(connection, 0.2, ())
    connection.release()
    with pytest.raises(ValueError, match="closed"):
        calls.read_leader(KEYS)(connection, 0.2, ())


def test_closed_grpc_channel_moves_the_request_to_the_next_endpoint(client):
    requests = []

    def call(connection, seconds, metadata):
        requests.append(connection.address)
        if len(requests) == 1:
            raise ValueError("Cannot invoke RPC on closed channel!")
        return "answer"

    assert client.request(call, deadline_ms=soon_ms(), is_repeatable=False) == "answer"
    assert len(set(requests)) == 2


def test_closed_grpc_channels_of_all_endpoints_make_etcd_unreachable(client):
    def call(connection, seconds, metadata):
        raise ValueError("Cannot invoke RPC on closed channel!")

    with pytest.raises(Unreachable, match="closed channel"):
        client.request(call, deadline_ms=soon_ms())


async def test_leader_election_continues_after_any_exception_and_reports_it(client, threads, reported_errors, tasks):
    election = LeaderElection(client, KEYS, threads, SystemClock(), lambda: None)
    task = election.start(Leadership(me=ME, run="r"), RecordingListener(), tasks)
    await eventually(lambda: threads.calls >= 3 or task.done(), seconds=SOON_S, what="it is tried again")
    assert not task.done()
    assert {str(each) for each in reported_errors} == {"nobody thought of that"}
    election.stop()


class BrokenOff(grpc.RpcError):
    """The connection ends while a call is under way: nobody knows whether it was done."""

    def code(self):
        return grpc.StatusCode.UNAVAILABLE

    def details(self):
        return "recvmsg:Connection reset by peer"


@pytest.mark.parametrize(("is_repeatable", "times"), [(False, 1), (True, 3)])
def test_request_with_an_unknown_outcome_is_repeated_only_if_it_is_repeatable(client, is_repeatable, times):
    requests = []

    def call(connection, seconds, metadata):
        requests.append(connection.address)
        raise BrokenOff

    with pytest.raises(OutcomeUnknown, match="reset by peer"):
        client.request(call, deadline_ms=soon_ms(), is_repeatable=is_repeatable)
    assert len(requests) == times


async def test_membership_renewal_continues_after_any_exception(client, threads, reported_errors, tasks, monkeypatch):
    monkeypatch.setattr(registration, "RENEW_EVERY_S", 0.01)
    membership = Membership(client, KEYS, threads, ME)
    task = tasks.keep_running(lambda: membership.stay(lambda: True), "etcd_membership", pause_s=0)
    await eventually(lambda: threads.calls >= 3 or task.done(), seconds=SOON_S, what="it is tried again")
    assert not task.done()
    assert reported_errors
    task.cancel()


class Answering:
    """An etcd whose first answers are such as nobody thought of."""

    system = System()

    def __init__(self, faults):
        self.faults = faults
        self.requests = 0

    def request(self, call, *, deadline_ms):
        self.requests += 1
        if self.faults:
            raise self.faults.pop()
        raise Unreachable("nobody is there")


@pytest.mark.parametrize("fault", [RuntimeError("odd"), MemoryError(), RecursionError(), SystemExit(3)])
@pytest.mark.parametrize("is_reported", [True, False])
def test_watch_continues_after_any_fault_and_reports_it(fault, is_reported, monkeypatch):
    monkeypatch.setattr(watch, "FAULT_PAUSE_S", 0.01)
    monkeypatch.setattr(watch, "RETRY_S", 0.01)
    reported_errors, etcd = [], Answering([fault])

    def report(name, error):
        reported_errors.append((name, error))
        if not is_reported:
            raise OSError("the disk is full")

    watched = Watch(etcd, KEYS, SystemClock(), lambda _: None, report)
    watched.start()
    wait_until(lambda: etcd.requests >= 3 or not watched._thread.is_alive(), seconds=SOON_S, what="it asks again")
    assert watched._thread.is_alive()
    watched.stop(seconds=SOON_S)
    assert reported_errors == [("etcd_watch", fault)]
