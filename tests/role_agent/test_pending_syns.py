"""Requests for a connection that wait for a host: which are kept, for how long, and how many."""

from role_agent.syn_relay import AGE_MAX_MS, SYNS_MAX, PendingSyns


def pending(*connections, now_ms=0):
    syns = PendingSyns()
    for number, each in enumerate(connections):
        syns.add(each, b"%d" % number, now_ms)
    return syns


def test_oldest_are_passed_on_first_and_once():
    syns = pending(b"a", b"b", b"c")
    assert (syns.pop(2), syns.pop(2), syns.pop(2)) == ([b"0", b"1"], [b"2"], [])


def test_request_that_was_sent_again_replaces_the_former_one():
    assert pending(b"a", b"b", b"a").pop(9) == [b"1", b"2"]


def test_request_is_kept_until_its_client_has_given_up():
    syns = pending(b"a", now_ms=100)
    syns.add(b"b", b"later", 101)
    syns.expire(100 + AGE_MAX_MS)
    assert len(syns) == 2
    syns.expire(101 + AGE_MAX_MS)
    assert syns.pop(9) == [b"later"]
    syns.expire(10 * AGE_MAX_MS)


def test_removed_request_is_not_passed_on():
    syns = pending(b"a", b"b")
    syns.remove(b"a")
    syns.remove(b"never seen")
    assert syns.pop(9) == [b"1"]


def test_oldest_request_makes_room_for_one_too_many():
    syns = pending(*range(SYNS_MAX))
    syns.add(0, b"sent again", 0)
    assert len(syns) == SYNS_MAX
    syns.add(SYNS_MAX, b"new", 0)
    assert len(syns) == SYNS_MAX
    assert syns.pop(1) == [b"2"]
