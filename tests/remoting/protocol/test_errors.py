"""What the errors say to the one who reads them."""

import pytest

from remoting.protocol.codes import ResponseCode
from remoting.protocol.errors import (
    BodyError,
    FrameError,
    FrameTooLarge,
    HeaderError,
    InvokeError,
    InvokeTimeout,
    RemotingError,
    RequestRefused,
)


def test_a_frame_over_the_limit_names_both_sizes_and_the_property():
    error = FrameTooLarge(16_777_217, 16_777_216)
    assert str(error) == "a frame of 16777217 bytes is over the limit of 16777216 (frameMaxLength)"
    assert (error.frame_bytes, error.frame_bytes_max) == (16_777_217, 16_777_216)


def test_a_request_of_ours_without_answer_names_the_peer_and_the_wait():
    error = InvokeTimeout("127.0.0.1:10911", 3000)
    assert str(error) == "request to 127.0.0.1:10911 failed: no answer within 3000 ms"
    assert (error.address, error.timeout_ms) == ("127.0.0.1:10911", 3000)


def test_a_request_of_ours_that_fails_names_the_peer_and_the_reason():
    error = InvokeError("127.0.0.1:10911", "connection refused")
    assert str(error) == "request to 127.0.0.1:10911 failed: connection refused"
    assert error.reason == "connection refused"


@pytest.mark.parametrize(
    ("error", "kind"), [(FrameError, "bad_frame"), (HeaderError, "bad_frame"), (FrameTooLarge, "too_large")]
)
def test_rejected_bytes_are_counted_by_their_kind(error, kind):
    assert error.kind == kind


@pytest.mark.parametrize("error", [FrameTooLarge, HeaderError])
def test_whatever_breaks_the_framing_closes_the_connection(error):
    assert issubclass(error, FrameError)


@pytest.mark.parametrize("error", [BodyError, RequestRefused, InvokeError])
def test_a_request_that_fails_leaves_the_connection_open(error):
    assert issubclass(error, RemotingError)
    assert not issubclass(error, FrameError)


def test_a_refusal_is_a_system_error_without_fields_unless_given_otherwise():
    assert RequestRefused.code is ResponseCode.SYSTEM_ERROR
    assert RequestRefused.ext_fields is None
