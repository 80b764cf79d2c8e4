"""How groups consume, kept for the time in which they are offline: what is stored, and what a plan makes of it."""

import asyncio

import pytest
from controller_builders import a_set
from fakes.scaled_topic import GROUP, TOPIC, ScaledBroker, scaling_site
from fakes.scaling_controller import OTHER, ScalingController
from scaling_builders import a_group

from controller.scaling.execution.service import ResizeRefused
from controller.scaling.resize.observation import ClientView, GroupKind, GroupView
from controller.sets.stored_set import StoredSet
from serving.shapes.scaling import ResizeRequest
from store.documents import DocumentKind
from store.store import VersionedEntry

OFFLINE = a_group(kind=GroupKind.OFFLINE)
REQUEST = ResizeRequest(topic=TOPIC, queues=8)


@pytest.fixture
async def site():
    async with scaling_site(ScaledBroker()) as site:
        yield site


@pytest.fixture
async def controller(site, tmp_path):
    async with ScalingController(tmp_path, lambda: site.addresses) as controller:
        yield controller


@pytest.fixture
def kinds(controller):
    return controller.scaling.group_kinds


def stored(controller):
    return controller.scaling.documents.get(DocumentKind.GROUP_KINDS, TOPIC)


async def last_kind(kinds):
    (view,) = await kinds.with_last(TOPIC, [OFFLINE])
    return view.last_kind


def silent(kind):
    return GroupView(name="billing", kind=kind, clients=(ClientView(client_id="c1", queues=None),))


@pytest.mark.parametrize(
    ("seen", "kind"),
    [
        (a_group(kind=GroupKind.ORDERLY), GroupKind.ORDERLY),
        (a_group(), GroupKind.CONCURRENT),
        (silent(GroupKind.POP), GroupKind.POP),
        (silent(GroupKind.CONCURRENT), None),
        (a_group(kind=GroupKind.UNKNOWN), None),
        (OFFLINE, None),
    ],
)
async def test_kind_that_was_reported_outlives_the_members(kinds, seen, kind):
    (view,) = await kinds.with_last(TOPIC, [seen])
    assert view == seen
    assert await last_kind(kinds) is kind


async def test_members_that_do_not_answer_change_nothing(kinds):
    await kinds.with_last(TOPIC, [a_group(kind=GroupKind.ORDERLY)])
    await kinds.with_last(TOPIC, [silent(GroupKind.UNKNOWN)])
    assert await last_kind(kinds) is GroupKind.ORDERLY


async def test_document_is_written_when_a_kind_is_new_and_loses_groups_that_have_left(kinds, controller):
    await kinds.with_last(TOPIC, [a_group(), a_group("gone")])
    before = controller.scaling.documents.changes
    await kinds.with_last(TOPIC, [a_group()])
    assert (stored(controller), controller.scaling.documents.changes) == (
        b'{"billing":"concurrent","gone":"concurrent"}',
        before,
    )
    await kinds.with_last(TOPIC, [a_group(kind=GroupKind.ORDERLY)])
    assert stored(controller) == b'{"billing":"orderly","gone":"concurrent"}'
    await kinds.with_last(TOPIC, [a_group()], is_whole=True)
    assert stored(controller) == b'{"billing":"concurrent"}'


@pytest.mark.parametrize(
    ("text", "after"),
    [
        (b'{"billing":"quantum","ledger":"quantum"}', b'{"billing":"concurrent","ledger":"quantum"}'),
        (b'["quantum"]', b'{"billing":"concurrent"}'),
    ],
)
async def test_kinds_of_a_later_release_are_kept_and_what_cannot_be_read_is_written_anew(
    kinds, controller, text, after
):
    await controller.scaling.documents.change(DocumentKind.GROUP_KINDS, TOPIC, lambda _: text)
    assert await last_kind(kinds) is None
    await kinds.with_last(TOPIC, [a_group()])
    assert (await last_kind(kinds), stored(controller)) == (GroupKind.CONCURRENT, after)


async def test_topic_of_an_orderly_group_that_is_stopped_for_a_deployment_is_not_resized_by_the_next_leader(
    site, controller
):
    (broker,) = site.brokers
    broker.ends, broker.offsets[GROUP] = {0: (0, 9)}, {0: 4}
    broker.join(GROUP, "c1")
    broker.run("c1", {0: (4, 0)}, is_orderly=True)
    await controller.scaling.plan(REQUEST)
    broker.connections.clear()
    controller.group.follows(OTHER)
    controller.lead()
    await controller.until(lambda: controller.scaling.is_ready)
    with pytest.raises(ResizeRefused, match=f"groups that consume in order: {GROUP} .offline"):
        await controller.scaling.start(REQUEST)


async def test_plan_forgets_groups_that_have_left_unless_a_broker_set_is_away(site, controller):
    (broker,) = site.brokers
    await controller.scaling.group_kinds.with_last(TOPIC, [a_group("elsewhere")])
    broker.join(GROUP, "c1")
    broker.run("c1", {0: (4, 0)})
    away = StoredSet(broker_set=a_set(broker_name="broker-z", master=None))
    controller.scaling.sets.entry_changed("broker-z", VersionedEntry(away, 1))
    await controller.scaling.plan(REQUEST)
    assert b"elsewhere" in stored(controller)
    controller.scaling.sets.entry_changed("broker-z", VersionedEntry(StoredSet(), 2))
    broker.run("c1", {0: (4, 0)}, is_orderly=True)
    await controller.scaling.plan(REQUEST)
    assert b"elsewhere" not in stored(controller)


async def test_round_does_not_wait_for_the_write_of_another_one(kinds, controller):
    async with kinds._write, asyncio.timeout(1):
        await kinds.with_last(TOPIC, [a_group()])
    assert stored(controller) is None
    await kinds.with_last(TOPIC, [a_group()])
    assert stored(controller) == b'{"billing":"concurrent"}'
