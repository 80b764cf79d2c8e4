"""Operations run while a controller leads: what is decided is stored first, and commands of operators win."""

import asyncio
import contextlib
from inspect import isawaitable

import pytest
from fakes.scaled_topic import GROUP, TOPIC, ScaledBroker, ScaledNameServer, ScalingSite, scaling_site
from fakes.scaling_controller import OTHER, ScalingController
from msgspec.structs import replace
from resize_builders import a_resize

from controller.scaling.execution import requests, runner
from controller.scaling.execution.service import WRITE_MS
from controller.scaling.resize.operation import MasterIdentity, QueueCounts, SetResize
from controller.scaling.rules import phases
from controller.scaling.rules.commands import ResizeCommandRefused
from remoting.protocol.codes import BrokerRequestCode, RequestCode, ResponseCode
from serving.shapes.scaling import ResizeKind, ResizePhase, ResizeRequest, ResizeWaits
from store.documents import DocumentKind

WAITS = ResizeWaits(
    producers_ms=0, stable_ms=0, confirm_ms=0, watch_ms=0, grown_watch_ms=0, assign_ms=0, pop_ms=0, process_ms=0
)
RUNTIME = BrokerRequestCode.GET_BROKER_RUNTIME_INFO


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """Let rounds follow each other soon."""
    monkeypatch.setattr(requests, "PAUSE_S", 0.05)
    monkeypatch.setattr(runner, "FAILED_ROUND_S", 0.05)
    monkeypatch.setattr(phases, "QUICK_ROUND_MS", 50)
    monkeypatch.setattr(phases, "ROUND_MS_MIN", 50)


@pytest.fixture
async def broker():
    return ScaledBroker()


@pytest.fixture
async def site(broker):
    async with scaling_site(broker) as site:
        yield site


@pytest.fixture
async def controller(site, tmp_path):
    async with ScalingController(tmp_path, lambda: site.addresses) as controller:
        yield controller


def request(queues=8, topic=TOPIC, **values):
    return ResizeRequest(topic=topic, queues=queues, waits=WAITS, **values)


def stored(broker, phase, **values):
    """Return a grow from 4 to 8 queues as another leader has left it."""
    sets = (SetResize(broker_name=broker.name, cluster="DefaultCluster", before=QueueCounts(4, 4), target=8),)
    masters = {broker.name: MasterIdentity(broker.address, broker.boot_ms)}
    return a_resize(kind=ResizeKind.GROW, sets=sets, phase=phase, masters=masters, waits=WAITS, **values)


def counts(broker):
    return broker.topic["readQueueNums"], broker.topic["writeQueueNums"]


def steps(operation):
    return [each.phase.value for each in operation.steps]


async def test_grow_stores_offsets_then_raises_read_then_write(broker, controller):
    broker.offsets[GROUP] = {0: 5}
    started = await controller.scaling.start(request())
    ended = await controller.ended(started, ResizePhase.DONE)
    kinds = [kind for kind, _ in broker.written]
    assert kinds == ["offset"] * 4 + ["topic"] * 2
    assert [each["readQueueNums"] + "/" + each["writeQueueNums"] for _, each in broker.written[4:]] == ["8/4", "8/8"]
    assert steps(ended) == ["PLANNED", "PRECHECK", "SEED", "READ_UP", "ASSIGN", "WRITE_UP", "VERIFY"]
    assert controller.scaling.operations.under_way() == []
    assert controller.scaling.runner.statuses == {}
    assert controller.listener.faults == []


async def test_group_that_a_broker_refuses_offsets_of_holds_up_no_grow(broker, controller):
    broker.offsets = {"gone": {0: 1}}
    started = await controller.scaling.start(request())
    ended = await controller.ended(started, ResizePhase.DONE)
    seed = next(each for each in ended.steps if each.phase is ResizePhase.SEED)
    assert "group gone has no configuration on broker-a: nothing is stored for it there" in seed.evidence
    assert [kind for kind, _ in broker.written] == ["topic"] * 2


# What is decided is stored first


async def test_nothing_is_done_that_could_not_be_stored(broker, controller):
    started = await controller.scaling.start(request())
    controller.backend.fails = True
    await controller.until(lambda: len(controller.listener.faults) > 2)
    assert (broker.written, counts(broker)) == ([], (4, 4))
    controller.backend.fails = False
    await controller.ended(started, ResizePhase.DONE)
    assert counts(broker) == (8, 8)


async def test_operation_that_could_not_be_stored_as_ended_is_tried_again(broker, controller):
    broker.topic["readQueueNums"] = broker.topic["writeQueueNums"] = 8
    held = broker.held[RUNTIME] = asyncio.Event()
    operation = stored(broker, ResizePhase.VERIFY)
    await controller.scaling.operations.add(operation)
    await controller.until(lambda: RUNTIME in broker.seen)
    controller.backend.fails = True
    held.set()
    await controller.until(lambda: controller.listener.faults)
    controller.backend.fails = False
    await controller.ended(operation, ResizePhase.DONE)


# Commands of operators


async def test_abort_wins_over_a_round_that_is_about_to_change_a_broker(broker, controller):
    held = broker.held[RUNTIME] = asyncio.Event()
    operation = stored(broker, ResizePhase.READ_UP, reached=1)
    await controller.scaling.operations.add(operation)
    await controller.until(lambda: RUNTIME in broker.seen)
    await controller.scaling.abort(operation.id, "a mistake")
    held.set()
    ended = await controller.ended(operation, ResizePhase.ABORTED)
    # The round had decided to raise the read queues.
    assert broker.written == []
    assert "aborted by the operator: a mistake" in ended.steps[0].evidence


async def blocked_in_drain(broker, controller):
    """Return a shrink that waits for a group without members."""
    broker.topic["writeQueueNums"] = 2
    broker.ends = {2: (0, 9), 3: (0, 9)}
    broker.offsets[GROUP] = {2: 4, 3: 9}
    sets = (SetResize(broker_name="broker-a", cluster="DefaultCluster", before=QueueCounts(4, 4), target=2),)
    masters = {"broker-a": MasterIdentity(broker.address, broker.boot_ms)}
    operation = a_resize(sets=sets, phase=ResizePhase.DRAIN, reached=1, waits=WAITS, masters=masters)
    await controller.scaling.operations.add(operation)
    await controller.until(lambda: controller.scaling.find(operation.id).phase is ResizePhase.BLOCKED)
    return operation


async def test_waived_group_counts_in_the_next_round(broker, controller):
    operation = await blocked_in_drain(broker, controller)
    await controller.scaling.waive(operation.id, GROUP)
    ended = await controller.ended(operation, ResizePhase.DONE)
    assert ended.options.waived_groups == (GROUP,)
    assert counts(broker) == (2, 2)


async def test_group_that_a_resize_waits_for_is_waived_while_a_name_server_is_silent(site, broker, controller):
    operation = await blocked_in_drain(broker, controller)
    site.name_servers[1].instead[RequestCode.GET_ROUTEINFO_BY_TOPIC] = ResponseCode.SYSTEM_ERROR
    with pytest.raises(ResizeCommandRefused, match="is not known, try again"):
        await controller.scaling.waive(operation.id, "other")
    waived = await controller.scaling.waive(operation.id, GROUP)
    assert waived.options.waived_groups == (GROUP,)


async def test_conflict_goes_on_once_an_operator_resumes_it(broker, controller):
    broker.topic["readQueueNums"] = 6
    operation = stored(broker, ResizePhase.READ_UP, reached=1)
    await controller.scaling.operations.add(operation)
    await controller.until(lambda: controller.scaling.find(operation.id).phase is ResizePhase.CONFLICT)
    assert (broker.written, counts(broker)) == ([], (6, 4))
    broker.topic["readQueueNums"] = 4
    await controller.scaling.resume(operation.id, "put right")
    ended = await controller.ended(operation, ResizePhase.DONE)
    assert "resumed by the operator: put right" in [line for each in ended.steps for line in each.evidence]


# Topics and broker sets that go


@pytest.mark.parametrize("phase", [ResizePhase.READ_UP, ResizePhase.ROLLBACK, ResizePhase.CONFLICT])
async def test_deleted_topic_ends_its_resize(broker, controller, phase):
    broker.topic = None
    operation, documents = stored(broker, phase, reached=1), controller.scaling.documents
    await documents.change(DocumentKind.GROUP_KINDS, TOPIC, lambda _: b"{}")
    await controller.scaling.operations.add(operation)
    ended = await controller.ended(operation, ResizePhase.ABORTED)
    assert (ended.problem, broker.written) == ("the topic was deleted", [])
    assert documents.names(DocumentKind.GROUP_KINDS) == []


@pytest.mark.parametrize("is_registered", [True, False], ids=["replaced-by-an-empty-one", "decommissioned"])
async def test_resize_goes_on_once_an_operator_has_given_up_the_set_that_is_gone(tmp_path, is_registered):
    stays, goes = ScaledBroker("broker-a"), ScaledBroker("broker-b")
    async with (
        ScalingSite([stays, goes], [ScaledNameServer(stays, goes)]) as site,
        ScalingController(tmp_path, lambda: site.addresses) as controller,
    ):
        both = [stored(each, ResizePhase.READ_UP, reached=1) for each in (stays, goes)]
        resize = replace(both[0], sets=both[0].sets + both[1].sets, masters=both[0].masters | both[1].masters)
        stays.held[BrokerRequestCode.UPDATE_AND_CREATE_TOPIC] = asyncio.Event()
        await controller.scaling.operations.add(resize)
        with pytest.raises(ResizeCommandRefused, match=f"broker-b has {TOPIC} at {goes.address}: wait for it, or"):
            await controller.scaling.give_up(resize.id, "broker-b", "ann")
        stays.held[BrokerRequestCode.UPDATE_AND_CREATE_TOPIC].set()
        goes.topic = None
        if not is_registered:
            site.name_servers[0].brokers = (stays,)
        await controller.until(lambda: "broker-b" in str(controller.scaling.runner.statuses.get(resize.id)))
        await controller.scaling.give_up(resize.id, "broker-b", "ann: sold")
        ended = await controller.ended(resize, ResizePhase.DONE)
        assert "broker-b was given up by ann: sold" in [line for each in ended.steps for line in each.evidence]
        assert (counts(stays), [each.broker_name for each in ended.sets]) == ((8, 8), ["broker-a"])


async def test_set_is_not_given_up_while_no_name_server_tells_its_brokers(tmp_path, broker, site, controller):
    resize = stored(broker, ResizePhase.CONFLICT, problem="somebody")
    (first,) = resize.sets
    resize = replace(resize, sets=(first, replace(first, broker_name="broker-b")))
    await controller.scaling.operations.add(resize)
    for each in site.name_servers:
        each.instead[RequestCode.GET_BROKER_CLUSTER_INFO] = ResponseCode.SYSTEM_ERROR
    with pytest.raises(ResizeCommandRefused, match="no NameServer answers which brokers belong to broker-b"):
        await controller.scaling.give_up(resize.id, "broker-b", "ann")


# The lead


@contextlib.asynccontextmanager
async def before_the_change(broker, controller):
    """Stop at the comparison that precedes a change, with nothing that looks whether this controller leads."""
    compares, go_on = asyncio.Event(), asyncio.Event()
    answers, looks = broker.peer.answer, 0

    async def held(code, fields):
        nonlocal looks
        looks += code == BrokerRequestCode.GET_TOPIC_CONFIG
        if looks == 2 and not go_on.is_set():
            compares.set()
            await go_on.wait()
        answer = answers(code, fields)
        return await answer if isawaitable(answer) else answer

    broker.peer.answer = held
    await controller.scaling.operations.add(stored(broker, ResizePhase.READ_UP, reached=1))
    async with asyncio.timeout(30):
        await compares.wait()
    controller._looks.cancel()
    yield
    go_on.set()
    await controller.until(lambda: controller.listener.failed or controller.listener.done)


async def test_change_that_was_decided_in_an_earlier_term_is_not_made(broker, controller):
    async with before_the_change(broker, controller):
        # Meanwhile another controller may have led, and gone on with the resize.
        controller.group.follows(OTHER)
        controller.lead()
    assert (broker.written, counts(broker)) == ([], (4, 4))
    assert "another controller may lead" in controller.listener.failed[0]


async def test_change_is_not_made_if_the_lease_could_end_before_it_arrives(broker, controller):
    async with before_the_change(broker, controller):
        controller.group.leads(controller.clock.now_ms() + WRITE_MS - 1)
    assert (broker.written, counts(broker)) == ([], (4, 4))
    assert "another controller may lead" in controller.listener.failed[0]


async def test_operations_stop_when_another_leads_and_go_on_with_the_stored_phase(broker, controller):
    held = broker.held[BrokerRequestCode.UPDATE_AND_CREATE_TOPIC] = asyncio.Event()
    started = await controller.scaling.start(request())
    await controller.until(lambda: BrokerRequestCode.UPDATE_AND_CREATE_TOPIC in broker.seen)
    controller.group.follows(OTHER)
    await controller.until(lambda: not controller.tasks)
    assert (controller.scaling.is_ready, controller.scaling.runner.statuses) == (False, {})
    assert controller.scaling.operations.of_topic(TOPIC).phase is ResizePhase.READ_UP
    seen = len(broker.seen)
    await asyncio.sleep(0.3)
    assert len(broker.seen) == seen
    held.set()
    controller.lead()
    ended = await controller.ended(started, ResizePhase.DONE)
    assert steps(ended).count("READ_UP") == 1


async def test_operation_runs_once_although_the_lead_flickers(broker, controller):
    operation = stored(broker, ResizePhase.CONFLICT, problem="somebody")
    await controller.scaling.operations.add(operation)
    for _ in range(5):
        await controller.until(lambda: operation.id in controller.scaling.runner.statuses)
        controller.group.follows(OTHER)
        controller.lead()
    await controller.until(lambda: controller.scaling.is_ready and operation.id in controller.scaling.runner.statuses)
    assert len(controller.tasks) == 1
    await controller.scaling.abort(operation.id, "")
    await controller.ended(operation, ResizePhase.ABORTED)


# Limits and faults


def two_topics():
    first, second = ScaledBroker("broker-a"), ScaledBroker("broker-b")
    second.topic["topicName"] = "Other"
    return first, second


async def test_operations_above_the_limit_wait_the_oldest_first(tmp_path):
    first, second = two_topics()
    held = first.held[BrokerRequestCode.UPDATE_AND_CREATE_TOPIC] = asyncio.Event()
    async with (
        ScalingSite([first, second], [ScaledNameServer(first, second)]) as site,
        ScalingController(tmp_path, lambda: site.addresses, running_max=1) as controller,
    ):
        one = await controller.scaling.start(request())
        await controller.until(lambda: BrokerRequestCode.UPDATE_AND_CREATE_TOPIC in first.seen)
        two = await controller.scaling.start(request(topic="Other"))
        status = await controller.until(lambda: controller.scaling.runner.statuses.get(two.id))
        assert status.waits_for[0].startswith("1 other resizes run or wait for their turn, which is the limit")
        assert controller.scaling.find(two.id).phase is ResizePhase.PLANNED
        held.set()
        await controller.ended(one, ResizePhase.DONE)
        await controller.ended(two, ResizePhase.DONE)


async def test_operation_that_waits_for_an_operator_takes_no_turn_from_others(tmp_path):
    first, second = two_topics()
    async with (
        ScalingSite([first, second], [ScaledNameServer(first, second)]) as site,
        ScalingController(tmp_path, lambda: site.addresses, running_max=1) as controller,
    ):
        conflict = stored(first, ResizePhase.CONFLICT, problem="somebody")
        await controller.scaling.operations.add(conflict)
        await controller.until(lambda: conflict.id in controller.scaling.runner.statuses)
        two = await controller.scaling.start(request(topic="Other"))
        await controller.ended(two, ResizePhase.DONE)


async def test_broker_that_hangs_holds_up_only_its_own_topics(tmp_path):
    first, second = two_topics()
    async with (
        ScalingSite([first, second], [ScaledNameServer(first, second)]) as site,
        ScalingController(tmp_path, lambda: site.addresses) as controller,
    ):
        one = stored(first, ResizePhase.READ_UP, reached=1)
        first.instead = dict.fromkeys(BrokerRequestCode)
        await controller.scaling.operations.add(one)
        await controller.until(lambda: first.seen)
        two = await controller.scaling.start(request(topic="Other"))
        await controller.ended(two, ResizePhase.DONE)
        assert controller.scaling.find(one.id).phase is ResizePhase.READ_UP


async def test_round_that_fails_by_a_fault_of_ours_is_reported_and_tried_again(broker, controller):
    operation = stored(broker, ResizePhase.READ_UP, reached=1)
    controller.listener.fault = fault = ZeroDivisionError()
    await controller.scaling.operations.add(operation)
    await controller.ended(operation, ResizePhase.DONE)
    assert controller.listener.faults == [(TOPIC, fault)]


# The check before the start


async def test_check_that_lacks_answers_waits_and_can_be_aborted(broker, controller):
    broker.instead[BrokerRequestCode.GET_MAX_OFFSET] = 2
    # It began years ago by the wall clock of the leader that stored it.
    operation = stored(broker, ResizePhase.PRECHECK)
    await controller.scaling.operations.add(operation)
    status = await controller.until(lambda: controller.scaling.runner.statuses.get(operation.id))
    assert any(each.startswith(f"queue 0 at {broker.address}") for each in status.waits_for)
    await controller.scaling.abort(operation.id, "")
    await controller.ended(operation, ResizePhase.ABORTED)


async def test_check_that_has_lacked_answers_for_a_minute_under_several_leaders_is_rejected(broker, controller):
    broker.instead[BrokerRequestCode.GET_MAX_OFFSET] = 2
    operation = stored(broker, ResizePhase.PRECHECK, lasted_ms=runner.PRECHECK_MS)
    await controller.scaling.operations.add(operation)
    await controller.ended(operation, ResizePhase.REJECTED)
