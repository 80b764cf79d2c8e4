"""Request codes and their handlers."""

from namesrv.wire.request_table import BODY_LIMITS, BROKER_CODES
from remoting.protocol.codes import RequestCode, ResponseCode


async def test_unknown_request_code_is_refused(desk):
    answer = await desk.request(9999)
    assert (answer.code, answer.remark) == (ResponseCode.REQUEST_CODE_NOT_SUPPORTED, " request type 9999 not supported")


async def test_every_code_with_a_limit_or_of_brokers_has_a_handler(desk):
    for code in {*BODY_LIMITS.by_code, *BROKER_CODES, RequestCode.GET_ROUTEINFO_BY_TOPIC}:
        assert (await desk.request(code)).code != ResponseCode.REQUEST_CODE_NOT_SUPPORTED
