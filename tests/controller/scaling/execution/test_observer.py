"""What is known of a topic: what brokers, NameServers and clients answer, and never a number for what is silent."""

import pytest
from controller_builders import a_set, stored_sets
from fakes.clock import FakeClock
from fakes.scaled_topic import GROUP, TOPIC, ScaledBroker, ScaledNameServer, ScalingSite, scaling_site
from msgspec import structs
from resize_builders import a_resize

from controller.scaling.execution import observer
from controller.scaling.execution.group_views import GROUPS_MAX, GroupKinds
from controller.scaling.execution.observer import TopicObserver
from controller.scaling.execution.requests import KEEP_MS, ClientQueries
from controller.scaling.resize.observation import DelayProgress, GroupKind, LogPosition, QueueEnds
from controller.scaling.resize.operation import QueueCounts, QueueId, SetResize
from controller.scaling.rules.plan import SET_QUEUES_MAX
from controller.sets.broker_set import Replica
from remoting.admin.client import AdminLimits
from remoting.protocol.codes import BrokerRequestCode, RequestCode, ResponseCode
from serving.shapes.scaling import ResizeKind, ResizePhase
from store.document_store import DocumentStore
from store.store import StoreError

#: Queries of every kind that a plan needs.
CODES_OF_FACTS = [
    BrokerRequestCode.GET_TOPIC_CONFIG,
    BrokerRequestCode.GET_MAX_OFFSET,
    BrokerRequestCode.GET_MIN_OFFSET,
    BrokerRequestCode.GET_ALL_CONSUMER_OFFSET,
    BrokerRequestCode.GET_BROKER_RUNTIME_INFO,
    BrokerRequestCode.GET_BROKER_HA_STATUS,
    BrokerRequestCode.GET_TIMER_METRICS,
    RequestCode.GET_BROKER_CONFIG,
    BrokerRequestCode.QUERY_TOPIC_CONSUME_BY_WHO,
    BrokerRequestCode.GET_CONSUMER_CONNECTION_LIST,
]


class StoreThatIsAway:
    """Kinds of groups that cannot be stored hold up nothing."""

    async def commit_document(self, *_):
        raise StoreError("the store is away")


@pytest.fixture
def broker():
    return ScaledBroker()


def observer_of(site, sets=None, clock=None):
    clock = clock or FakeClock()
    clients = ClientQueries(site.admin, clock)
    kinds = GroupKinds(DocumentStore(StoreThatIsAway()))
    return TopicObserver(site.admin, lambda: site.addresses, sets or stored_sets(), clients, kinds, clock)


async def facts(site, **values):
    return await observer_of(site, **values).facts(TOPIC)


def grows(phase, *names, before=4, target=8):
    sets = tuple(
        SetResize(broker_name=name, cluster="DefaultCluster", before=QueueCounts(before, before), target=target)
        for name in names or ("broker-a",)
    )
    return a_resize(kind=ResizeKind.GROW, sets=sets, phase=phase)


def shrinks(phase):
    return a_resize(phase=phase, sets=grows(phase, before=4, target=2).sets, reached=1)


# Numbers


async def test_order_conf_is_sent_only_where_the_route_of_a_name_server_carries_it(broker):
    async with scaling_site(broker) as site:
        for server in site.name_servers:
            server.order_conf[TOPIC] = "broker-a:4"
        site.name_servers[0].sends_order_conf = True
        operation = structs.replace(grows(ResizePhase.QUIESCE), kind=ResizeKind.ORDERED)
        seen = (await observer_of(site).observe(operation, 0)).name_servers
    assert [(each.order_conf, each.sends_order_conf) for each in seen] == [("broker-a:4", True), ("broker-a:4", False)]


async def test_facts_of_a_topic_are_those_of_its_brokers(broker):
    other = ScaledBroker("broker-b", queues=2)
    broker.ends = {0: (5, 9), 3: (0, 7)}
    broker.offsets[GROUP] = {0: 9}
    broker.log, broker.levels, broker.timed, broker.half = (1000, 200), {3: (1, 4)}, 6, 2
    async with scaling_site(broker, other) as site:
        traits, observation = await facts(site)
    assert observation.missing == ()
    assert traits.counts == {"broker-a": QueueCounts(4, 4), "broker-b": QueueCounts(2, 2)}
    assert traits.clusters == {"broker-a": "DefaultCluster", "broker-b": "DefaultCluster"}
    view = observation.sets["broker-a"]
    assert view.master.address == broker.address
    assert view.ends == {0: QueueEnds(min_offset=5, max_offset=9)} | {
        each: QueueEnds(min_offset=0, max_offset=7 if each == 3 else 0) for each in (1, 2, 3)
    }
    assert view.offsets == {GROUP: {0: 9}}
    assert view.log == LogPosition(end=1000, dispatched=800)
    assert view.late.levels == {3: DelayProgress(delivered=1, end=4)}
    assert (view.late.timed, view.late.half_messages) == (6, 2)
    assert [each.counts["broker-b"] for each in observation.name_servers] == [QueueCounts(2, 2)] * 2


async def test_sets_of_the_cluster_that_no_name_server_has_now_are_away(broker):
    async with scaling_site(broker) as site:
        site.name_servers[0].away = {"DefaultCluster": ["broker-y", "broker-a"], "Other": ["broker-z"]}
        traits, _ = await facts(site)
    assert traits.away_sets == ("broker-y",)


async def test_delay_level_of_which_nothing_was_delivered_yet_is_known_by_its_queue(broker):
    """4.9 has a level in its state only once a message of it was delivered."""
    broker.levels, broker.undelivered = {3: (1, 4)}, {2: 5}
    async with scaling_site(broker) as site:
        _, observation = await facts(site)
    assert observation.sets["broker-a"].late.levels == {
        2: DelayProgress(delivered=0, end=5),
        3: DelayProgress(delivered=1, end=4),
    }


@pytest.mark.parametrize("code", CODES_OF_FACTS, ids=lambda code: code.name)
@pytest.mark.parametrize("instead", [None, ResponseCode.SYSTEM_BUSY], ids=["silent", "refused"])
async def test_what_a_broker_does_not_answer_is_missing(broker, code, instead):
    broker.instead[code] = instead
    broker.ends = {0: (0, 5)}
    broker.offsets[GROUP] = {0: 3}
    async with scaling_site(broker, name_servers=1) as site:
        _, observation = await facts(site)
    if code is BrokerRequestCode.GET_BROKER_HA_STATUS and instead is not None:
        # Under DLedger brokers refuse it, and no slave acts as master there.
        assert observation.missing == ()
        return
    assert observation.missing != ()
    assert any(broker.address in each for each in observation.missing)


async def test_master_that_hangs_holds_up_a_round_for_a_limited_time(broker, monkeypatch):
    monkeypatch.setattr(observer, "SET_ROUND_S", 0.2)
    broker.instead[BrokerRequestCode.GET_MIN_OFFSET] = None
    async with scaling_site(broker, name_servers=1) as site:
        _, observation = await facts(site)
    (missing,) = observation.missing
    assert missing.endswith("did not answer everything within 0 s")


async def test_master_that_does_not_answer_gets_no_further_request_in_the_round():
    broker = ScaledBroker(queues=40)
    broker.instead[BrokerRequestCode.GET_MIN_OFFSET] = None
    async with scaling_site(broker, name_servers=1) as site:
        _, observation = await facts(site)
    # As many as are under way at one time; each of the others would have waited for its timeout too.
    assert broker.seen.count(BrokerRequestCode.GET_MIN_OFFSET) == AdminLimits().requests_per_peer_max
    # That of half messages came before.
    assert broker.seen.count(BrokerRequestCode.GET_MAX_OFFSET) == 1
    assert not any("nothing was sent" in each for each in observation.missing)


async def test_set_with_more_queues_than_are_looked_at_is_named_and_not_queried():
    broker = ScaledBroker(queues=SET_QUEUES_MAX + 1)
    async with scaling_site(broker, name_servers=1) as site:
        traits, observation = await facts(site)
    assert (traits.too_many_queues, observation.missing) == ({"broker-a": SET_QUEUES_MAX + 1}, ())
    assert BrokerRequestCode.GET_MIN_OFFSET not in broker.seen


async def test_topic_without_a_name_server_that_answers_has_no_counts(broker):
    async with scaling_site(broker) as site:
        for each in site.name_servers:
            each.instead[RequestCode.GET_ROUTEINFO_BY_TOPIC] = None
        traits, observation = await facts(site)
    assert traits.counts == {}
    assert [each.counts for each in observation.name_servers] == [None, None]
    assert all("does not answer about TopicTest" in each for each in observation.missing)


async def test_without_name_servers_their_option_is_named(broker):
    async with scaling_site(broker, name_servers=0) as site:
        _, observation = await facts(site)
    assert observation.missing == ("no NameServer is configured: set namesrvAddr",)


async def test_topic_that_one_name_server_lacks_is_known_and_shown_as_absent_there(broker):
    site = ScalingSite([broker], [ScaledNameServer(broker), ScaledNameServer()])
    async with site:
        traits, observation = await facts(site)
    assert traits.counts == {"broker-a": QueueCounts(4, 4)}
    assert [each.counts for each in observation.name_servers] == [{"broker-a": QueueCounts(4, 4)}, {}]
    assert observation.missing == ()


async def test_masters_that_name_servers_name_differently_are_not_guessed(broker):
    async with scaling_site(broker) as site:
        site.name_servers[1].masters = {"broker-a": "127.0.0.1:1"}
        _, observation = await facts(site)
    assert observation.sets["broker-a"].master is None
    (sentence,) = observation.missing
    assert sentence.startswith("NameServers name different masters of broker-a: ")


async def test_elected_master_counts_more_than_routes(broker):
    async with scaling_site(broker) as site:
        for each in site.name_servers:
            each.masters = {"broker-a": "127.0.0.1:1"}
        _, observation = await facts(site, sets=stored_sets(a_set(replicas={1: Replica(broker.address, "")})))
    assert observation.sets["broker-a"].master.address == broker.address
    assert observation.sets["broker-a"].slaves == {"127.0.0.1:1": None}


async def test_set_whose_elected_master_is_lost_has_none(broker):
    async with scaling_site(broker) as site:
        _, observation = await facts(site, sets=stored_sets(a_set(master=None)))
    assert observation.missing == ("broker-a has no master",)
    assert observation.sets["broker-a"].counts is None


async def test_absent_sets_are_those_of_the_cluster_without_master_that_no_route_has(broker):
    known = [("lost", None, "DefaultCluster"), ("led", 1, "DefaultCluster"), ("elsewhere", None, "Other")]
    sets = [a_set(broker_name=name, master=master, cluster=cluster) for name, master, cluster in known]
    async with scaling_site(broker) as site:
        traits, _ = await facts(site, sets=stored_sets(a_set(master=None), *sets))
    assert traits.absent_sets == ("lost",)


async def test_slave_that_acts_as_master_is_no_master(broker):
    broker.is_master = False
    async with scaling_site(broker, name_servers=1) as site:
        # It has the id 0 in its route.
        site.name_servers[0].brokers = (broker,)
        observation = await observer_of(site).observe(grows(ResizePhase.READ_UP), 0)
    assert observation.sets["broker-a"].master is None
    assert observation.missing == (f"{broker.address} of broker-a is a slave that acts as master",)


async def test_master_that_does_not_show_its_start_is_no_master(broker):
    broker.boot_ms = ""
    async with scaling_site(broker) as site:
        observation = await observer_of(site).observe(grows(ResizePhase.READ_UP), 0)
    assert observation.sets["broker-a"].master is None
    assert observation.missing == (f"broker-a at {broker.address} does not answer when it was started",)


async def test_slaves_show_their_own_counts_and_a_silent_one_none(broker):
    slave, silent = (ScaledBroker(queues=2, is_master=False) for _ in range(2))
    silent.instead[BrokerRequestCode.GET_TOPIC_CONFIG] = None
    async with scaling_site(broker, slave, silent) as site:
        observation = await observer_of(site).observe(grows(ResizePhase.READ_UP), 0)
        expected = {slave.address: QueueCounts(2, 2), silent.address: None}
    assert observation.sets["broker-a"].slaves == expected
    assert observation.missing == ()


async def test_broker_without_the_topic_is_missing_and_not_empty(broker):
    other = ScaledBroker("broker-b")
    async with scaling_site(broker, other) as site:
        for each in site.name_servers:
            each.brokers = (broker, ScaledBroker("broker-b"))
            each.masters = {"broker-b": other.address}
        other.topic = None
        observation = await observer_of(site).observe(grows(ResizePhase.READ_UP, "broker-a", "broker-b"), 0)
        assert observation.missing == (f"broker-b at {other.address} does not have the topic TopicTest",)
    assert (observation.sets["broker-b"].has_topic, observation.sets["broker-b"].counts) == (False, None)


async def test_broker_of_4_9_is_queried_for_all_topics(broker):
    broker.version = "V4_9_7"
    for code in (
        BrokerRequestCode.GET_TOPIC_CONFIG,
        BrokerRequestCode.GET_BROKER_HA_STATUS,
        BrokerRequestCode.GET_TIMER_METRICS,
    ):
        broker.instead[code] = ResponseCode.REQUEST_CODE_NOT_SUPPORTED
    async with scaling_site(broker) as site:
        traits, observation = await facts(site)
    assert traits.counts == {"broker-a": QueueCounts(4, 4)}
    assert observation.missing == ()
    assert observation.sets["broker-a"].late.timed == 0


async def test_broker_whose_timer_is_off_has_no_timed_messages(broker):
    broker.timed = None
    async with scaling_site(broker) as site:
        _, observation = await facts(site)
    assert (observation.missing, observation.sets["broker-a"].late.timed) == ((), 0)


async def test_fault_of_a_timer_is_not_taken_for_a_timer_that_is_off(broker):
    broker.instead[BrokerRequestCode.GET_TIMER_METRICS] = ResponseCode.SYSTEM_ERROR
    async with scaling_site(broker) as site:
        _, observation = await facts(site)
    assert observation.missing == (f"timed messages at {broker.address}: code 1: no",)
    assert observation.sets["broker-a"].late is None


async def test_half_messages_are_those_that_are_not_checked(broker):
    broker.half = 5
    broker.offsets["CID_RMQ_SYS_TRANS"] = {0: 3}
    async with scaling_site(broker) as site:
        _, observation = await facts(site)
    assert observation.sets["broker-a"].late.half_messages == 2


async def test_half_messages_in_rocksdb_are_all_that_are_stored(broker):
    broker.rocksdb_half = (3, 8)
    broker.options = {"transactionTimeOut": 6000, "transactionCheckMax": 15, "transactionCheckInterval": 30_000}
    async with scaling_site(broker) as site:
        _, without = await facts(site)
        broker.options["transRocksDBEnable"] = "true"
        _, observation = await facts(site)
    late = observation.sets["broker-a"].late
    assert (late.half_messages, late.rocksdb_half_messages, late.transaction_ms) == (0, 5, 486_000)
    assert without.sets["broker-a"].late.rocksdb_half_messages == 0


async def test_offsets_are_read_before_ends(broker):
    async with scaling_site(broker) as site:
        await observer_of(site).observe(shrinks(ResizePhase.DRAIN), 0)
    first_end = min(
        broker.seen.index(each) for each in (BrokerRequestCode.GET_MAX_OFFSET, BrokerRequestCode.GET_MIN_OFFSET)
    )
    assert broker.seen.index(BrokerRequestCode.GET_ALL_CONSUMER_OFFSET) < first_end


@pytest.mark.parametrize(
    "earlier",
    [BrokerRequestCode.GET_BROKER_RUNTIME_INFO, BrokerRequestCode.GET_TIMER_METRICS],
    ids=lambda code: code.name,
)
async def test_ends_are_read_after_what_is_delivered_and_dispatched(broker, earlier):
    async with scaling_site(broker) as site:
        await observer_of(site).observe(shrinks(ResizePhase.WATCH), 0)
    assert broker.seen.index(earlier) < broker.seen.index(BrokerRequestCode.GET_MIN_OFFSET)


async def test_queue_whose_begin_the_broker_cannot_read_is_not_taken_for_empty(broker):
    broker.ends = {2: (-1, 9)}
    async with scaling_site(broker) as site:
        observation = await observer_of(site).observe(shrinks(ResizePhase.DRAIN), 0)
    assert observation.sets["broker-a"].ends[2] == QueueEnds(min_offset=0, max_offset=9)


async def test_phase_queries_only_what_it_needs(broker):
    async with scaling_site(broker) as site:
        observation = await observer_of(site).observe(grows(ResizePhase.READ_UP), 0)
    assert BrokerRequestCode.GET_ALL_CONSUMER_OFFSET not in broker.seen
    assert BrokerRequestCode.GET_MAX_OFFSET not in broker.seen
    assert (observation.groups, observation.sets["broker-a"].ends) == (None, {})


@pytest.mark.parametrize(
    ("name", "value", "is_ordered", "special_type"),
    [
        ("message.type", "NORMAL", False, ""),
        ("message.type", "FIFO", True, ""),
        ("message.type", "PRIORITY", False, "PRIORITY"),
        ("message.type", "LITE", False, "LITE"),
        ("cleanup.policy", "DELETE", False, ""),
        ("cleanup.policy", "COMPACTION", True, ""),
    ],
)
async def test_attributes_of_a_topic_tell_whether_queues_have_a_meaning(broker, name, value, is_ordered, special_type):
    broker.topic["attributes"] = {name: value}
    async with scaling_site(broker, name_servers=1) as site:
        traits, _ = await facts(site)
    assert (traits.is_ordered, traits.special_type) == (is_ordered, special_type)


# Groups


async def groups_of(site):
    _, observation = await facts(site)
    return observation.missing, {each.name: each for each in observation.groups or ()}


async def test_groups_are_those_of_all_masters_without_the_brokers_own(broker):
    other = ScaledBroker("broker-b")
    broker.offsets = {"a": {0: 1}, "CID_RMQ_SYS_TRANS": {0: 1}}
    other.offsets = {"b": {0: 1}, "TOOLS_CONSUMER": {0: 2}}
    other.broadcast_offsets = {"c": {0: 1}}
    async with scaling_site(broker, other) as site:
        missing, groups = await groups_of(site)
    assert missing == ()
    assert list(groups) == ["a", "b", "c"]
    assert {each.kind for each in groups.values()} == {GroupKind.OFFLINE}


async def test_members_at_one_of_two_masters_make_a_group_online(broker):
    other = ScaledBroker("broker-b")
    other.join(GROUP, "client-1")
    other.run("client-1", {0: (7, 0), 1: (3, 2)})
    async with scaling_site(broker, other) as site:
        _, groups = await groups_of(site)
    assert groups[GROUP].kind is GroupKind.CONCURRENT
    (client,) = groups[GROUP].clients
    held = client.queues[QueueId("broker-b", 1)]
    assert (held.commit_offset, held.cached) == (3, 2)


@pytest.mark.parametrize("kind", ["CONSUME_PASSIVELY", "CONSUME_ACTIVELY"])
async def test_group_that_subscribes_to_another_topic_now_is_offline(broker, kind):
    broker.offsets[GROUP] = {0: 1}
    broker.join(GROUP, "client-1", kind=kind, topic="Other")
    async with scaling_site(broker) as site:
        _, groups = await groups_of(site)
    assert groups[GROUP].kind is GroupKind.OFFLINE


async def test_group_that_pulls_without_a_subscription_chooses_its_queues_itself(broker):
    broker.offsets[GROUP] = {0: 1}
    broker.join(GROUP, "client-1", kind="CONSUME_ACTIVELY", topic=f"%RETRY%{GROUP}")
    broker.run("client-1", {0: (1, 2)})
    async with scaling_site(broker) as site:
        _, groups = await groups_of(site)
    assert groups[GROUP].kind is GroupKind.ASSIGNED
    assert set(groups[GROUP].clients[0].queues) == {QueueId("broker-a", 0)}


@pytest.mark.parametrize(
    ("kind", "model", "is_orderly", "expected"),
    [
        ("CONSUME_PASSIVELY", "CLUSTERING", False, GroupKind.CONCURRENT),
        ("CONSUME_PASSIVELY", "CLUSTERING", True, GroupKind.ORDERLY),
        ("CONSUME_ACTIVELY", "CLUSTERING", False, GroupKind.PULL),
        ("CONSUME_POP", "CLUSTERING", False, GroupKind.POP),
        ("CONSUME_PASSIVELY", "BROADCASTING", False, GroupKind.BROADCAST),
        ("CONSUME_ACTIVELY", "BROADCASTING", False, GroupKind.BROADCAST),
    ],
)
async def test_kind_of_a_group_follows_its_members(broker, kind, model, is_orderly, expected):
    broker.join(GROUP, "client-1", kind=kind, model=model)
    broker.run("client-1", {0: (1, 0)}, is_orderly=is_orderly)
    async with scaling_site(broker) as site:
        _, groups = await groups_of(site)
    assert groups[GROUP].kind is expected


async def test_client_that_cannot_be_queried_is_unknown_and_not_missing(broker):
    broker.join(GROUP, "client-1", "client-2")
    broker.run("client-1", {0: (1, 0)})
    async with scaling_site(broker) as site:
        missing, groups = await groups_of(site)
    assert missing == ()
    assert {each.client_id: each.queues is None for each in groups[GROUP].clients} == {
        "client-1": False,
        "client-2": True,
    }


async def test_clients_of_a_group_that_lags_are_not_queried_until_it_has_drained(broker):
    broker.ends, broker.offsets[GROUP] = {2: (0, 9), 3: (0, 0)}, {2: 8}
    broker.join(GROUP, "client-1")
    broker.run("client-1", {2: (8, 0)}, is_orderly=True)
    async with scaling_site(broker) as site:
        observer = observer_of(site)
        assert (await observer.observe(shrinks(ResizePhase.DRAIN), 0)).groups[0].is_online
        assert BrokerRequestCode.GET_CONSUMER_RUNNING_INFO not in broker.seen
        broker.offsets[GROUP] = {2: 9}
        (group,) = (await observer.observe(shrinks(ResizePhase.DRAIN), 0)).groups
    assert group.kind is GroupKind.ORDERLY


async def test_clients_of_a_group_that_appears_while_queues_are_locked_are_queried_until_it_has_locks(broker):
    broker.offsets[GROUP] = {0: 1}
    broker.join(GROUP, "client-1")
    broker.run("client-1", {0: (1, 0)}, is_orderly=True)
    release = structs.replace(grows(ResizePhase.RELEASE), kind=ResizeKind.GATED, reached=2)
    async with scaling_site(broker) as site:
        observer = observer_of(site)
        (group,) = (await observer.observe(release, 0)).groups
        assert group.kind is GroupKind.ORDERLY
        broker.seen.clear()
        await observer.observe(structs.replace(release, gated_groups=(GROUP,)), 0)
    assert BrokerRequestCode.GET_CONSUMER_RUNNING_INFO not in broker.seen


async def test_clients_that_broadcast_are_queried_whatever_their_group_has_stored_once(broker):
    broker.ends, broker.offsets[GROUP] = {2: (0, 9)}, {2: 8}
    broker.join(GROUP, "client-1", model="BROADCASTING")
    broker.run("client-1", {2: (9, 0)})
    async with scaling_site(broker) as site:
        (group,) = (await observer_of(site).observe(shrinks(ResizePhase.DRAIN), 0)).groups
    (client,) = group.clients
    assert client.queues[QueueId("broker-a", 2)].commit_offset == 9


async def test_too_many_groups_are_a_sentence_and_no_partial_list(broker):
    broker.offsets = {f"g{number}": {0: 1} for number in range(GROUPS_MAX + 1)}
    async with scaling_site(broker) as site:
        missing, groups = await groups_of(site)
    assert (missing, groups) == (
        (f"TopicTest has 501 groups, more than {GROUPS_MAX}: delete those that are not used",),
        {},
    )


# Groups without a configuration


def unknown(observation, name="broker-a"):
    return observation.sets[name].unknown_groups


async def test_group_without_a_configuration_is_unknown_where_offsets_of_it_are_refused(broker):
    other = ScaledBroker("broker-b")
    broker.offsets = {GROUP: {0: 1}, "gone": {0: 1}}
    other.configured |= {"gone"}
    async with scaling_site(broker, other) as site:
        observation = await observer_of(site).observe(grows(ResizePhase.SEED, "broker-a", "broker-b"), 0)
    assert observation.missing == ()
    assert (unknown(observation), unknown(observation, "broker-b")) == (frozenset({"gone"}), frozenset())


@pytest.mark.parametrize("version", ["V4_9_7", "V5_1_4", "V5_2_0"])
async def test_releases_that_store_offsets_of_any_group_know_all_groups(broker, version):
    broker.version, broker.offsets = version, {"gone": {0: 1}}
    async with scaling_site(broker) as site:
        observation = await observer_of(site).observe(grows(ResizePhase.SEED), 0)
    assert unknown(observation) == frozenset()
    assert BrokerRequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG not in broker.seen


async def test_groups_of_a_broker_are_queried_again_after_some_seconds(broker):
    clock = FakeClock()
    broker.offsets = {"new": {0: 1}}
    async with scaling_site(broker) as site:
        observer = observer_of(site, clock=clock)
        assert unknown(await observer.observe(grows(ResizePhase.SEED), 0)) == {"new"}
        broker.configured.add("new")
        clock.pass_ms(KEEP_MS - 1)
        assert unknown(await observer.observe(grows(ResizePhase.ASSIGN), 0)) == {"new"}
        clock.pass_ms(1)
        assert unknown(await observer.observe(grows(ResizePhase.ASSIGN), 0)) == frozenset()
    assert broker.seen.count(BrokerRequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG) == 2


async def test_groups_that_a_broker_does_not_answer_are_missing(broker):
    broker.instead[BrokerRequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG] = None
    async with scaling_site(broker) as site:
        observation = await observer_of(site).observe(grows(ResizePhase.SEED), 0)
    assert observation.missing[0].startswith(f"groups that are configured at {broker.address}: ")
