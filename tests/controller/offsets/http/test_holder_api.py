"""What operators see of locks at brokers: pages of holders and of overlaps."""

from dataclasses import dataclass, field

import pytest
from fakes.clock import FakeClock
from fakes.locking_broker import RecordingHolderObserver
from holder_builders import GROUP, a_member, an_answer, connections

from controller.offsets.http import holder_views
from controller.offsets.http.holder_views import HolderPages
from controller.offsets.http.refusing import ManagerFollows
from controller.offsets.locks.holder_poller import HolderMirror
from controller.offsets.locks.replay_rules import ReplayedLocks
from controller.offsets.locks.sessions.lock_table import LockTable
from controller.offsets.locks.sessions.values import LockChanges, LockGroup, OrderlyChange
from controller.offsets.service.manager_role import ManagerRole
from serving.http.pages import PageRequest
from serving.http.views import HttpRefused, StateConflict, ViewRequest

CLUSTER = "DefaultCluster"


class Held:
    """What is known of one cluster."""

    def __init__(self, clock):
        self.mirror = HolderMirror(clock, RecordingHolderObserver())
        self.replayed = ReplayedLocks()


@dataclass
class Site:
    clock: FakeClock = field(default_factory=FakeClock)
    table: LockTable = field(default_factory=LockTable)
    clusters: dict = field(default_factory=dict)

    def __post_init__(self):
        self.held = self.clusters[CLUSTER] = Held(self.clock)
        self.role = ManagerRole(self.clock, lambda term: None, lambda: None)
        self.role.leads(None)
        self.role.loaded(1)
        self.pages = HolderPages(self, self.role, self.clock, self)

    def record(self, *answers):
        for each in answers:
            self.held.mirror.record(each)

    def declare(self, group=GROUP):
        change = OrderlyChange(LockGroup(CLUSTER, "", group), before=False, after=True)
        self.table.apply(LockChanges(groups=(change,)), 0)

    def holders(self, limit=100, cursor=None, **query):
        page = PageRequest(limit, cursor)
        return self.pages.holders(ViewRequest(query={"group": GROUP} | query, page=page))

    def overlaps(self, limit=100, cursor=None):
        return self.pages.overlaps(ViewRequest(page=PageRequest(limit, cursor)))


@pytest.fixture
def site():
    return Site()


def test_holders_of_a_group_are_listed_with_what_they_hold(site):
    now_ms, unix_ms = site.clock.now_ms(), site.clock.unix_ms()
    site.declare()
    site.held.mirror.members.record("10.0.0.1:10911", GROUP, connections("c1", "c2"), now_ms)
    site.record(an_answer(now_ms - 1000, "c1", 0, 1, took_ms=0), an_answer(now_ms, "c2", took_ms=0))
    site.held.replayed.add(a_member("c1"), list(site.held.mirror.table.holdings_of(a_member("c1")))[:1], now_ms)
    found = site.holders()
    assert (found.is_declared, found.kind, found.members, found.next_cursor) == (True, "orderly", 2, None)
    first, second = found.holders
    assert (first.client_id, first.confirmed_unix_ms) == ("c1", unix_ms - 1000)
    assert [(each.queue_id, each.state, each.replayed_unix_ms) for each in first.queues] == [
        (0, "held", unix_ms),
        (1, "held", None),
    ]
    assert (second.client_id, second.queues) == ("c2", [])


def test_holders_come_in_pages_of_clients_with_so_many_queues_at_most(site, monkeypatch):
    site.record(*(an_answer(site.clock.now_ms(), f"c{number}", number) for number in range(5)))
    page = site.holders(limit=2)
    assert [each.client_id for each in page.holders] == ["c0", "c1"]
    monkeypatch.setattr(holder_views, "QUEUES_SHOWN_MAX", 1)
    page = site.holders(limit=3, cursor=page.next_cursor)
    assert [each.client_id for each in page.holders] == ["c2"]
    page = site.holders(limit=3, cursor=page.next_cursor)
    assert [each.client_id for each in page.holders] == ["c3"]


def test_queues_that_are_given_up_or_whose_lock_ran_out_are_shown_so(site):
    site.record(an_answer(0, "c1", 0, is_dropped=True), an_answer(0, "c2", 1, pulled_at_ms=31_000))
    assert [each.queues[0].state for each in site.holders().holders] == ["dropped", "expired"]


def test_nothing_is_known_of_a_group_that_is_not_declared(site):
    found = site.holders(group="other", cluster="elsewhere")
    assert (found.is_declared, found.kind, found.members, found.holders) == (False, "unknown", 0, [])


def test_overlaps_are_listed_with_both_clients(site):
    now_ms = site.clock.now_ms()
    site.record(an_answer(0, "c1", 0, 1), an_answer(100, "c2", 0, 1), an_answer(200, "c1", 0, 1))
    found = site.overlaps(limit=1)
    assert found.total == 2
    (overlap,) = found.overlaps
    assert (overlap.cluster, overlap.group, overlap.queue_id, overlap.clients) == (CLUSTER, GROUP, 0, ("c1", "c2"))
    assert overlap.since_unix_ms == site.clock.unix_ms() - now_ms + 110
    (overlap,) = site.overlaps(limit=1, cursor=found.next_cursor).overlaps
    assert overlap.queue_id == 1


def test_without_a_group_no_holders_are_listed(site):
    with pytest.raises(HttpRefused, match="group must be given"):
        site.pages.holders(ViewRequest())


def test_manager_that_does_not_lead_sends_to_the_one_that_does(site):
    site.role.follows(None)
    with pytest.raises(ManagerFollows):
        site.holders()


def test_manager_that_follows_no_brokers_says_what_is_to_be_set(site):
    pages = HolderPages(site, site.role, site.clock, None)
    with pytest.raises(StateConflict, match="set controllerHttpAddr or namesrvAddr"):
        pages.overlaps(ViewRequest())
