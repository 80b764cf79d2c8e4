"""What the autoscaler makes of answers of brokers, what it does about it, and what it forgets."""

from dataclasses import replace

import pytest
from fakes.in_process_controller import ME
from fakes.scaled_topic import CLUSTER, GROUP, TOPIC
from fakes.watched_site import LOOKS_UNTIL_DECIDED, POLICY, watched_site
from resize_builders import a_resize

from controller.scaling.watching import service as service_module
from controller.scaling.watching import topic_requests
from controller.scaling.watching.events import ROUNDS_FAILED
from controller.scaling.watching.topic_requests import ABSENT_MS, UNLISTED_MS, TopicFacts
from remoting.protocol.codes import BrokerRequestCode, ResponseCode
from serving.shapes.scaling import ResizePhase
from store.documents import DocumentKind
from store.store import ControllerMember, StoreError

OTHER = ControllerMember(id="n1", address="10.0.0.2:9878")


@pytest.fixture
async def site(tmp_path):
    async with watched_site(tmp_path) as site:
        yield site


async def resized(site, *others):
    """Let the autoscaler resize the topic, and return its operation; of `others` there are some already."""
    await site.put(site.mode("auto"))
    await site.look(LOOKS_UNTIL_DECIDED)
    (operation,) = (each for each in site.operations() if each.topic not in others)
    return operation


# Modes


async def test_proposal_is_shown_and_nothing_else_happens(site):
    await site.put(site.mode("propose"))
    await site.look(LOOKS_UNTIL_DECIDED)
    decision = site.decision()
    assert (site.outcome(), decision.verdict.before, decision.verdict.target) == ("proposed", 4, 8)
    assert decision.verdict.reason.startswith("4 to 8 queues on each set, 8 in all are needed: group g1: 8 consumers")
    assert not site.operations()
    assert not site.autoscaler.proposals()
    assert site.broker.written == []


async def test_automatic_resize_names_who_requested_it_and_why(site):
    operation = await resized(site)
    assert (operation.topic, operation.requested_by, operation.sets[0].target) == (TOPIC, "autoscaler", 8)
    assert "4 have none" in operation.reason
    assert (site.outcome(), site.decision().operation_id) == ("resized", operation.id)
    await site.look()
    assert (site.outcome(), site.decision().verdict.reason) == ("kept", "a resize from 4 to 8 queues runs")
    assert [each["resize"] for each in site.events("scaling_resize_requested")] == [operation.id]


async def test_same_verdict_is_logged_once(site):
    await site.put(site.mode("propose"))
    await site.look(LOOKS_UNTIL_DECIDED + 4)
    reasons = [(each["outcome"], each["target"]) for each in site.events("scaling_verdict_changed")]
    assert reasons == [("kept", None), ("kept", None), ("proposed", 8)]
    assert [each.outcome.value for each in site.autoscaler.decided.changes] == ["kept", "kept", "proposed"]


@pytest.mark.parametrize("message_type", ["PRIORITY", "LITE"])
async def test_topic_whose_number_of_queues_has_a_meaning_is_left_alone(site, message_type):
    site.broker.topic["attributes"] = {"message.type": message_type}
    await site.put(site.mode("auto"))
    await site.look(LOOKS_UNTIL_DECIDED)
    assert (site.outcome(), site.decision().verdict.target) == ("kept", None)
    assert f"is an operator's: message.type {message_type}" in site.decision().verdict.reason
    assert not site.operations()


async def test_group_whose_clients_do_not_answer_is_unknown(site):
    site.broker.running.clear()
    await site.put(site.mode("auto"))
    await site.look(LOOKS_UNTIL_DECIDED)
    assert "group g1: its kind is not known" in site.decision().verdict.reason
    assert not site.operations()


@pytest.mark.parametrize("is_away", [True, False])
async def test_kinds_of_groups_stay_while_the_master_of_a_set_is_unknown(site, is_away):
    scaling = site.controller.scaling
    await scaling.documents.change(DocumentKind.GROUP_KINDS, TOPIC, lambda _: b'{"elsewhere":"orderly"}')
    former = TopicFacts(places_ms=0, groups_ms=0, masters={"broker-z": None}) if is_away else None
    site.consumers(4)
    await site.autoscaler._facts.facts(TOPIC, former, ())
    stored = scaling.documents.get(DocumentKind.GROUP_KINDS, TOPIC)
    assert (GROUP.encode() in stored, b"elsewhere" in stored) == (True, is_away)


async def test_broker_near_the_writes_that_a_policy_allows_it_is_slow(site):
    site.broker.put_tps = 950.0
    for most, is_slow in ((1_000, True), (2_000, False)):
        await site.put(site.mode("propose") | {"brokerWrites": most})
        await site.look(LOOKS_UNTIL_DECIDED)
        assert ("950 of at most 1000 messages/s come in" in site.decision().verdict.reason) is is_slow


# Refusals


async def test_refused_resize_is_tried_again_after_the_cooldown(site):
    await site.put(site.mode("auto"))
    await site.look(LOOKS_UNTIL_DECIDED - 1)
    site.broker.instead[BrokerRequestCode.GET_TIMER_METRICS] = ResponseCode.INVALID_PARAMETER
    await site.look()
    assert site.outcome() == "refused"
    assert "timed messages at" in site.decision().problem
    for _ in range(3):
        await site.look()
    assert len(site.events("scaling_resize_refused")) == 1
    assert site.outcome() == "refused"
    await site.look()
    assert len(site.events("scaling_resize_refused")) == 2
    site.broker.instead.clear()
    await site.look(5)
    assert [each.requested_by for each in site.operations()] == ["autoscaler"]


async def test_no_more_resizes_are_started_than_may_run(tmp_path):
    async with watched_site(tmp_path, scaling_operations_max=1) as site:
        await site.controller.scaling.operations.add(a_resize(topic="Other"))
        await site.put(site.mode("auto"))
        await site.look(LOOKS_UNTIL_DECIDED)
        assert (site.outcome(), site.decision().problem[:22]) == ("refused", "1 other resizes run or")
        assert [each.topic for each in site.operations()] == ["Other"]
        assert not site.events("scaling_resize_refused")


@pytest.mark.parametrize("phase", [ResizePhase.BLOCKED, ResizePhase.CONFLICT])
async def test_resizes_that_wait_for_an_operator_do_not_stop_the_others(tmp_path, phase):
    async with watched_site(tmp_path, scaling_operations_max=1) as site:
        await site.controller.scaling.operations.add(a_resize(topic="Forgotten", phase=phase))
        assert (await resized(site, "Forgotten")).topic == TOPIC


async def test_resizes_that_were_started_in_the_same_round_count(tmp_path):
    """The topics of a round are looked at in five parts: what one part starts is stored before the next one."""
    async with watched_site(tmp_path, scaling_operations_max=1) as site:
        await site.put(site.mode("auto"))
        await site.look(LOOKS_UNTIL_DECIDED - 1)
        site.clock.pass_ms(15_000)
        await site.autoscaler.prepare()
        await site.controller.scaling.operations.add(a_resize(topic="Other"))
        site.looks += 1
        site.broker.ends = dict.fromkeys(range(4), (0, site.looks * 3000))
        site.broker.offsets[GROUP] = dict.fromkeys(range(4), site.looks * 1500)
        for slot in range(5):
            await site.autoscaler.look(slot)
        await site.controller.done()
        assert (site.outcome(), site.decision().problem[:22]) == ("refused", "1 other resizes run or")
        assert [each.topic for each in site.operations()] == ["Other"]


async def test_growth_never_becomes_a_shrink_of_a_topic_that_was_changed_by_hand(site):
    """Counts are requested each two minutes, and an operator may have been quicker."""
    await site.put(site.mode("auto"))
    await site.look(LOOKS_UNTIL_DECIDED - 1)
    written = site.broker.topic["writeQueueNums"]
    site.broker.topic |= {"readQueueNums": 32, "writeQueueNums": 32}
    site.looks += 1
    site.clock.pass_ms(15_000)
    site.broker.ends = dict.fromkeys(range(written), (0, site.looks * 3000))
    site.broker.offsets[GROUP] = dict.fromkeys(range(written), site.looks * 1500)
    await site.round()
    assert site.outcome() == "refused"
    assert site.decision().problem == f"{TOPIC} has 32 queues by now, and this was decided for 4"
    assert not site.operations()


# What is remembered


async def test_new_leader_begins_its_windows_anew_and_knows_former_resizes(site):
    await site.put(site.mode("auto"))
    await site.look(LOOKS_UNTIL_DECIDED - 1)
    site.controller.group.follows(OTHER)
    await site.round()
    assert site.autoscaler.decisions() == []
    site.controller.group.leads(None)
    site.controller.group.ready(site.controller.group.term)
    await site.controller.scaling.look()
    await site.look(LOOKS_UNTIL_DECIDED - 1)
    assert not site.operations()
    await site.look()
    assert len(site.operations()) == 1


async def deployed(site, *, online):
    """Let the next leader look while a second group is offline for its deployment; it was `online` before or not."""
    if online:
        site.broker.join("ordered", "o1")
        site.broker.run("o1", dict.fromkeys(range(4), (0, 0)), is_orderly=True)
        await site.put(site.mode("propose"))
        await site.look()
        del site.broker.connections["ordered"]
    site.broker.offsets["ordered"] = dict.fromkeys(range(4), 0)
    site.controller.group.follows(OTHER)
    await site.round()
    site.controller.group.leads(None)
    site.controller.group.ready(site.controller.group.term)
    await site.controller.scaling.look()
    await site.put(site.mode("auto"))
    await site.look(LOOKS_UNTIL_DECIDED)
    assert not site.operations()


async def test_new_leader_knows_that_a_group_consumed_in_order_before_it_went_offline(site):
    await deployed(site, online=True)
    assert site.outcome() == "proposed"
    assert "only proposed: its messages have an order" in site.decision().verdict.reason


async def test_offline_group_that_was_never_seen_keeps_its_backlog_in_order(site):
    await deployed(site, online=False)
    assert site.outcome() == "refused"
    assert "group ordered is offline with messages in queues that stay" in site.decision().problem


async def test_resizes_of_a_former_leader_count(site):
    operation = await resized(site)
    site.controller.autoscaler = site.autoscaler = site.controller.new_autoscaler()
    await site.look()
    assert site.decision().verdict.reason == "a resize from 4 to 8 queues runs"
    assert site.autoscaler._past.of_topic(TOPIC)[0].begun_unix_ms == operation.created_unix_ms


async def test_resizes_that_the_store_had_no_space_for_count_until_the_lead_ends(site, monkeypatch):
    monkeypatch.setattr(service_module, "ENDED_MAX", 2)
    await site.autoscaler.prepare()
    operations, past = site.controller.scaling.operations, site.autoscaler._past
    ended = [
        a_resize(id=f"{TOPIC}.{n}", created_unix_ms=n, phase=ResizePhase.DONE, phase_since_unix_ms=n + 1)
        for n in (1, 2, 3)
    ]
    for each in ended[:2]:
        await operations.end(each)
        past.look()
    assert past.known_since_unix_ms == 1
    await site.controller.scaling.documents.change(DocumentKind.SCALING_HISTORY, ended[0].id, lambda _: None)
    await operations.end(ended[2])
    past.look()
    assert [each.begun_unix_ms for each in past.of_topic(TOPIC)] == [1, 2, 3]
    site.autoscaler._forget()
    past = site.autoscaler._past
    past.look()
    assert ([each.begun_unix_ms for each in past.of_topic(TOPIC)], past.known_since_unix_ms) == ([2, 3], 2)


async def test_topics_of_a_pattern_outlive_a_name_server_that_has_just_started(site):
    await site.put(POLICY | {"topic": "Topic*"})
    await site.look()
    watched = site.autoscaler._watched[TOPIC]
    (name_server,) = site.site.name_servers
    name_server.topics = []
    await site.look(5)
    assert site.autoscaler._watched == {TOPIC: watched}
    site.clock.pass_ms(UNLISTED_MS)
    await site.look()
    assert site.autoscaler._watched == {}
    # Its brokers may only be down: what its groups were is known when they are back.
    assert site.controller.scaling.documents.names(DocumentKind.GROUP_KINDS) == [TOPIC]


async def test_deposed_controller_starts_nothing(site):
    await site.put(site.mode("auto"))
    await site.look(LOOKS_UNTIL_DECIDED - 1)
    site.clock.pass_ms(15_000)
    assert await site.autoscaler.prepare()
    site.controller.group.follows(OTHER)
    sent = len(site.broker.seen)
    for slot in range(5):
        await site.autoscaler.look(slot)
    await site.controller.done()
    assert len(site.broker.seen) == sent
    assert not site.operations()


async def test_follower_watches_nothing(site):
    await site.put(site.mode("auto"))
    await site.look()
    site.controller.group.follows(OTHER)
    await site.round()
    assert site.autoscaler.measures() == ()
    assert (await site.request("GET", "decisions"))[0] == 409
    assert (await site.request("GET", "proposals"))[0] == 409


async def test_without_policies_nothing_is_requested(site):
    await site.look(3)
    assert site.broker.seen == []
    assert site.site.name_servers[0].peer.received == []


async def test_pattern_finds_no_topic_that_brokers_name_after_their_cluster_or_set(site):
    (name_server,) = site.site.name_servers
    name_server.topics = [TOPIC, CLUSTER, "broker-a", f"{CLUSTER}_REPLY_TOPIC", "TBW102"]
    await site.put(POLICY | {"topic": "*"})
    await site.look()
    assert sorted(site.autoscaler._watched) == [TOPIC]


async def test_topics_that_come_later_push_none_out(site, monkeypatch):
    monkeypatch.setattr(topic_requests, "TOPICS_MAX", 2)
    (name_server,) = site.site.name_servers
    await site.put(POLICY | {"topic": "*"})
    name_server.topics = ["M", "N"]
    await site.look()
    name_server.topics = ["A", "B", "M", "N"]
    await site.look(5)
    assert (sorted(site.autoscaler._watched), site.autoscaler.names.left_out) == (["M", "N"], 2)


# Missing answers


async def test_set_that_has_left_the_route_is_waited_for(site):
    """A dead set leaves the route: its consumers seem to lack queues then, and it comes back with its old count."""
    await site.put(site.mode("auto"))
    facts = site.autoscaler._facts
    await site.look()
    before = site.autoscaler._watched[TOPIC].facts
    with_other = replace(before, masters={**before.masters, "broker-b": "127.0.0.1:1"}, places_ms=-200_000)
    after = await facts.facts(TOPIC, with_other, ())
    assert dict(after.masters) == {**before.masters, "broker-b": None}
    assert after.is_complete
    site.autoscaler._watched[TOPIC].facts = after
    await site.look(LOOKS_UNTIL_DECIDED)
    assert site.decision().verdict.reason.startswith("broker set broker-b: its master did not answer")
    assert not site.operations()
    site.clock.pass_ms(ABSENT_MS)
    await site.look()
    assert list(site.autoscaler._watched[TOPIC].facts.masters) == list(before.masters)


async def test_broker_that_does_not_answer_is_unknown_and_waited_for_once(site):
    await site.put(site.mode("auto"))
    await site.look(2)
    site.broker.instead = dict.fromkeys((*site.broker.instead, 202, 43, 28, 300), None)
    before = len(site.broker.seen)
    await site.look()
    assert site.decision().verdict.before is None
    assert "its master did not answer" in site.decision().verdict.reason
    assert len(site.broker.seen) - before <= 4


async def test_offsets_that_are_missing_are_no_lag(site):
    await site.put(site.mode("auto"))
    site.broker.instead[43] = ResponseCode.SYSTEM_ERROR
    await site.look(LOOKS_UNTIL_DECIDED)
    assert "its lag or its rates are not known" in site.decision().verdict.reason
    assert site.decision().numbers.lag is None


async def test_clients_are_queried_each_minute_and_all_only_of_groups_that_are_behind(site):
    await site.put(site.mode("propose"))
    await site.look(consumed=3000)
    assert site.broker.seen.count(BrokerRequestCode.GET_CONSUMER_RUNNING_INFO) == 1
    await site.look(4, consumed=3000)
    assert site.broker.seen.count(BrokerRequestCode.GET_CONSUMER_RUNNING_INFO) == 1
    assert site.broker.seen.count(BrokerRequestCode.GET_CONSUMER_CONNECTION_LIST) == 2
    assert site.broker.seen.count(BrokerRequestCode.GET_ALL_CONSUMER_OFFSET) == 5


async def test_store_that_cannot_be_read_ends_no_round(site, monkeypatch):
    await site.put(site.mode("auto"))

    def fail():
        raise StoreError("gone")

    monkeypatch.setattr(site.controller.scaling.operations, "under_way", fail)
    assert not await site.autoscaler.prepare()
    assert site.controller.telemetry.counters[ROUNDS_FAILED].counts() == {(): 1}
    assert site.events("scaling_round_failed")[0]["error"] == "gone"


async def test_metrics_show_what_became_of_topics(site):
    await site.put(site.mode("propose"))
    await site.look(LOOKS_UNTIL_DECIDED)
    _, text = await site.controller.get("/metrics")
    assert "rocketmq_controller_scaling_topics_watched 1.0" in text
    assert 'rocketmq_controller_scaling_verdicts{verdict="proposed"} 1.0' in text
    assert 'rocketmq_controller_scaling_verdicts{verdict="kept"} 0.0' in text
    assert f"rocketmq_controller_scaling_round_seconds_count {LOOKS_UNTIL_DECIDED}.0" in text
    assert ME.address not in text
    assert GROUP not in text
