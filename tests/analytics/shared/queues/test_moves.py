from hypothesis import given
from hypothesis import strategies as st

from analytics.shared.queues.moves import MOVES_MAX, RATIO_MAX, Placement, QueueMove, next_move, plan

NAMES = [f"broker-{letter}" for letter in "abcde"]


def a_placement(queues, weights=None):
    topics = {topic for held in queues.values() for topic in held}
    weights = weights or dict.fromkeys(topics, 1.0)
    loads = {name: float(sum(n * weights[topic] for topic, n in held.items())) for name, held in queues.items()}
    return Placement(loads, {name: dict(held) for name, held in queues.items()}, weights)


placements = st.dictionaries(
    st.sampled_from(NAMES),
    st.dictionaries(st.sampled_from(["t1", "t2", "t3"]), st.integers(1, 40), max_size=3),
    min_size=1,
)
weight_tables = st.fixed_dictionaries({topic: st.floats(0.1, 50) for topic in ("t1", "t2", "t3")})


def test_a_set_with_everything_gives_to_an_empty_one_until_it_has_a_fifth_more_than_the_mean():
    placement = a_placement({"a": {"orders": 20}, "b": {"orders": 0}})
    moves = plan(placement)
    assert set(moves) == {QueueMove("orders", "a", "b")}
    assert placement.queues == {"a": {"orders": 12}, "b": {"orders": 8}}


def test_a_balanced_cluster_is_left_alone():
    assert plan(a_placement({"a": {"orders": 8}, "b": {"orders": 8}, "c": {"orders": 8}})) == []


def test_a_topic_keeps_one_queue_where_it_is():
    held = {f"t{n}": 1 for n in range(20)}
    assert plan(a_placement({"a": held, "b": {}})) == []


def test_the_topic_that_halves_the_gap_moves_first():
    placement = a_placement({"a": {"hot": 3, "cold": 3}, "b": {}}, {"hot": 50.0, "cold": 1.0})
    assert next_move(placement) == QueueMove("hot", "a", "b")


def test_of_like_topics_the_one_that_lies_most_unevenly_moves_first():
    placement = a_placement({"a": {"even": 8, "odd": 8}, "b": {"even": 8}})
    assert next_move(placement) == QueueMove("odd", "a", "b")


def test_a_cluster_without_load_has_nothing_to_move():
    assert plan(a_placement({"a": {}, "b": {}})) == []


def test_one_plan_is_short_enough_to_be_read():
    placement = a_placement({"a": {"orders": 10_000}, "b": {}})
    assert len(plan(placement)) == MOVES_MAX


@given(placements, weight_tables)
def test_every_move_leaves_the_ratio_no_higher_and_the_cluster_more_even(queues, weights):
    placement = a_placement(queues, weights)
    total = sum(sum(held.values()) for held in queues.values())
    for _ in range(MOVES_MAX):
        move = next_move(placement)
        if move is None:
            break
        ratio, uneven = placement.ratio, sum(load * load for load in placement.loads.values())
        placement.apply(move)
        assert placement.ratio <= ratio + 1e-9
        assert sum(load * load for load in placement.loads.values()) < uneven
    assert sum(sum(held.values()) for held in placement.queues.values()) == total
    assert all(n >= 1 for name, held in placement.queues.items() for topic, n in held.items() if topic in queues[name])


@given(placements)
def test_a_plan_ends_with_the_goal_or_with_nothing_left_to_move(queues):
    placement = a_placement(queues)
    moves = plan(placement)
    assert placement.ratio <= RATIO_MAX or next_move(placement) is None or len(moves) == MOVES_MAX
