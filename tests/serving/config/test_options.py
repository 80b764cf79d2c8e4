"""Which texts each kind of option takes, and what it makes of them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from serving.config.options import (
    ANY_VALUE,
    INT_MAX,
    INT_MIN,
    LONG_MAX,
    TEXT_CHARS_MAX,
    AddressList,
    AlwaysFalse,
    FilePath,
    Flag,
    NamedAddressList,
    OneOf,
    Option,
    Secret,
    Text,
    Whole,
    is_one_line,
    text_of,
)

PORT = Whole(0, 65535)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("9876", 9876),
        (" 9876\t", 9876),
        ("+1", 1),
        ("0", 0),
        ("00007", 7),
        ("65535", 65535),
        ("65536", None),
        ("-1", None),
        ("", None),
        ("0x10", None),
        ("9_876", None),
        ("9 876", None),
        ("1e3", None),
        ("9876.0", None),
        ("٣", None),
        ("9" * 5000, None),
    ],
)
def test_a_whole_number_is_decimal_digits_within_its_range(text, value):
    assert PORT.value_of(text) == value


def test_what_number_is_allowed_reads_as_a_sentence():
    assert PORT.allowed == "a whole number from 0 to 65535"


@given(st.integers(INT_MIN, INT_MAX))
def test_every_java_int_is_taken(number):
    assert Whole().value_of(str(number)) == number


def test_a_number_that_may_be_as_long_as_a_java_long_ends_there():
    assert Whole(0, LONG_MAX).value_of(str(LONG_MAX)) == LONG_MAX
    assert Whole(0, LONG_MAX).value_of(str(LONG_MAX + 1)) is None


@pytest.mark.parametrize(
    ("text", "value"),
    [("true", True), ("FALSE", False), (" True ", True), ("yes", None), ("1", None), ("", None), ("tru", None)],
)
def test_a_flag_is_true_or_false_in_any_case(text, value):
    assert Flag().value_of(text) is value


@pytest.mark.parametrize(("text", "value"), [("false", False), (" FALSE ", False), ("true", None), ("", None)])
def test_a_part_we_do_not_have_can_only_be_off(text, value):
    kind = AlwaysFalse("there is no such part")
    assert kind.value_of(text) is value
    assert kind.allowed == "false (there is no such part)"


@pytest.mark.parametrize(("text", "value"), [("JSON", "JSON"), (" json ", "JSON"), ("xml", None), ("", None)])
def test_a_word_is_taken_in_any_case_and_spelled_as_listed(text, value):
    assert OneOf(("JSON", "ROCKETMQ")).value_of(text) == value


def test_what_words_are_allowed_reads_as_a_sentence():
    assert OneOf(("none", "optional", "require")).allowed == "none, optional or require"
    assert OneOf(("none", "optional", "require")).placeholder == "none|optional|require"


@pytest.mark.parametrize("kind", [Text(), FilePath()])
@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("  center ", "center"),
        ("", ""),
        ("a\nb", None),
        ("a\x00b", None),
        ("a\x7f", None),
        ("caf\xc3\xa9 \x80", "caf\xc3\xa9 \x80"),
        ("x" * TEXT_CHARS_MAX, "x" * TEXT_CHARS_MAX),
        ("x" * (TEXT_CHARS_MAX + 1), None),
    ],
)
def test_text_is_one_line_without_the_blanks_around_it(kind, text, value):
    assert kind.value_of(text) == value


@pytest.mark.parametrize("kind", [Text(may_be_blank=False), FilePath(may_be_blank=False)])
def test_text_that_is_needed_cannot_be_blank(kind):
    assert kind.value_of(" ") is None
    assert kind.value_of("a") == "a"


def test_the_allowed_texts_name_whether_blank_is_one():
    assert Text().allowed.startswith("text of at most 4096 characters")
    assert Text(may_be_blank=False).allowed.startswith("text that is not blank, of at most 4096 characters")
    assert FilePath().allowed == "a path on this machine, not a URI, of at most 4096 characters"


def test_a_uri_is_no_path():
    assert FilePath().value_of("hdfs://nn:8020/history") is None


def test_a_secret_is_taken_as_it_is():
    assert Secret().value_of(" p\\a\nss ") == " p\\a\nss "
    assert Secret().value_of("x" * (TEXT_CHARS_MAX + 1)) is None


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", ""),
        (" ; ", ""),
        ("ns1:9876", "ns1:9876"),
        (" ns1:9876 ; 10.0.0.2:9876; ", "ns1:9876;10.0.0.2:9876"),
        ("[::1]:9876", "[::1]:9876"),
        ("::1:9876", None),
        ("ns1", None),
        ("ns1:0", None),
        ("ns1:65536", None),
        (":9876", None),
        ("ns1:9876,ns2:9876", None),
        ("ns 1:9876", None),
        ("http://ns1:9876", None),
        (";".join(["nameserver:9876"] * 300), None),
    ],
)
def test_an_address_list_is_hosts_with_ports(text, value):
    assert AddressList().value_of(text) == value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", ""),
        (" 10.0.0.0/16 ;; broker-a:10911;", "10.0.0.0/16;broker-a:10911"),
        ("10.0.0.0/16;broker-a:0", None),
        ("0.0.0.0/0", None),
        (";".join(["10.0.0.0/16"] * 400), None),
    ],
)
def test_a_list_of_named_addresses_is_networks_and_hosts_with_ports_or_without(text, value):
    assert NamedAddressList().value_of(text) == value


@pytest.mark.parametrize(
    ("key", "argument", "variable"),
    [
        ("listenPort", "--listen-port", "LISTEN_PORT"),
        (
            "unRegisterBrokerQueueCapacity",
            "--un-register-broker-queue-capacity",
            "UN_REGISTER_BROKER_QUEUE_CAPACITY",
        ),
        ("tls.server.need.client.auth", "--tls-server-need-client-auth", "TLS_SERVER_NEED_CLIENT_AUTH"),
        ("tls.server.keyPath", "--tls-server-key-path", "TLS_SERVER_KEY_PATH"),
    ],
)
def test_argument_and_variable_follow_from_the_property(key, argument, variable):
    option = Option(key, Text(), "", ANY_VALUE)
    assert (option.argument, option.variable) == (argument, variable)


def test_only_a_secret_that_is_set_is_masked():
    assert Option("tls.server.keyPassword", Secret(), "", ANY_VALUE).shown("pass") == "******"
    assert Option("tls.server.keyPassword", Secret(), "", ANY_VALUE).shown("") == ""
    assert Option("tls.server.keyPath", FilePath(), "", ANY_VALUE).shown("/key") == "/key"


def test_values_are_written_as_java_writes_them():
    assert [text_of(True), text_of(False), text_of(9876), text_of("a b")] == ["true", "false", "9876", "a b"]


def test_a_text_with_a_line_end_is_not_one_line():
    assert is_one_line("a b")
    assert not is_one_line("a\rb")
