"""Requests and what is answered to them, as values."""

import pytest

from remoting.protocol.codes import RequestCode, ResponseCode
from remoting.protocol.command import RemotingCommand
from remoting.protocol.errors import RequestRefused


class NoSuchKey(RequestRefused):
    code = ResponseCode.QUERY_NOT_FOUND
    ext_fields = {}  # noqa: RUF012  # as the product's refusals write it


def a_request(**fields):
    return RemotingCommand(**{"code": RequestCode.GET_KV_CONFIG, "opaque": 7} | fields)


@pytest.mark.parametrize(
    ("flag", "is_response", "is_oneway"),
    [
        (0, False, False),
        (1, True, False),
        (2, False, True),
        (3, True, True),
        (4, False, False),
        (6, False, True),
        (-1, True, True),
    ],
)
def test_only_the_two_lowest_bits_of_the_flag_mean_something(flag, is_response, is_oneway):
    command = a_request(flag=flag)
    assert (command.is_response, command.is_oneway) == (is_response, is_oneway)


def test_an_answer_has_the_opaque_of_its_request_and_our_language_and_version():
    request = a_request(opaque=-5, flag=2, language="GO", version=317, remark="r", ext_fields={"a": "b"}, body=b"x")
    assert request.reply() == RemotingCommand(
        code=0, opaque=-5, flag=1, language="JAVA", version=513, remark=None, ext_fields=None, body=b""
    )


def test_a_refusal_is_answered_with_its_code_its_text_and_its_fields():
    assert a_request().refusal(NoSuchKey("No config item")) == RemotingCommand(
        22, 7, flag=1, remark="No config item", ext_fields={}
    )


def test_a_refusal_of_a_command_without_answer_header_has_no_fields():
    assert a_request().refusal(RequestRefused("broken")) == RemotingCommand(1, 7, flag=1, remark="broken")
