"""Where groups begin in new queues."""

from scaling_builders import ADDRESS, BROKER, a_group, a_grow, observed

from controller.scaling.resize.decision import StoreGroupOffset
from controller.scaling.resize.observation import GroupKind
from controller.scaling.resize.operation import QueueOffset, ResizePhase
from controller.scaling.rules.grow import seeds_of, unseeded

SEEDS = (QueueOffset(BROKER, 2, 0), QueueOffset(BROKER, 3, 7))


def an_offset(queue_id, before, offset, group="billing"):
    return StoreGroupOffset(
        broker_name=BROKER, address=ADDRESS, group=group, queue_id=queue_id, before=before, offset=offset
    )


def test_new_queues_begin_at_their_ends():
    grow = a_grow(ResizePhase.SEED)
    assert seeds_of(grow, observed(grow, 0, ends={3: 7})) == SEEDS


def test_each_group_without_an_offset_gets_the_one_of_the_seed():
    grow = a_grow(ResizePhase.SEED, seeds=SEEDS)
    observation = observed(grow, 0, ends={3: 7}, groups=[a_group()], offsets={"billing": {2: 0}})
    assert unseeded(grow, observation) == (an_offset(3, None, 7),)


def test_offset_of_an_emptied_queue_goes_back_to_its_end():
    grow = a_grow(ResizePhase.SEED, seeds=SEEDS)
    observation = observed(grow, 0, ends={3: 7}, groups=[a_group()], offsets={"billing": {2: 900, 3: 7}})
    assert unseeded(grow, observation) == (an_offset(2, 900, 0),)


def test_offline_groups_are_seeded_and_broadcasting_groups_are_not():
    grow = a_grow(ResizePhase.SEED, seeds=SEEDS[:1])
    groups = [a_group("offline", GroupKind.OFFLINE), a_group("everyone", GroupKind.BROADCAST)]
    assert unseeded(grow, observed(grow, 0, groups=groups)) == (an_offset(2, None, 0, "offline"),)
