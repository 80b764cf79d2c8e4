"""What peers and tools read when a request is not carried out."""

import pytest
from builders import TOPIC

from namesrv.refusals import (
    FieldMissing,
    KvKeyMissing,
    KvNamespaceNotFound,
    ListDisabled,
    NameTooLong,
    NotReady,
    QueryNotFound,
    TopicNotExist,
)
from remoting.protocol.codes import ResponseCode
from remoting.protocol.errors import CodeNotSupported
from serving.config.stored_config import NotStored

FAQ = "\nSee https://rocketmq.apache.org/docs/bestPractice/06FAQ for further details."
NO_ROUTE = "No topic route info in name server for the topic: "


@pytest.mark.parametrize(
    ("refusal", "code", "remark"),
    [
        (CodeNotSupported(9999), ResponseCode.REQUEST_CODE_NOT_SUPPORTED, " request type 9999 not supported"),
        (KvKeyMissing(), ResponseCode.SYSTEM_ERROR, "namespace or key is null"),
        (QueryNotFound("NS", "k"), ResponseCode.QUERY_NOT_FOUND, "No config item, Namespace: NS Key: k"),
        (QueryNotFound(None, None), ResponseCode.QUERY_NOT_FOUND, "No config item, Namespace: null Key: null"),
        (KvNamespaceNotFound("NS"), ResponseCode.QUERY_NOT_FOUND, "No config item, Namespace: NS"),
        (KvNamespaceNotFound(None), ResponseCode.QUERY_NOT_FOUND, "No config item, Namespace: null"),
        (TopicNotExist(TOPIC), ResponseCode.TOPIC_NOT_EXIST, f"{NO_ROUTE}{TOPIC}{FAQ}"),
        (TopicNotExist(None), ResponseCode.TOPIC_NOT_EXIST, f"{NO_ROUTE}null{FAQ}"),
        (ListDisabled(), ResponseCode.SYSTEM_ERROR, "disable"),
        (NotReady(), ResponseCode.SYSTEM_ERROR, "name server not ready"),
    ],
)
def test_peers_and_tools_read_the_code_and_the_words_of_java(refusal, code, remark):
    assert (refusal.code, str(refusal)) == (code, remark)


@pytest.mark.parametrize(
    ("refusal", "remark"),
    [
        (
            FieldMissing("REGISTER_BROKER", "brokerName"),
            "REGISTER_BROKER needs the header field brokerName, which is missing or not readable",
        ),
        (
            NameTooLong("REGISTER_BROKER", "clusterName", 1025),
            "REGISTER_BROKER: clusterName has 1025 characters, more than 1024",
        ),
        (NotStored("kvConfig.json: no space left"), "kvConfig.json: no space left"),
    ],
)
def test_where_java_answers_success_or_an_exception_an_error_names_the_problem(refusal, remark):
    assert (refusal.code, str(refusal)) == (ResponseCode.SYSTEM_ERROR, remark)


def test_a_topic_name_that_no_broker_can_create_is_cut_in_the_answer():
    longest, longer = "t" * 1024, "t" * 1025
    assert str(TopicNotExist(longest)) == str(TopicNotExist(longer)) == f"{NO_ROUTE}{longest}{FAQ}"


def test_only_a_missing_entry_is_answered_with_empty_fields_because_java_has_a_header_class_for_it():
    assert QueryNotFound("NS", "k").ext_fields == {}
    assert KvNamespaceNotFound("NS").ext_fields is None
    assert TopicNotExist(TOPIC).ext_fields is None
