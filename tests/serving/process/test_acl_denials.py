"""What an operator is told of requests that brokers with ACL do not take, or cannot."""

import pytest
from fakes.clock import FakeClock
from fakes.lines import Lines

from remoting.client import Denial
from serving.logging.logs import Logs, json_line
from serving.metrics.counters import Tally
from serving.process.acl_denials import ADDRESSES_MAX, Denials, Names, UnsignedRequests

NAMES = Names("the keys", "the list")


@pytest.fixture
def lines():
    return Lines()


@pytest.fixture
def clock():
    return FakeClock()


@pytest.fixture
def logs(lines, clock):
    own = Logs(lines, json_line(), clock, {})
    yield own
    own.close(1)


@pytest.mark.parametrize(
    ("has_keys", "is_signed", "advice"),
    [
        (True, True, "the keys must be a user that this broker knows"),
        (True, False, "name this address or its network in the list, if it is a broker of yours"),
        (False, False, "set the keys to a user of the brokers with its password, and the list to their networks"),
    ],
)
def test_a_denial_is_told_with_what_to_do(lines, logs, has_keys, is_signed, advice):
    denial = Denial(address="a:1", request_code=1008, remark=" no ", is_signed=is_signed)
    Denials(logs, NAMES, has_keys=has_keys).denied(denial)
    (line,) = lines.decoded()
    assert (line["event"], line["addr"], line["request_code"]) == ("broker_request_denied", "a:1", 1008)
    assert (line["signed"], line["error"]) == (is_signed, "no")
    assert line["advice"].startswith(advice)


def test_each_unsigned_request_counts_and_each_address_is_told_once(lines, logs):
    counts = Tally(known=[()])
    unsigned = UnsignedRequests(logs, NAMES, counts, no_brokers=frozenset({"ns:9876"}))
    for address in ("a:1", "b:1", "a:1", "ns:9876"):
        unsigned.unsigned(address)
    assert [(line["event"], line["addr"]) for line in lines.decoded()] == [
        ("broker_request_not_signed", "a:1"),
        ("broker_request_not_signed", "b:1"),
    ]
    assert all("the list" in line["advice"] for line in lines.decoded())
    assert counts.counts() == {(): 3}


def test_so_many_addresses_are_remembered_and_then_the_oldest_is_told_again(lines, logs, clock):
    unsigned = UnsignedRequests(logs, NAMES, Tally(known=[()]))
    others = [f"b{number}:1" for number in range(ADDRESSES_MAX - 1)]
    for address in ("a:1", *others, "a:1", "c:1", "a:1"):
        # The limit of all lines together is another one's.
        clock.pass_ms(10)
        unsigned.unsigned(address)
    told = [line["addr"] for line in lines.decoded()]
    assert told == ["a:1", *others, "c:1", "a:1"]
