"""Whether a resize can be done, and what it would do."""

from dataclasses import replace

import pytest
from scaling_builders import ADDRESS, BROKER, MASTER, NAME_SERVER, a_group, a_shrink, observed, with_set

from controller.scaling.resize.observation import GroupKind, LateSources, NameServerView, TopicTraits
from controller.scaling.resize.operation import AUTOSCALER, MasterIdentity, QueueCounts
from controller.scaling.rules.grow import HEARTBEAT_MS
from controller.scaling.rules.plan import QUEUES_MAX, SET_QUEUES_MAX, checked, plan_resize, planned_operation
from serving.shapes.scaling import ResizeKind, ResizeOptions, ResizePhase, ResizeRequest, ResizeWaits

FOUR = QueueCounts(4, 4)
SHRINK = a_shrink(ResizePhase.PRECHECK)


def traits(**values):
    return TopicTraits(**({"counts": {BROKER: FOUR}} | values))


def plan_of(queues, *, groups=(), request=None, offsets=None, ends=None, **values):
    observation = observed(SHRINK, 0, ends=ends or {3: 5}, groups=groups, offsets=offsets)
    return plan_resize(
        ResizeRequest(topic="TopicTest", queues=queues, **(request or {})), traits(**values), observation
    )


@pytest.mark.parametrize(
    ("queues", "request_values", "kind"),
    [
        (6, {}, ResizeKind.GROW),
        (2, {}, ResizeKind.SHRINK),
        (2, {"ordered": "pause"}, ResizeKind.ORDERED),
        (8, {"ordered": "gate"}, ResizeKind.GATED),
    ],
)
def test_kind_of_resize_follows_from_the_numbers_and_the_order(queues, request_values, kind):
    plan = plan_of(queues, request=request_values)
    assert (plan.kind, plan.problems) == (kind, ())
    assert plan.at_least_ms > 0


@pytest.mark.parametrize(
    ("queues", "values", "text"),
    [
        (0, {}, "0 queues are too few"),
        (4, {}, "TopicTest has 4 queues on every broker set already"),
        (6, {"is_static": True}, "is a static topic"),
        (6, {"is_ordered": True}, "is an ordered topic"),
        (6, {"order_conf": "broker-a:4"}, "orderTopicConf says broker-a:4"),
        (6, {"counts": {BROKER: QueueCounts(4, 4, 4)}}, "must be readable and writable"),
        (6, {"counts": {BROKER: QueueCounts(5, 4)}}, "brokers have different numbers of queues"),
        (6, {"absent_sets": ("broker-z",)}, "broker-z belongs to the cluster, but no NameServer knows it"),
    ],
)
def test_what_is_in_the_way_is_named(queues, values, text):
    assert any(text in each for each in plan_of(queues, **values).problems)


def test_topic_whose_number_of_queues_has_a_meaning_is_resized_only_if_the_operator_says_so():
    (problem,) = plan_of(6, special_type="PRIORITY").problems
    assert problem.startswith("TopicTest has message.type PRIORITY: each queue is a priority")
    wanted = {"options": ResizeOptions(ignore_message_type=True)}
    assert plan_of(6, special_type="PRIORITY", request=wanted).problems == ()


def test_topic_with_too_many_queues_to_look_at_is_refused_for_that_alone():
    many = QueueCounts(SET_QUEUES_MAX + 1, SET_QUEUES_MAX + 1)
    observation = replace(with_set(observed(SHRINK, 0), counts=many, ends={}), groups=None)
    request = ResizeRequest(topic="TopicTest", queues=QUEUES_MAX)
    plan = plan_resize(request, traits(counts={BROKER: many}, too_many_queues={BROKER: many.read}), observation)
    (problem,) = plan.problems
    assert problem.startswith(
        "broker-a has 4097 queues of TopicTest, and no topic with more than 4096 on a broker set is"
    )


def test_orderly_group_makes_a_topic_an_ordered_one():
    plan = plan_of(6, groups=[a_group(kind=GroupKind.ORDERLY)])
    assert "groups that consume in order: billing" in plan.problems[0]


@pytest.mark.parametrize(
    ("queues", "request_values", "shown", "is_refused"),
    [
        (6, {}, (), True),
        (6, {}, (0,), False),
        (6, {"ordered": "pause"}, (0,), True),
        (6, {"options": ResizeOptions(ignore_unassigned=True)}, (), False),
        (2, {}, (), False),
    ],
)
def test_grow_is_refused_if_nothing_shows_when_a_group_chooses_new_queues(queues, request_values, shown, is_refused):
    groups = [a_group(kind=GroupKind.ASSIGNED, queues=shown)]
    plan = plan_of(queues, groups=groups, offsets={"billing": {3: 5}}, request=request_values)
    problem = "group billing chooses its queues itself, and does not show when it reads new ones"
    assert any(problem in each for each in plan.problems) == is_refused == bool(plan.problems)
    assert any("and must choose the new ones" in each for each in plan.warnings) == (queues == 6)
    assert plan.groups[0].kind == "assigned"


@pytest.mark.parametrize("request_values", [{}, {"ordered": "pause"}])
def test_grow_is_refused_while_a_group_that_chose_its_queues_is_offline(request_values):
    offline = replace(a_group(kind=GroupKind.OFFLINE), last_kind=GroupKind.ASSIGNED)
    plan = plan_of(6, groups=[offline], offsets={"billing": {3: 5}}, request=request_values)
    assert any("mqadmin deleteSubGroup" in each for each in plan.problems)
    assert any("and must choose the new ones" in each for each in plan.warnings)


@pytest.mark.parametrize("queues", [2, 6])
def test_offline_group_that_consumed_in_order_makes_a_topic_an_ordered_one(queues):
    offline = replace(a_group(kind=GroupKind.OFFLINE), last_kind=GroupKind.ORDERLY)
    plan = plan_of(queues, groups=[offline], offsets={"billing": {3: 5}})
    assert plan.problems[0].startswith("TopicTest is an ordered topic (groups that consume in order: billing (offline;")


@pytest.mark.parametrize(
    ("queues", "stored", "last_kind", "doubted"),
    [
        (6, {3: 1}, None, True),
        (6, {3: 1}, GroupKind.CONCURRENT, False),
        (6, {1: 3, 3: 5}, None, False),
        (6, {}, None, False),
        (2, {1: 0, 3: 5}, None, True),
        (2, {1: 3, 3: 5}, None, False),
    ],
)
def test_autoscaler_resizes_nothing_for_an_offline_group_that_may_be_in_order_and_operators_are_warned(
    queues, stored, last_kind, doubted
):
    offline = replace(a_group(kind=GroupKind.OFFLINE), last_kind=last_kind)
    values = {"groups": [offline], "offsets": {"billing": stored} if stored else {}, "ends": {1: 3, 3: 5}}
    doubt = "group billing is offline with messages in queues that stay, and this controller has not seen how it"
    plans = (plan_of(queues, **values), plan_of(queues, request={"requested_by": AUTOSCALER}, **values))
    by_operator, by_autoscaler = plans
    assert any(each.startswith(doubt) for each in by_operator.warnings) is doubted
    assert any(each.startswith(doubt) for each in by_autoscaler.problems) is doubted
    assert not any(doubt in each for each in by_operator.problems)


def test_offline_group_with_lag_has_to_be_waived():
    offline = [a_group(kind=GroupKind.OFFLINE)]
    lagging = {"billing": {3: 1}}
    assert "is offline and has 4 messages to consume" in plan_of(2, groups=offline, offsets=lagging).problems[0]
    waived = {"options": ResizeOptions(waived_groups=("billing",))}
    assert plan_of(2, groups=offline, offsets=lagging, request=waived).problems == ()
    assert plan_of(6, groups=offline, offsets=lagging).problems == ()


def test_waived_group_that_the_topic_does_not_have_is_a_warning():
    request = {"options": ResizeOptions(waived_groups=("billing", "biling"))}
    warnings = plan_of(2, groups=[a_group()], offsets={"billing": {3: 5}}, request=request).warnings
    assert "biling is waived, but is not a group of TopicTest now" in warnings
    assert not any("billing," in each for each in warnings)


def test_checked_plan_starts_with_the_masters_that_it_saw():
    request = ResizeRequest(topic="TopicTest", queues=2)
    observation = observed(SHRINK, 0)
    planned = planned_operation("resize-1", request, traits(), observation)
    started = checked(planned, plan_resize(request, traits(), observation), observation)
    assert (started.phase, started.reached, started.masters) == (ResizePhase.WRITE_DOWN, 1, {BROKER: MASTER})


@pytest.mark.parametrize(("age_ms", "is_new"), [(HEARTBEAT_MS - 1, True), (HEARTBEAT_MS, False)])
def test_master_that_was_started_just_before_the_request_is_new(age_ms, is_new):
    request = ResizeRequest(topic="TopicTest", queues=8)
    observation = observed(SHRINK, 0)
    planned = planned_operation("resize-1", request, traits(), observation)
    seen = with_set(observation, master=MasterIdentity(ADDRESS, planned.created_unix_ms - age_ms))
    assert checked(planned, plan_resize(request, traits(), seen), seen).has_new_master is is_new


def test_plan_with_problems_is_rejected_with_them():
    request = ResizeRequest(topic="TopicTest", queues=2)
    observation = observed(SHRINK, 0)
    planned = planned_operation("resize-1", request, traits(), observation)
    plan = plan_resize(request, traits(is_static=True), observation)
    rejected = checked(planned, plan, observation)
    assert rejected.phase is ResizePhase.REJECTED
    assert rejected.problem == plan.problems[0]


def test_resize_whose_topic_has_changed_since_is_rejected():
    request = ResizeRequest(topic="TopicTest", queues=2)
    observation = observed(SHRINK, 0)
    planned = planned_operation("resize-1", request, traits(), observation)
    changed = plan_resize(request, traits(counts={BROKER: QueueCounts(5, 5)}), observation)
    assert "has other broker sets or queues" in checked(planned, changed, observation).problem


@pytest.mark.parametrize(
    ("request_values", "is_refused"),
    [
        ({}, True),
        ({"waits": ResizeWaits(pause_ms=1_200_000)}, False),
        ({"options": ResizeOptions(accept_late=True)}, False),
    ],
)
def test_pause_that_would_end_before_transactions_in_rocksdb_are_decided_is_refused(request_values, is_refused):
    request = ResizeRequest(topic="TopicTest", queues=6, ordered="pause", **request_values)
    late = LateSources(levels={}, timed=0, half_messages=0, rocksdb_half_messages=8)
    problems = plan_resize(request, traits(), with_set(observed(SHRINK, 0), late=late)).problems
    assert any("broker-a keeps transactional messages in RocksDB" in each for each in problems) == is_refused
    assert is_refused == bool(problems)


# orderTopicConf of all NameServers

PAUSED = ResizeRequest(topic="TopicTest", queues=6, ordered="pause")


def with_confs(*confs):
    views = [NameServerView(address=f"ns-{i}", counts={BROKER: FOUR}, order_conf=each) for i, each in enumerate(confs)]
    return replace(observed(SHRINK, 0), name_servers=tuple(views))


def checked_with(*confs):
    """Check a resize of a topic that had `broker-a:4` when it was requested."""
    planned = planned_operation("resize-1", PAUSED, traits(order_conf="broker-a:4"), observed(SHRINK, 0))
    observation = with_confs(*confs)
    return checked(planned, plan_resize(PAUSED, traits(order_conf="broker-a:4"), observation), observation)


def test_name_servers_with_different_order_confs_are_named_before_a_resize():
    plan = plan_resize(PAUSED, traits(order_conf="broker-a:4"), with_confs("broker-a:4", None, "broker-a:5"))
    (problem,) = plan.problems
    assert problem.startswith(
        "NameServers have different orderTopicConf of TopicTest: ns-0 has broker-a:4, ns-1 has none, ns-2 has "
        "broker-a:5. "
    )


def test_resize_starts_with_the_order_conf_that_it_was_requested_with():
    assert checked_with("broker-a:4", "broker-a:4").phase is ResizePhase.PAUSE


@pytest.mark.parametrize(("now", "text"), [("broker-a:8", "broker-a:8"), (None, "none")])
def test_resize_whose_order_conf_has_changed_since_is_rejected(now, text):
    rejected = checked_with(now, now)
    assert rejected.phase is ResizePhase.REJECTED
    assert rejected.problem == (
        "orderTopicConf of TopicTest was broker-a:4 when the resize was requested, and now: "
        f"ns-0 has {text}, ns-1 has {text}. Request it again"
    )


def test_order_conf_that_came_after_the_request_rejects_the_resize():
    planned = planned_operation("resize-1", PAUSED, traits(), observed(SHRINK, 0))
    observation = observed(SHRINK, 0, order_conf="broker-a:4")
    rejected = checked(planned, plan_resize(PAUSED, traits(order_conf="broker-a:4"), observation), observation)
    assert f"was none when the resize was requested, and now: {NAME_SERVER} has broker-a:4" in rejected.problem


# Broker sets that are in no route


def test_plan_warns_of_sets_that_are_away_and_of_nothing_while_none_is():
    sentence = "broker-y is away: if it has TopicTest, it returns with its former queue numbers (rmq broker list)"
    assert plan_of(6, away_sets=("broker-y",), former_sets=("broker-y",)).warnings[0] == sentence
    assert not any("former" in each for each in plan_of(6).warnings)


@pytest.mark.parametrize(("boot_ms", "at_least_ms"), [(-HEARTBEAT_MS, 10_000), (1 - HEARTBEAT_MS, HEARTBEAT_MS)])
def test_plan_of_a_grow_has_the_wait_for_members_of_groups(boot_ms, at_least_ms):
    now = observed(SHRINK, 0, ends={3: 5}, groups=())
    master = MasterIdentity(MASTER.address, now.unix_ms + boot_ms)
    plan = plan_resize(ResizeRequest(topic="TopicTest", queues=6), traits(), with_set(now, master=master))
    (assign,) = [each for each in plan.steps if each.phase is ResizePhase.ASSIGN]
    assert assign.at_least_ms == at_least_ms


def test_sets_of_an_earlier_resize_and_of_the_order_conf_that_are_in_no_route_are_named():
    values = {"order_conf": "broker-a:4;broker-x:4", "former_sets": (BROKER, "broker-y")}
    warnings = plan_of(6, request={"ordered": "pause"}, **values).warnings
    assert "orderTopicConf names broker-x, which is in no route of the topic: it is not resized" in warnings
    assert "broker-y had the topic at an earlier resize, but is no longer in its route: it is not resized" in warnings
    assert not any(each.startswith(f"{BROKER} had the topic") for each in warnings)
