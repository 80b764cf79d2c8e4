"""The file of sets that are Services of Kubernetes: what is taken, and what is refused with a sentence."""

import json

import pytest

from serving.config.service_sets import SETS_MAX, ServiceSetsRefused, host_label, service_sets

SET = {
    "name": "broker-a",
    "port": 10911,
    "service": "rmq-set-a.mq.svc.cluster.local",
    "brokerPort": 30911,
    "brokerIds": [1, 2],
}


def file_of(*sets):
    return json.dumps([SET | each for each in sets]).encode()


def another(number):
    return {"name": f"broker-{number}", "port": 2_000 + number, "service": f"s{number}.mq.svc"}


def test_set_knows_the_names_of_its_service_and_of_its_brokers():
    (found,) = service_sets(file_of({}))
    assert (found.service_name, found.namespace) == ("rmq-set-a", "mq")
    assert found.broker_host(7) == "b7.rmq-set-a.mq.svc.cluster.local"
    assert host_label(0) == "b0"


def test_as_many_sets_as_the_limit_are_taken():
    assert len(service_sets(file_of(*(another(i) for i in range(SETS_MAX))))) == SETS_MAX


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (b"", "truncated"),
        (b"\xff", "invalid"),
        (b"{}", "Expected `array`"),
        (b"[]", f"1 to {SETS_MAX} sets, and has 0"),
        (file_of(*(another(i) for i in range(SETS_MAX + 1))), f"and has {SETS_MAX + 1}"),
        (file_of({"port": 911}), ">= 1024"),
        (file_of({"brokerPort": 65536}), "<= 65535"),
        (file_of({"brokerIds": []}), "length >= 1"),
        (file_of({"brokerIds": [0]}), ">= 1"),
        (file_of({"release": "a b"}), "matching regex"),
        (file_of({"release": "x" * 64}), "length <= 63"),
        (file_of({"name": ""}), "length >= 1"),
        (file_of({"name": "x" * 256}), "is not a valid name of a broker set"),
        (file_of({"name": "a\nlisten b"}), "is not a valid name of a broker set"),
        (file_of({"name": "a\n"}), "is not a valid name of a broker set"),
        (file_of({"ports": 1}), "unknown field `ports`"),
        (file_of({"service": "rmq-set-a"}), "is not of the form SERVICE.NAMESPACE.svc.DOMAIN"),
        (file_of({"service": "../../pods.mq.svc"}), "is not of the form SERVICE.NAMESPACE.svc.DOMAIN"),
        (file_of({"service": "a.mq/pods.svc"}), "is not of the form SERVICE.NAMESPACE.svc.DOMAIN"),
        (file_of({"service": "A.mq.svc"}), "is not of the form SERVICE.NAMESPACE.svc.DOMAIN"),
        (file_of({"service": "a.mq.svc\n"}), "is not of the form SERVICE.NAMESPACE.svc.DOMAIN"),
        (file_of({}, another(1) | {"name": "broker-a"}), "two sets have the name broker-a"),
        (file_of({}, another(1) | {"port": 10911}), "two sets have the port 10911"),
        (file_of({}, another(1) | {"service": SET["service"]}), "two sets have the service rmq-set-a"),
    ],
)
def test_file_with_a_mistake_is_refused_with_what_is_wrong(text, why):
    with pytest.raises(ServiceSetsRefused) as refused:
        service_sets(text)
    assert why in str(refused.value)
