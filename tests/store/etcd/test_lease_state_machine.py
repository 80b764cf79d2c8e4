"""Who leads, from what one controller has seen: told as stories with a clock."""

import pytest

from store.etcd.lease_state_machine import (
    CAMPAIGN_AGAIN_MS,
    LEASE_TTL_S,
    LOOK_EVERY_MS,
    MARGIN_MS,
    RENEW_EVERY_MS,
    RETRY_MS,
    Campaign,
    Follows,
    GrantLease,
    Holder,
    Leadership,
    Leads,
    Leave,
    Look,
    Release,
    Renew,
    Wait,
)
from store.store import ControllerMember

ME = ControllerMember(id="n1", address="10.0.0.1:9878")
OTHER = ControllerMember(id="n2", address="10.0.0.2:9878")
LEASE = 77
UNTIL_MS = LEASE_TTL_S * 1000 - MARGIN_MS


def a_holder(member=OTHER, *, run="theirs", token=10, lease_id=5):
    return Holder(member=member, run=run, token=token, lease_id=lease_id)


MINE = a_holder(ME, run="mine", token=20, lease_id=LEASE)


@pytest.fixture
def new():
    return Leadership(me=ME, run="mine")


@pytest.fixture
def following(new):
    return new.looked(a_holder(), 10, 0, known_before=0)


@pytest.fixture
def leading(new):
    """It leads since 0, by the lease it was granted then."""
    return new.looked(None, 19, 0, known_before=0).granted(LEASE, ttl_s=LEASE_TTL_S, sent_ms=0).observed(MINE, 20)


# Passing the lead on


def test_leader_that_hands_over_releases_the_key_and_campaigns_only_after_a_while(leading):
    passed = leading.passed_on(1000)
    assert passed.role == Follows(None)
    assert passed.next_step(1000) == Look()
    seen = passed.looked(MINE, 20, 1000, known_before=20)
    assert seen.next_step(1000) == Release(MINE)
    gone = seen.released().looked(None, 21, 1100, known_before=20)
    # It goes on to look, so that it can name whoever leads instead.
    assert gone.next_step(1100) == Wait(1100 + LOOK_EVERY_MS)
    late = gone.looked(None, 21, 1000 + CAMPAIGN_AGAIN_MS, known_before=21)
    assert late.next_step(999 + CAMPAIGN_AGAIN_MS) == Wait(1000 + CAMPAIGN_AGAIN_MS)
    assert late.next_step(1000 + CAMPAIGN_AGAIN_MS) == GrantLease()


# Coming to lead


def test_new_controller_reads_the_leader_key_first_and_names_no_leader(new):
    assert new.next_step(0) == Look()
    assert new.role == Follows(None)


def test_without_a_leader_the_lease_is_granted_before_the_campaign(new):
    seen = new.looked(None, 10, 0, known_before=0)
    assert seen.next_step(0) == GrantLease()
    granted = seen.granted(LEASE, ttl_s=LEASE_TTL_S, sent_ms=100)
    assert granted.next_step(100) == Campaign(LEASE)
    assert granted.role == Follows(None)
    assert granted.observed(MINE, 20).role == Leads(100 + UNTIL_MS)


def test_aged_lease_is_not_used_to_campaign(new):
    granted = new.looked(None, 10, 0, known_before=0).granted(LEASE, ttl_s=LEASE_TTL_S, sent_ms=0)
    later = granted.looked(None, 10, RENEW_EVERY_MS, known_before=0)
    assert later.next_step(RENEW_EVERY_MS) == GrantLease()


def test_controller_that_loses_the_campaign_follows(new):
    lost = new.looked(None, 10, 0, known_before=0).granted(LEASE, ttl_s=LEASE_TTL_S, sent_ms=0).observed(a_holder(), 20)
    assert lost.role == Follows(OTHER)
    assert lost.next_step(0) == Wait(LOOK_EVERY_MS)


def test_follower_reads_the_leader_key_periodically(following):
    assert following.role == Follows(OTHER)
    assert following.next_step(0) == Wait(LOOK_EVERY_MS)
    assert following.next_step(LOOK_EVERY_MS) == Look()


def test_follower_campaigns_at_once_when_the_leader_key_is_deleted(following):
    assert following.observed(None, 11).next_step(1) == GrantLease()


def test_campaign_with_a_lost_response_is_found_to_be_won(new):
    sent = new.looked(None, 10, 0, known_before=0).granted(LEASE, ttl_s=LEASE_TTL_S, sent_ms=0).failed(900)
    assert sent.next_step(900) == Wait(900 + RETRY_MS)
    assert sent.next_step(900 + RETRY_MS) == Look()
    assert sent.looked(MINE, 20, 1200, known_before=0).role == Leads(UNTIL_MS)


def test_campaign_found_to_be_won_after_the_lease_gives_no_leadership(new):
    found = (
        new.looked(None, 10, 0, known_before=0)
        .granted(LEASE, ttl_s=LEASE_TTL_S, sent_ms=0)
        .failed(900)
        .looked(MINE, 20, UNTIL_MS, known_before=0)
        .at(UNTIL_MS)
    )
    assert found.role == Follows(None)
    assert found.next_step(UNTIL_MS) == Look()
    assert found.looked(MINE, 21, UNTIL_MS, known_before=0).next_step(UNTIL_MS) == Release(MINE)


# Leading


def test_renewed_lease_counts_from_the_renewal_request(leading):
    assert leading.next_step(0) == Wait(min(RENEW_EVERY_MS, LOOK_EVERY_MS))
    assert leading.next_step(RENEW_EVERY_MS) == Renew(LEASE)
    assert leading.renewed(LEASE, ttl_s=LEASE_TTL_S, sent_ms=1500).role == Leads(1500 + UNTIL_MS)


def test_leader_reads_the_leader_key_periodically(leading):
    renewed = leading.renewed(LEASE, ttl_s=LEASE_TTL_S, sent_ms=1500)
    assert renewed.next_step(1500) == Look()
    assert renewed.looked(MINE, 25, 1500, known_before=0).role == Leads(1500 + UNTIL_MS)


def test_leader_that_cannot_renew_stops_at_its_deadline(leading):
    failing = leading.failed(1600)
    assert failing.next_step(1600) == Wait(1600 + RETRY_MS)
    assert failing.next_step(1600 + RETRY_MS) == Renew(LEASE)
    assert failing.at(UNTIL_MS - 1).role == Leads(UNTIL_MS)
    assert failing.at(UNTIL_MS).role == Follows(None)
    assert failing.at(UNTIL_MS).token == 0


def test_expired_lease_ends_leadership(leading):
    ended = leading.renewed(LEASE, ttl_s=0, sent_ms=1500)
    assert (ended.role, ended.next_step(1500)) == (Follows(None), Look())


def test_renewal_of_an_earlier_lease_changes_nothing(leading):
    assert leading.renewed(LEASE + 1, ttl_s=0, sent_ms=1500) == leading
    stopped = leading.without_key()
    assert stopped.renewed(LEASE, ttl_s=LEASE_TTL_S, sent_ms=1500) == stopped


@pytest.mark.parametrize("seen", [None, a_holder(token=30), a_holder(ME, run="mine", token=30)])
def test_leader_stops_when_the_leader_key_is_not_its_own(leading, seen):
    stopped = leading.observed(seen, 30)
    assert stopped.token == 0
    assert not isinstance(stopped.role, Leads)


def test_older_leader_key_changes_nothing(leading):
    assert leading.observed(None, 19) == leading
    assert leading.observed(a_holder(), 10) == leading


def test_recheck_reads_the_leader_key_at_once(following):
    assert following.recheck().next_step(1) == Look()


def test_restored_store_ends_leadership_even_if_it_contains_the_own_key(leading):
    committed = leading.revision_seen(40).revision_seen(30)
    restored = committed.looked(MINE, 25, 3000, known_before=committed.known_revision)
    assert restored.role == Follows(None)
    assert restored.next_step(3000) == Release(MINE)
    assert restored.released().next_step(3000) == Look()
    assert restored.known_revision == 25
    assert restored.looked(None, 26, 3000, known_before=25).next_step(3000) == GrantLease()


def test_holder_of_the_key_in_a_restored_store_is_followed(leading):
    restored = leading.revision_seen(40).looked(a_holder(), 12, 3000, known_before=40)
    assert restored.role == Follows(OTHER)
    assert restored.observed(None, 13).next_step(3000) == GrantLease()


def test_read_overtaken_by_a_watched_change_is_no_restore(leading):
    assert leading.revision_seen(40).looked(MINE, 25, 1500, known_before=20).token == MINE.token


# Former lives, and other processes


def test_restarted_leader_deletes_its_old_key_once(new):
    old = a_holder(ME, run="before", token=5)
    seen = new.looked(old, 10, 0, known_before=0)
    assert (seen.role, seen.next_step(0)) == (Follows(None), Release(old))
    failed = seen.failed(0).looked(old, 10, RETRY_MS, known_before=0)
    assert failed.next_step(RETRY_MS) == Release(old)
    released = failed.released()
    assert released.next_step(RETRY_MS) == Look()
    assert released.looked(a_holder(ME, run="another", token=11), 11, RETRY_MS, known_before=0).next_step(
        RETRY_MS
    ) == Wait(RETRY_MS + LOOK_EVERY_MS)


def test_other_process_with_the_same_id_is_not_deposed(leading):
    twin = leading.observed(None, 30).looked(a_holder(ME, run="twin", token=31), 31, 100, known_before=0)
    assert twin.role == Follows(None)
    assert twin.next_step(100) == Wait(100 + LOOK_EVERY_MS)


# Without the store, and the end


def test_follower_without_news_of_the_leader_names_none_and_reads_the_key(following):
    assert following.at(LEASE_TTL_S * 1000 - 1).role == Follows(OTHER)
    silent = following.at(LEASE_TTL_S * 1000)
    assert (silent.role, silent.next_step(LEASE_TTL_S * 1000)) == (Follows(None), Look())


def test_leaving_controller_returns_key_and_lease_and_does_not_lead(leading, following, new):
    assert leading.leaving().role == Follows(None)
    assert leading.leaving().next_step(0) == Leave(MINE.token, LEASE)
    assert leading.leaving().left().next_step(0) == Leave(0, None)
    assert following.leaving().next_step(0) == Leave(0, None)
    assert new.granted(LEASE, ttl_s=LEASE_TTL_S, sent_ms=0).leaving().next_step(0) == Leave(0, LEASE)


def test_leadership_needs_key_and_lease(leading):
    assert leading.without_key().role == Follows(None)
    assert leading.at(UNTIL_MS).at(UNTIL_MS).role == Follows(None)


# What the store grants


@pytest.mark.parametrize("ttl_s", [2, 3, 60])
def test_lease_lasts_for_the_granted_time_from_its_request(new, ttl_s):
    leading = new.looked(None, 19, 0, known_before=0).granted(LEASE, ttl_s=ttl_s, sent_ms=100).observed(MINE, 20)
    until_ms = 100 + ttl_s * 1000 - MARGIN_MS
    assert leading.role == Leads(until_ms)
    assert isinstance(leading.at(until_ms - 1).role, Leads)
    assert leading.at(until_ms).role == Follows(None)


def test_renewal_lasts_for_the_granted_time(leading):
    assert leading.renewed(LEASE, ttl_s=2, sent_ms=1500).role == Leads(1500 + 2000 - MARGIN_MS)


def test_leader_key_of_another_with_the_same_revision_is_not_the_own(leading):
    # etcd was put back to an older state, twice: its revisions have come again.
    other = a_holder(OTHER, run="theirs", token=MINE.token)
    assert leading.observed(other, 21).role == Follows(OTHER)
    assert leading.observed(other, 21).token == 0
