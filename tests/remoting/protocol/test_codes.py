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
from remoting.protocol.releases import release_name


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


def test_languages_and_forms_of_headers_have_the_numbers_that_java_gives_them():
    assert (
        *("JAVA", "CPP", "DOTNET", "PYTHON", "DELPHI", "ERLANG", "RUBY", "OTHER", "HTTP", "GO"),
        *("PHP", "OMS", "RUST", "NODE_JS"),
    ) == LANGUAGES
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


@pytest.mark.parametrize(
    ("version", "name"),
    [
        (213, "V4_0_0"),
        (317, "V4_5_2"),
        (401, "V4_9_4"),
        (413, "V5_0_0"),
        (441, "V5_1_4"),
        (512, "V5_5_0_SNAPSHOT"),
        (513, "V5_5_0"),
        (611, "V5_9_9"),
        (612, None),
        (37, None),
        (0, None),
    ],
)
def test_number_of_a_release_has_its_name(version, name):
    assert release_name(version) == name
