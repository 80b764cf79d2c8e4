"""The leader keeps slices as they are wanted, over HTTPS and a server that answers as that of Kubernetes."""

import asyncio
import re
import subprocess
import sys
import time

import pytest
from controller_builders import a_set, replicas
from fakes.clock import FakeClock
from fakes.scaling_controller import ME, OTHER, FailingStore
from peers.kube_api import TOKEN, KubeApi

from controller.endpoint_slices import api_server, service
from controller.endpoint_slices.api_server import CONNECTIONS_MAX, TOKEN_BYTES_MAX, ApiServer
from controller.endpoint_slices.events import (
    BrokersNotPublished,
    EndpointSlicesFailing,
    EndpointSlicesRecovered,
    EndpointSliceWritten,
    SyncResult,
)
from controller.endpoint_slices.service import (
    AGAIN_MS,
    BEGIN_MS,
    LINES_MAX,
    LINES_PERIOD_MS,
    RETRY_MS,
    EndpointSlices,
)
from controller.failover.group import Group
from controller.sets.broker_set import Replica
from controller.sets.stored_set import StoredSet
from serving.config.service_sets import ServiceSet
from serving.telemetry.events import Count, Counted
from store.store import SetStore, VersionedEntry

SERVICE = ServiceSet("broker-a", 10_911, "rmq-set-a.ns.svc.cluster.local", 30_911, [1, 2, 3])
OTHERS = tuple(ServiceSet(f"broker-{i}", 10_911, f"rmq-set-{i}.ns.svc", 30_911, [1, 2, 3]) for i in range(30))
FOUR = "rmq-set-a-ipv4"
ALL = {f"b{i}": [f"10.0.0.{i}"] for i in (1, 2, 3)}


class Recorded:
    """What a controller reports of slices."""

    def __init__(self):
        self.results, self.written, self.failing, self.recovered, self.left_out = [], [], [], [], []
        self.faults = []

    def emit(self, event):
        match event:
            case Counted(count=Count(labels=(result,))):
                self.results.append(result)
            case EndpointSliceWritten():
                self.written.append((event.broker, event.slice))
            case EndpointSlicesFailing(exc_info=fault):
                self.failing.append((event.broker, event.error, event.retry_ms))
                self.faults += [] if fault is None else [fault]
            case EndpointSlicesRecovered():
                self.recovered.append((event.broker, event.failures))
            case BrokersNotPublished():
                self.left_out.append((event.broker, event.left_out))


class Publishing:
    """A controller that publishes, over a store in a file."""

    def __init__(self, folder, api, services=(SERVICE,)):
        self.clock, self.observer, self.api = FakeClock(), Recorded(), api
        self.sets = SetStore(FailingStore(folder))
        self.group = Group("g", ME, self.clock, self.sets)
        self.revision = 0
        server = ApiServer("127.0.0.1", api.port, api.credentials)
        self.slices = EndpointSlices(self.group, self.sets, self.clock, server, services, self.observer.emit)

    def lead(self, until_ms=None):
        self.group.leads(until_ms)
        self.group.ready(self.group.term)

    def put(self, broker_set, name="broker-a"):
        self.revision += 1
        stored = StoredSet(broker_set=broker_set)
        self.sets.entry_changed(name, VersionedEntry(stored, self.revision))

    async def look(self, after_ms=0):
        self.clock.pass_ms(after_ms)
        await self.slices.look()


def stale(controller):
    """Return how many sets are not as wanted, since when, and the brokers that are left out, as the metrics have it."""
    return [measure.value for measure in controller.slices.measures()] or [0, 0, 0]


@pytest.fixture
async def api(tmp_path):
    async with KubeApi(tmp_path) as api:
        yield api


@pytest.fixture
async def controller(api, tmp_path):
    controller = Publishing(tmp_path / "store", api)
    controller.lead()
    controller.put(a_set())
    yield controller
    await controller.sets._backend.close()


@pytest.fixture
async def many(api, tmp_path):
    """Return a controller with many sets after the usual one."""
    controller = Publishing(tmp_path / "store", api, (SERVICE, *OTHERS))
    controller.lead()
    controller.put(a_set())
    for each in OTHERS:
        controller.put(a_set(), each.name)
    yield controller
    await controller.sets._backend.close()


async def test_brokers_of_a_set_are_published_once_and_compared_each_minute(controller, api):
    await controller.look()
    assert api.endpoints(FOUR) == ALL
    await controller.look(AGAIN_MS - 1)
    assert len(api.requests) == 3
    await controller.look(1)
    assert api.writes == ["create"]
    assert controller.observer.results == [SyncResult.WRITTEN, SyncResult.UNCHANGED]
    assert controller.observer.written == [("broker-a", FOUR)]


async def test_broker_that_moves_and_one_that_joins_are_published_at_once(controller, api):
    await controller.look()
    controller.put(a_set(replicas=replicas(1, 2) | {3: Replica("10.0.0.9:30911", "c")}))
    await controller.look()
    assert api.endpoints(FOUR) == ALL | {"b3": ["10.0.0.9"]}
    controller.put(a_set(replicas=replicas(1, 2)))
    await controller.look()
    controller.put(a_set(replicas=replicas(1, 2, 3)))
    await controller.look()
    assert api.endpoints(FOUR) == ALL
    assert api.writes == ["create", "update", "update", "update"]


async def test_broker_with_an_id_that_haproxy_has_no_server_for_is_reported_and_counted(controller, api):
    controller.put(a_set(replicas=replicas(1, 2, 4)))
    await controller.look()
    assert api.endpoints(FOUR) == {"b1": ["10.0.0.1"], "b2": ["10.0.0.2"]}
    ((name, left_out),) = controller.observer.left_out
    assert (name, list(left_out)) == ("broker-a", ["4"])
    assert "4 is none of the brokerIds" in left_out["4"]
    assert stale(controller) == [0, 0, 1]
    controller.put(a_set())
    await controller.look()
    assert stale(controller) == [0, 0, 0]


async def test_slice_that_somebody_removed_or_changed_is_put_right_within_a_minute(controller, api):
    await controller.look()
    api.change(FOUR, endpoints=[])
    await controller.look(AGAIN_MS)
    assert api.endpoints(FOUR) == ALL
    api.slices.clear()
    await controller.look(AGAIN_MS)
    assert api.endpoints(FOUR) == ALL


async def test_set_without_a_service_and_set_that_is_not_stored_are_left_alone(controller, api):
    controller.put(a_set(), "broker-without-service")
    await controller.look()
    assert list(api.slices) == [("ns", FOUR)]
    controller.put(None)
    calls = len(api.requests)
    await controller.look(AGAIN_MS)
    assert (api.endpoints(FOUR), len(api.requests)) == (ALL, calls)
    assert stale(controller) == [0, 0, 0]


async def test_broker_that_cannot_be_published_is_reported_once(controller, api):
    controller.put(a_set(replicas=replicas(1) | {2: Replica("broker-2:30911", "c")}))
    await controller.look()
    await controller.look(AGAIN_MS)
    assert api.endpoints(FOUR) == {"b1": ["10.0.0.1"]}
    assert [each for _, each in controller.observer.left_out] == [{"2": "broker-2:30911 is no IP address with a port"}]
    controller.put(a_set())
    await controller.look()
    assert [each for _, each in controller.observer.left_out][1:] == [{}]


async def test_follower_and_leader_whose_lease_has_lapsed_write_nothing(controller, api):
    controller.group.follows(OTHER)
    await controller.look()
    controller.lead(until_ms=controller.clock.now_ms() + 1_000)
    controller.clock.pass_ms(1_001)
    await controller.look()
    assert api.requests == []


async def test_leader_that_is_deposed_between_read_and_write_writes_nothing(controller, api):
    await controller.look()
    controller.put(a_set(replicas=replicas(1)))
    controller.lead(until_ms=controller.clock.now_ms() + 1_000)
    answer, controller.api.hangs = asyncio.create_task(controller.look()), True
    async with asyncio.timeout(30):
        while len(api.requests) < 4:
            await asyncio.sleep(0.01)
    controller.group.follows(OTHER)
    api.hangs = False
    await answer
    assert (api.endpoints(FOUR), api.writes) == (ALL, ["create"])
    await controller.look()
    assert stale(controller) == [0, 0, 0]


async def test_what_a_newer_leader_wrote_after_the_read_stays(controller, api):
    await controller.look()
    controller.put(a_set(replicas=replicas(1)))

    def newer_leader_writes():
        api.before_write = lambda: None
        api.change(FOUR, endpoints=[{"hostname": "b7", "addresses": ["10.0.0.7"], "conditions": {"ready": True}}])
        controller.group.follows(OTHER)

    api.before_write = newer_leader_writes
    await controller.look()
    assert api.endpoints(FOUR) == {"b7": ["10.0.0.7"]}


async def test_slice_that_changes_meanwhile_is_read_again(controller, api):
    await controller.look()

    def somebody_annotates():
        api.before_write = lambda: None
        api.change(FOUR)

    api.before_write = somebody_annotates
    controller.put(a_set(replicas=replicas(1)))
    await controller.look()
    assert api.endpoints(FOUR) == {"b1": ["10.0.0.1"]}
    assert api.writes == ["create", "update", "update"]


async def test_server_that_is_away_is_called_after_growing_waits_and_reported_once(controller, api):
    await api.stop()
    await controller.look()
    for wait_ms in RETRY_MS:
        failures = len(controller.observer.results)
        await controller.look(wait_ms - 1)
        assert len(controller.observer.results) == failures
        # A change in between makes no more calls.
        controller.put(a_set(replicas=replicas(1, 2), master_epoch=failures + 10))
        await controller.look(1)
        assert len(controller.observer.results) == failures + 1
    assert len(controller.observer.failing) == 1
    assert stale(controller)[0] == 1
    await api.start()
    await controller.look(RETRY_MS[-1])
    assert api.endpoints(FOUR) == {"b1": ["10.0.0.1"], "b2": ["10.0.0.2"]}
    assert controller.observer.recovered == [("broker-a", len(RETRY_MS) + 1)]
    assert stale(controller) == [0, 0, 0]


async def test_server_that_hangs_is_given_up(controller, api, monkeypatch):
    monkeypatch.setattr(api_server, "CALL_S", 0.3)
    api.hangs = True
    began = time.perf_counter()
    await controller.look()
    assert time.perf_counter() - began < 10
    api.hangs = False
    assert "did not answer within" in controller.observer.failing[0][1]


async def test_server_that_hangs_holds_up_a_round_for_a_limited_time_and_its_sets_are_tried_again(
    controller, api, monkeypatch
):
    monkeypatch.setattr(service, "ROUND_S", 0.3)
    api.hangs = True
    await controller.look()
    api.hangs = False
    assert controller.observer.failing == [("broker-a", "the API server left it no time within 0.3 s", RETRY_MS[0])]
    await controller.look(RETRY_MS[0])
    assert api.endpoints(FOUR) == ALL


@pytest.mark.parametrize(
    ("tokens", "verbs", "error"),
    [
        (set(), {"get", "create", "update"}, "get EndpointSlice rmq-set-a-ipv4 was answered 401: Unauthorized"),
        (None, {"get", "update"}, "create EndpointSlice rmq-set-a-ipv4 was answered 403: User"),
    ],
)
async def test_call_that_is_refused_is_reported_with_the_answer_and_without_the_token(
    controller, api, tokens, verbs, error
):
    api.tokens, api.verbs = api.tokens if tokens is None else tokens, verbs
    await controller.look()
    ((_, found, _),) = controller.observer.failing
    assert found.startswith(error)
    assert TOKEN not in found


async def test_renewed_token_is_used_for_the_next_call(controller, api):
    await controller.look()
    api.tokens = {"renewed"}
    (api.credentials / "token").write_text("renewed")
    await controller.look(AGAIN_MS)
    assert controller.observer.results == [SyncResult.WRITTEN, SyncResult.UNCHANGED]


@pytest.mark.parametrize(
    ("file", "text", "error"),
    [
        ("token", None, "cannot be used: .*No such file"),
        ("token", "two words", "no token of printable ASCII"),
        ("token", "", "no token of printable ASCII"),
        ("token", "x" * (TOKEN_BYTES_MAX + 1), "is longer than 65536 bytes"),
        ("ca.crt", "some text", "cannot be used"),
        ("ca.crt", "", "cannot be used"),
    ],
)
async def test_unusable_credentials_are_reported_and_read_again(controller, api, file, text, error):
    path = api.credentials / file
    before = path.read_text()
    path.unlink()
    if text is not None:
        path.write_text(text)
    await controller.look()
    ((_, found, _),) = controller.observer.failing
    assert re.search(error, found), found
    assert not text or text not in found
    path.write_text(before)
    await controller.look(RETRY_MS[0])
    assert api.endpoints(FOUR) == ALL


async def test_server_that_another_authority_vouches_for_gets_no_token(controller, api, tmp_path):
    other = tmp_path / "other"
    other.mkdir()
    (api.credentials / "ca.crt").write_text((KubeApi(other).credentials / "ca.crt").read_text())
    await controller.look()
    assert "certificate verify failed" in controller.observer.failing[0][1]
    assert api.requests == []


async def test_slice_of_somebody_else_is_reported_and_not_touched(controller, api):
    await controller.look()
    found = api.slices["ns", FOUR]
    found["metadata"]["labels"] = {"endpointslice.kubernetes.io/managed-by": "somebody"}
    api.change(FOUR, endpoints=[])
    await controller.look(AGAIN_MS)
    assert api.endpoints(FOUR) == {}
    assert "is written by somebody: remove it" in controller.observer.failing[0][1]


async def test_endpoint_that_stands_twice_in_one_slice_is_put_right(many, api):
    await many.look()
    twice = {"hostname": "b1", "addresses": ["10.0.0.1"]}
    api.change(FOUR, endpoints=[twice, twice | {"conditions": {"ready": True}}])
    await many.look(AGAIN_MS)
    assert api.endpoints(FOUR) == ALL
    assert many.observer.failing == []


async def test_answer_that_is_no_text_fails_its_set_alone(many, api):
    await many.look()
    api.answers[FOUR] = b'{"apiVersion":"\xff"}'
    many.put(a_set(replicas=replicas(1)), OTHERS[-1].name)
    await many.look()
    await many.look(AGAIN_MS)
    assert api.endpoints("rmq-set-29-ipv4") == {"b1": ["10.0.0.1"]}
    assert [name for name, *_ in many.observer.failing] == ["broker-a"]
    assert "is no EndpointSlice" in many.observer.failing[0][1]
    assert stale(many)[0] == 1


async def test_fault_with_one_set_is_reported_with_its_traceback_and_others_are_published(many, api, monkeypatch):
    def faulty(found, wanted):
        if wanted.metadata.name == FOUR:
            raise KeyError(FOUR)
        return next_slice(found, wanted)

    next_slice = service.next_slice
    monkeypatch.setattr(service, "next_slice", faulty)
    await many.look()
    await many.look()
    assert len(api.slices) == len(OTHERS)
    assert many.observer.failing == [("broker-a", f"a fault: KeyError('{FOUR}')", RETRY_MS[0])]
    assert [type(each) for each in many.observer.faults] == [KeyError]
    assert stale(many)[0] == 1


async def test_outage_that_fails_all_sets_is_one_line_and_so_is_each_other_reason(many, api):
    await api.stop()
    await many.look()
    await many.look(RETRY_MS[0])
    assert [name for name, *_ in many.observer.failing] == ["broker-a"]
    assert stale(many)[0] == len(OTHERS) + 1
    await api.start()
    api.tokens = set()
    await many.look(RETRY_MS[1])
    assert "was not reached" in many.observer.failing[0][1]
    assert "was answered 401" in many.observer.failing[1][1]
    # The names of the slices are in the reasons: there is a limit to the lines, and a later time.
    assert len(many.observer.failing) == LINES_MAX
    await many.look(LINES_PERIOD_MS)
    assert {name for name, *_ in many.observer.failing} == {SERVICE.name, *(each.name for each in OTHERS)}
    api.tokens = {TOKEN}
    await many.look(RETRY_MS[-1])
    assert len(many.observer.recovered) == len(OTHERS) + 1


async def test_outage_is_a_line_of_another_set_once_its_first_one_is_removed(many, api):
    await api.stop()
    await many.look()
    many.put(None)
    await many.look(RETRY_MS[0])
    assert [name for name, *_ in many.observer.failing] == ["broker-a", "broker-0"]


async def test_credentials_that_are_slow_to_read_leave_no_set_to_a_later_round(controller, api, monkeypatch):
    def slow(folder):
        controller.clock.pass_ms(BEGIN_MS + 1)
        return read(folder)

    read = api_server._credentials_in
    monkeypatch.setattr(api_server, "_credentials_in", slow)
    await controller.look()
    assert api.endpoints(FOUR) == ALL


async def test_set_that_changes_comes_before_those_that_are_compared_again_however_slow_the_server_is(many, api):
    await many.look()
    many.clock.pass_ms(AGAIN_MS)
    before = len(api.requests)

    def slow(name):
        many.clock.pass_ms(BEGIN_MS)

    api.before_read = slow
    many.put(a_set(replicas=replicas(1)), OTHERS[-1].name)
    await many.look()
    compared = {name.rpartition("-")[0] for _, name in api.requests[before:]}
    assert "rmq-set-29" in compared
    # A round begins with no other set after a time.
    assert len(compared) <= CONNECTIONS_MAX
    assert stale(many)[0] == 0


async def test_every_set_has_its_turn_however_slow_the_server_is(many, api):
    api.before_read = lambda _: many.clock.pass_ms(BEGIN_MS)
    for _ in range(len(OTHERS) + 1):
        await many.look()
    assert len(api.slices) == len(OTHERS) + 1
    assert many.observer.failing == []


async def test_write_of_a_deposed_leader_that_was_under_way_is_repaired_within_a_minute(controller, api, tmp_path):
    await controller.look()
    newer = Publishing(tmp_path / "newer", api)
    newer.put(a_set())
    controller.put(a_set(replicas=replicas(2, 3) | {1: Replica("10.0.0.99:30911", "c")}))
    api.write_waits.clear()
    write = asyncio.create_task(controller.look())
    async with asyncio.timeout(30):
        while api.writes[-1] != "update":
            await asyncio.sleep(0.01)
    controller.group.follows(OTHER)
    newer.lead()
    await newer.look()
    assert newer.observer.results == [SyncResult.UNCHANGED]
    api.write_waits.set()
    await write
    assert api.endpoints(FOUR)["b1"] == ["10.0.0.99"]
    await newer.look(AGAIN_MS)
    assert api.endpoints(FOUR) == ALL
    await newer.sets._backend.close()


def test_client_of_the_server_is_loaded_at_the_start_and_not_by_a_leader_at_its_first_round():
    lines = [
        "import pathlib, sys",
        "from controller.endpoint_slices.api_server import ApiServer",
        "before = 'aiohttp' in sys.modules",
        "ApiServer('10.96.0.1', 443, pathlib.Path('/none'))",
        "print(before, 'aiohttp' in sys.modules)",
    ]
    found = subprocess.run(
        [sys.executable, "-c", "\n".join(lines)], capture_output=True, text=True, timeout=60, check=True
    )
    assert found.stdout == "False True\n"
