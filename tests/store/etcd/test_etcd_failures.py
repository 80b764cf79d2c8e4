"""What an error of etcd or gRPC means; the sentences are those of etcd 3.4.23 and grpcio 1.85."""

import pytest

from store.etcd.failures import Failure, FailureKind, failure_of


def failure(code, details):
    return failure_of("h:2379", code, details)


@pytest.mark.parametrize(
    ("code", "details", "kind"),
    [
        (
            "UNAVAILABLE",
            "failed to connect to all addresses; last error: UNKNOWN: Connection refused",
            FailureKind.NOT_SENT,
        ),
        ("UNAVAILABLE", "DNS resolution failed for nowhere:2379", FailureKind.NOT_SENT),
        ("UNAVAILABLE", "etcdserver: request timed out", FailureKind.UNKNOWN),
        ("UNAVAILABLE", "etcdserver: leader changed", FailureKind.UNKNOWN),
        ("UNAVAILABLE", "Connection reset by peer", FailureKind.UNKNOWN),
        ("CANCELLED", "Channel closed!", FailureKind.UNKNOWN),
        ("UNKNOWN", "", FailureKind.UNKNOWN),
        ("UNAUTHENTICATED", "etcdserver: invalid auth token", FailureKind.TOKEN_REFUSED),
        ("INVALID_ARGUMENT", "etcdserver: revision of auth store is old", FailureKind.TOKEN_REFUSED),
        ("OUT_OF_RANGE", "etcdserver: mvcc: required revision has been compacted", FailureKind.COMPACTED),
        ("INVALID_ARGUMENT", "etcdserver: key is not provided", FailureKind.REFUSED),
        ("NOT_FOUND", "etcdserver: requested lease not found", FailureKind.REFUSED),
    ],
)
def test_failure_kind_follows_from_the_grpc_error(code, details, kind):
    assert failure(code, details).kind is kind


def test_only_a_timeout_ends_the_use_of_a_connection():
    assert failure("DEADLINE_EXCEEDED", "Deadline Exceeded").is_silence
    assert failure("UNKNOWN", "Stream removed (Deadline Exceeded)").is_silence
    assert not failure("UNAVAILABLE", "etcdserver: request timed out").is_silence


@pytest.mark.parametrize(
    ("details", "advice"),
    [
        ("etcdserver: mvcc: database space exceeded", "etcdctl alarm disarm"),
        ("etcdserver: permission denied", "role"),
        ("etcdserver: user name is empty", "a user and a password"),
        ("etcdserver: authentication failed, invalid user ID or password", "password is wrong"),
        ("failed to connect to all addresses; last error: Ssl handshake failed", "CA, the certificate"),
        ("failed to connect to all addresses; Socket closed", "does it expect TLS"),
    ],
)
def test_failure_text_names_endpoint_error_and_advice(details, advice):
    text = failure("INTERNAL", details).text
    assert text.startswith(f"etcd at h:2379: {details}")
    assert advice in text


def test_failure_without_details_is_named_by_its_code():
    assert failure("INTERNAL", "") == Failure(FailureKind.UNKNOWN, "etcd at h:2379: INTERNAL")
