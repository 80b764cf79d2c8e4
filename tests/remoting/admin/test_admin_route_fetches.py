"""Which connections have an old route, in the answers of a NameServer."""

import json

import pytest

from remoting.admin.route_fetches import ClientFetch, host_of, watch_route_fetches
from remoting.protocol.codes import RequestCode
from remoting.protocol.command import RemotingCommand
from remoting.protocol.errors import BodyError, NotSupported, Refused

PRESENT = {"number": 3, "sinceUnixMs": 1_700_000_005_000, "writeQueueNums": {"broker-a": 2}, "orderTopicConf": None}
OLD = {"clientAddress": "10.0.0.9:51234", "proxyAddress": None, "version": 2, "fetchedUnixMs": 1_700_000_001_000}
WATCHED = {
    "topic": "TopicTest",
    "watchId": "w",
    "watchedSinceUnixMs": 1_700_000_000_000,
    "watchedBeforeMs": 4_000,
    "endsInMs": 60_000,
    "present": PRESENT,
    "isComplete": True,
    "fetches": [
        OLD | {"closedForMs": None},
        OLD | {"version": 3, "proxyAddress": "10.0.0.1:80", "closedForMs": None},
        OLD | {"closedForMs": 7_000},
    ],
}


def test_request_names_the_topic_and_how_long_it_is_watched():
    request = watch_route_fetches("TopicTest", 600_000).request
    assert request.code == RequestCode.WATCH_ROUTE_FETCHES
    assert request.ext_fields == {"topic": "TopicTest", "keepMs": "600000"}


def test_fetch_is_present_if_its_version_is():
    answer = RemotingCommand(0, body=json.dumps(WATCHED).encode())
    found = watch_route_fetches("TopicTest", 1).read_response(answer)
    assert (found.watched_before_ms, found.write_queue_nums) == (4_000, {"broker-a": 2})
    assert found.is_complete
    assert found.fetches == (
        ClientFetch(host="10.0.0.9", has_proxy=False, is_present=False, closed_ms=None),
        ClientFetch(host="10.0.0.9", has_proxy=True, is_present=True, closed_ms=None),
        ClientFetch(host="10.0.0.9", has_proxy=False, is_present=False, closed_ms=7_000),
    )


@pytest.mark.parametrize(("code", "error"), [(3, NotSupported), (1, Refused), (17, Refused)])
def test_name_server_that_does_not_watch_raises(code, error):
    with pytest.raises(error):
        watch_route_fetches("TopicTest", 1).read_response(RemotingCommand(code, remark="no"))


@pytest.mark.parametrize("left_out", ["fetches", "watchedBeforeMs"])
def test_answer_that_leaves_out_fetches_or_how_long_it_watched_tells_nothing(left_out):
    body = json.dumps({key: value for key, value in WATCHED.items() if key != left_out}).encode()
    with pytest.raises(BodyError):
        watch_route_fetches("TopicTest", 1).read_response(RemotingCommand(0, body=body))


@pytest.mark.parametrize(
    ("address", "host"), [("10.0.0.9:5", "10.0.0.9"), ("/10.0.0.9:5", "10.0.0.9"), ("[::1]:5", "[::1]")]
)
def test_host_of_an_address_is_without_its_port(address, host):
    assert host_of(address) == host
