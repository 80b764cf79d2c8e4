"""Numbers that peers and we must agree on."""

import pytest

from remoting.protocol import codes
from remoting.protocol.codes import (
    CONTROLLER_REQUESTS,
    LANGUAGES,
    NAMESRV_REQUESTS,
    BrokerRequestCode,
    RequestCode,
    ResponseCode,
    SerializeType,
)


@pytest.mark.parametrize(
    ("release", "ordinal"),
    [
        ((4, 9, 4), codes.VERSION_4_9_4),
        ((5, 0, 0), codes.VERSION_5_0_0),
        ((5, 3, 1), codes.VERSION_5_3_1),
        ((5, 5, 0), codes.VERSION_5_5_0),
    ],
)
def test_a_release_has_the_ordinal_that_java_gives_it(release, ordinal):
    major, minor, patch = release
    assert ordinal == 213 + 20 * (10 * (major - 4) + minor) + 2 * patch


def test_the_oldest_version_that_is_compared_with_is_3_0_11():
    assert codes.VERSION_3_0_11 == 37


@pytest.mark.parametrize(
    ("number", "name"),
    [(0, "JAVA"), (1, "CPP"), (2, "DOTNET"), (3, "PYTHON"), (9, "GO"), (11, "OMS"), (12, "RUST"), (13, "NODE_JS")],
)
def test_a_language_has_the_number_that_java_gives_it(number, name):
    assert LANGUAGES[number] == name


def test_no_language_has_a_number_above_13():
    assert len(LANGUAGES) == 14
    assert len(set(LANGUAGES)) == 14


def test_a_header_is_json_or_binary():
    assert [(kind.name, kind.value) for kind in SerializeType] == [("JSON", 0), ("ROCKETMQ", 1)]


def test_every_request_of_a_nameserver_has_its_number():
    assert [code.value for code in NAMESRV_REQUESTS] == [
        *(100, 101, 102, 103, 104, 105, 106, 205, 206, 216, 217, 219, 224, 304, 311, 312, 313, 318, 319, 322, 327),
        *(901, 904, 905, 20105),
    ]


def test_every_request_of_a_controller_has_its_number():
    assert [code.value for code in CONTROLLER_REQUESTS] == [904, *range(1001, 1007), *range(1009, 1014)]


def test_every_answer_of_a_nameserver_or_a_broker_has_its_number():
    assert [code.value for code in ResponseCode if code < 2000] == [0, 1, 2, 3, 16, 17, 22, 26, 29, 206, 207, 1500]


def test_requests_that_only_brokers_answer_are_none_of_a_server_here():
    assert {code.value for code in BrokerRequestCode}.isdisjoint(RequestCode)


def test_every_answer_of_a_controller_has_its_number():
    assert [code.value for code in ResponseCode if code >= 2000] == list(range(2000, 2015))
