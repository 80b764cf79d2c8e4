"""What a NameServer that has just started answers: its own routes, with what peers know of brokers that are missing."""

import pytest
from builders import BROKER, READ_ONLY, TOPIC, a_broker_set, a_mapping, a_queue_data, an_address
from msgspec import UNSET
from msgspec.structs import replace
from route_tables import route_tables

from namesrv.core import routes
from namesrv.core.cold_start import COLD_MS_MAX, ColdStart
from remoting.protocol.shapes.route import TopicRouteData

ONE, TWO = "ns-1:9876", "ns-2:9876"
OTHER = "broker-b"
PERIOD_MS = 30_000
NOTHING = (None, {}, {})


class Site:
    """A NameServer that has just started and has two peers; the sets `own` have registered here."""

    def __init__(self, *own, known=()):
        self.tables = route_tables(*own)
        self.cold = ColdStart(self.tables, (ONE, TWO), 0)
        self.cold.known = frozenset(known)
        for broker_set in own:
            for broker_id in broker_set.members:
                self.cold.registered(broker_set.broker_name, broker_id, 0)

    def lists(self, peer, *sets, connection=1, now_ms=0):
        listing = {each.broker_name: routes.broker_data(each) for each in sets}
        self.cold.take(peer, listing, connection, now_ms)

    def route(self, *answers, acting=False, order=None):
        own = routes.route_of(self.tables, TOPIC, support_acting_master=acting, order_topic_conf=order)
        return self.cold.merged(own, answers, support_acting_master=acting, order_topic_conf=order)


def answer(*sets, **queues):
    """Return a peer's route over these sets."""
    return TopicRouteData(
        broker_datas=[routes.broker_data(each) for each in sets],
        filter_server_table={},
        queue_datas=[a_queue_data(broker_name=each.broker_name, **queues) for each in sets],
    )


def brokers_in(learned):
    if learned.route is None:
        return {}
    return {data.broker_name: dict(data.broker_addrs) for data in learned.route.broker_datas}


def queues_in(learned):
    return {data.broker_name: data.write_queue_nums for data in learned.route.queue_datas}


A, B = a_broker_set(), a_broker_set(broker_name=OTHER)
PAIR = a_broker_set(broker_ids=(0, 1))
MASTER, SLAVE = an_address(), an_address(broker_id=1)


def test_set_that_has_not_registered_is_answered_as_a_peer_knows_it():
    site = Site(A)
    site.lists(ONE, A, B)
    learned = site.route(answer(A, B, write_queue_nums=4))
    assert brokers_in(learned) == {BROKER: {0: MASTER}, OTHER: {0: an_address(broker_name=OTHER)}}
    # The queues of a set that is here are ours.
    assert queues_in(learned) == {BROKER: 16, OTHER: 4}
    assert learned.learned_from == {OTHER: ONE}


def test_topic_that_neither_we_nor_peers_have_has_no_route():
    site = Site()
    site.lists(ONE, A)
    assert site.route() == NOTHING


def test_set_that_has_the_topic_and_is_not_listed_is_left_out():
    site = Site()
    site.lists(ONE, B)
    assert brokers_in(site.route(answer(A, B))) == {OTHER: {0: an_address(broker_name=OTHER)}}


@pytest.mark.parametrize(
    ("registered", "queues"),
    [((1,), 4), ((0,), 16), ((0, 1), 16)],
    ids=["a slave: the master's are the peer's", "the master", "both"],
)
def test_queues_are_ours_once_the_member_that_has_them_is_here(registered, queues):
    site = Site(a_broker_set(broker_ids=registered))
    site.lists(ONE, PAIR)
    learned = site.route(answer(PAIR, write_queue_nums=4))
    assert brokers_in(learned) == {BROKER: {0: MASTER, 1: SLAVE}}
    assert queues_in(learned) == {BROKER: queues}


def test_topic_that_a_registered_master_lacks_is_not_learned_from_its_peers():
    site = Site(A)
    site.lists(ONE, PAIR)
    learned = site.cold.merged(None, [answer(PAIR)], support_acting_master=False, order_topic_conf=None)
    assert learned == NOTHING


def test_broker_that_left_here_is_not_learned_again_from_a_peer_that_still_lists_it():
    site = Site()
    site.cold.registered(BROKER, 0, 0)
    site.lists(ONE, PAIR)
    assert brokers_in(site.route(answer(PAIR))) == {BROKER: {1: SLAVE}}


def test_broker_is_left_out_as_soon_as_one_peer_does_not_list_it_any_more():
    site = Site()
    site.lists(ONE, A, B)
    site.lists(TWO, A, B)
    site.lists(ONE, B)
    assert set(brokers_in(site.route(answer(A, B)))) == {OTHER}
    # It is back as soon as it has registered there again.
    site.lists(ONE, A, B)
    assert set(brokers_in(site.route(answer(A, B)))) == {BROKER, OTHER}


def test_broker_that_left_while_its_peer_was_ignored_is_left_out():
    site = Site()
    site.lists(ONE, A, B)
    site.lists(TWO, A, B)
    site.cold.ignore(ONE, "busy")
    site.lists(ONE, B)
    assert set(brokers_in(site.route(answer(A, B)))) == {OTHER}


def test_peer_that_was_started_again_and_lists_less_says_nothing_of_the_others():
    site = Site()
    site.lists(ONE, A, connection=1)
    site.lists(TWO, A)
    site.lists(ONE, connection=2)
    assert set(brokers_in(site.route(answer(A)))) == {BROKER}


def test_broker_that_moved_is_where_it_registered_here():
    moved = a_broker_set(members={1: replace(A.members[0])})
    site = Site(moved)
    site.lists(ONE, A)
    # The same address under its former id.
    assert brokers_in(site.route(answer(A))) == {BROKER: {1: MASTER}}


def test_first_peer_of_two_that_differ_is_believed():
    moved = a_broker_set(members={0: replace(A.members[0], address="elsewhere:10911")})
    site = Site()
    site.lists(TWO, A, B)
    site.lists(ONE, moved)
    learned = site.route(answer(moved, write_queue_nums=4), answer(A, B, write_queue_nums=8))
    assert brokers_in(learned)[BROKER] == {0: "elsewhere:10911"}
    assert queues_in(learned) == {OTHER: 8, BROKER: 4}
    assert learned.learned_from == {BROKER: ONE, OTHER: TWO}


@pytest.mark.parametrize(
    ("acting", "perm", "shown"),
    [(True, READ_ONLY, {0: SLAVE}), (True, READ_ONLY | 2, {1: SLAVE}), (False, READ_ONLY, {1: SLAVE})],
)
def test_learned_slave_acts_for_an_absent_master_as_a_registered_one(acting, perm, shown):
    slaves = a_broker_set(broker_ids=(1,), enable_acting_master=True)
    site = Site()
    site.lists(ONE, slaves)
    assert brokers_in(site.route(answer(slaves, perm=perm), acting=acting)) == {BROKER: shown}


def test_registered_slave_does_not_act_for_a_master_that_peers_list():
    site = Site(a_broker_set(broker_ids=(1,), enable_acting_master=True))
    site.lists(ONE, a_broker_set(broker_ids=(0, 1), enable_acting_master=True))
    assert brokers_in(site.route(answer(PAIR), acting=True)) == {BROKER: {0: MASTER, 1: SLAVE}}


def test_filter_servers_and_mappings_come_with_the_set_that_has_them():
    site = Site(A)
    site.lists(ONE, A, B)
    at = an_address(broker_name=OTHER)
    offered = replace(
        answer(A, B),
        filter_server_table={at: ["filter:1"], MASTER: ["filter:2"]},
        topic_queue_mapping_by_broker={name: a_mapping(broker_name=name) for name in (BROKER, OTHER)},
    )
    route = site.route(offered).route
    assert route.filter_server_table == {at: ["filter:1"]}
    assert route.topic_queue_mapping_by_broker == {OTHER: a_mapping(broker_name=OTHER)}


def test_own_route_is_untouched_once_nothing_is_missing():
    site = Site(A)
    site.lists(ONE, A)
    own = routes.route_of(site.tables, TOPIC, support_acting_master=False, order_topic_conf="order")
    learned = site.cold.merged(own, [answer(A, B)], support_acting_master=False, order_topic_conf="order")
    assert learned == (own, {}, {})
    assert learned.route is own


@pytest.mark.parametrize("own", [(), (A,)], ids=["nothing is here", "a set is here"])
@pytest.mark.parametrize(
    ("ours", "theirs", "order"),
    [("broker-a:4", "broker-a:8", "broker-a:4"), (None, "broker-a:8", "broker-a:8"), (None, UNSET, UNSET)],
)
def test_order_of_a_topic_is_ours_and_without_one_the_peers(own, ours, theirs, order):
    site = Site(*own)
    site.lists(ONE, A, B)
    learned = site.route(replace(answer(A, B), order_topic_conf=theirs), answer(A, B), order=ours)
    assert learned.route.order_topic_conf == order


def test_cold_start_is_over_when_every_listed_broker_has_registered():
    site = Site(A)
    # While no peer has answered, nobody knows.
    assert (site.cold.why_over(0), site.cold.missing()) == ("", 0)
    site.lists(ONE, A)
    site.lists(TWO, A, PAIR)
    assert (site.cold.why_over(0), site.cold.missing()) == ("", 1)
    site.cold.registered(BROKER, 1, 0)
    assert (site.cold.why_over(0), site.cold.missing()) == ("registered", 0)


def test_cold_start_is_over_after_120_seconds_and_nothing_is_learned_any_more():
    site = Site()
    site.lists(ONE, A)
    assert site.cold.why_over(COLD_MS_MAX - 1) == ""
    assert site.cold.why_over(COLD_MS_MAX) == "time"
    site.cold.end()
    assert (site.cold.is_over, site.route(answer(A))) == (True, NOTHING)


def test_peer_that_does_not_answer_is_ignored_until_it_does():
    site = Site()
    site.lists(ONE, A)
    for why in ("hangs", "refused"):
        site.cold.ignore(ONE, why)
    assert (site.cold.usable, site.cold.problems) == ([], {ONE: "refused"})
    assert site.route(answer(A)) == NOTHING
    site.lists(ONE, A)
    assert (site.cold.usable, site.cold.problems) == ([ONE], {})
    assert set(brokers_in(site.route(answer(A)))) == {BROKER}


@pytest.mark.parametrize(
    ("own", "known", "now_ms", "is_ignored"),
    [
        ((), (), 0, False),
        ((), [(BROKER, MASTER), ("gone", "gone:1")], 0, False),
        ((), [(OTHER, MASTER)], 0, True),
        ((), [(BROKER, "elsewhere:10911")], 0, True),
        ((A,), [(OTHER, "gone:1")], 0, False),
        ((B,), (), PERIOD_MS - 1, False),
        ((B,), (), PERIOD_MS, True),
        ((A, B), (), PERIOD_MS, False),
    ],
    ids=[
        "nothing is known of the time before",
        "one was here before",
        "none was here before",
        "its namesake was elsewhere",
        "one is here now",
        "others are here, for less than a period",
        "others are here, for a period",
        "one of them is here",
    ],
)
def test_peer_of_another_fleet_is_ignored(own, known, now_ms, is_ignored):
    site = Site(*own, known=known)
    site.lists(ONE, A, now_ms=now_ms)
    assert (site.cold.usable == []) is is_ignored
    assert (ONE in site.cold.problems) is is_ignored


def test_peer_without_brokers_is_of_no_other_fleet():
    site = Site(known=[(BROKER, MASTER)])
    site.lists(ONE)
    assert site.cold.usable == [ONE]


@pytest.mark.parametrize(
    ("own", "known", "listed", "reason"),
    [
        ((), (), (), ""),
        ((), [(BROKER, MASTER)], (), ""),
        ((A,), (), (), ""),
        ((A,), [(BROKER, MASTER)], (), "registered"),
        ((A,), (), (A,), "registered"),
    ],
    ids=[
        "nothing is known of any broker",
        "one was here before",
        "another one is here",
        "it is here again",
        "one that the peers list is here",
    ],
)
def test_peers_that_were_restarted_too_and_list_no_broker_do_not_end_the_cold_start(own, known, listed, reason):
    site = Site(*own, known=known)
    for peer in (ONE, TWO):
        site.lists(peer, *listed)
    assert site.cold.why_over(0) == reason


def test_cold_start_is_not_over_while_a_peer_has_neither_answered_nor_failed():
    site = Site(A)
    site.lists(ONE, A)
    assert site.cold.why_over(0) == ""
    site.cold.ignore(TWO, "hangs")
    assert site.cold.why_over(0) == "registered"
