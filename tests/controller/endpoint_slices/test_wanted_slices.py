"""Which EndpointSlices a set has, and what becomes of those that are stored."""

import msgspec
import pytest
from controller_builders import a_set
from msgspec.structs import replace

from controller.endpoint_slices.wanted import EndpointSlice, ForeignSlice, next_slice, wanted_slices
from controller.sets.broker_set import Replica
from serving.config.service_sets import ServiceSet

SERVICE = ServiceSet("broker-a", 10_911, "rmq-set-a.ns.svc.cluster.local", 30_911, [1, 2, 3])


def wanted(**addresses):
    """Return what is wanted of a set whose brokers have these addresses, by `b1=...`."""
    replicas = {int(name[1:]): Replica(address, "c") for name, address in addresses.items()}
    return wanted_slices(SERVICE, a_set(replicas=replicas))


def published(each):
    return {one.hostname: one.addresses for one in each.endpoints}


def stored(each, **metadata):
    """Return a slice as the API server answers it."""
    found = msgspec.json.decode(msgspec.json.encode(each), type=EndpointSlice)
    return replace(found, metadata=replace(found.metadata, resource_version="7", uid="u", **metadata))


def test_every_broker_of_a_set_is_published_under_its_id_whatever_its_role():
    four, six = wanted_slices(SERVICE, a_set()).slices
    assert published(four) == {"b1": ["10.0.0.1"], "b2": ["10.0.0.2"], "b3": ["10.0.0.3"]}
    assert published(six) == {}
    assert msgspec.json.decode(msgspec.json.encode(four)) == {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {
            "name": "rmq-set-a-ipv4",
            "namespace": "ns",
            "labels": {
                "kubernetes.io/service-name": "rmq-set-a",
                "endpointslice.kubernetes.io/managed-by": "rocketmq-controller",
            },
        },
        "addressType": "IPv4",
        "endpoints": [
            {"addresses": [f"10.0.0.{i}"], "conditions": {"ready": True}, "hostname": f"b{i}"} for i in (1, 2, 3)
        ],
        "ports": [{"name": "remoting", "port": 30911}],
    }


def test_another_master_changes_nothing_that_is_published():
    assert wanted_slices(SERVICE, a_set(master=2, master_epoch=6)) == wanted_slices(SERVICE, a_set())


def test_addresses_of_both_families_have_a_slice_each():
    four, six = wanted(b1="10.0.0.1:30911", b2="[fd00::2]:30911").slices
    assert (published(four), published(six)) == ({"b1": ["10.0.0.1"]}, {"b2": ["fd00::2"]})
    assert (six.metadata.name, six.address_type) == ("rmq-set-a-ipv6", "IPv6")


def test_ipv4_address_in_the_form_of_ipv6_is_published_as_what_it_is():
    four, six = wanted(b1="[::ffff:10.0.0.1]:30911").slices
    assert (published(four), published(six)) == ({"b1": ["10.0.0.1"]}, {})


@pytest.mark.parametrize(
    ("address", "why"),
    [
        ("broker-a.example.org:30911", "is no IP address with a port"),
        ("10.0.0.1", "is no IP address with a port"),
        ("[fe80::1%eth0]:30911", "is no IP address with a port"),
        ("10.0.0.1:10911", "has another port than 30911"),
        ("127.0.0.1:30911", "is no address that other hosts reach"),
        ("169.254.1.1:30911", "is no address that other hosts reach"),
        ("224.0.0.1:30911", "is no address that other hosts reach"),
        ("0.0.0.0:30911", "is no address that other hosts reach"),
    ],
)
def test_broker_that_kubernetes_or_haproxy_cannot_take_is_left_out_with_the_reason(address, why):
    found = wanted(b1="10.0.0.1:30911", b2=address)
    assert published(found.slices[0]) == {"b1": ["10.0.0.1"]}
    assert why in found.left_out[2]


def test_broker_with_an_id_that_is_not_in_the_file_is_left_out_with_the_reason():
    found = wanted(b1="10.0.0.1:30911", b4="10.0.0.4:30911")
    assert published(found.slices[0]) == {"b1": ["10.0.0.1"]}
    assert found.left_out == {4: "4 is none of the brokerIds of its set, for which HAProxy has servers"}


def test_slices_have_the_label_of_the_release_that_the_file_names():
    four, _ = wanted_slices(replace(SERVICE, release="rmq"), a_set()).slices
    assert four.metadata.labels["app.kubernetes.io/instance"] == "rmq"
    # One from before gets it too.
    found = stored(wanted_slices(SERVICE, a_set()).slices[0])
    assert next_slice(found, four).metadata.labels["app.kubernetes.io/instance"] == "rmq"


def test_slice_that_there_is_not_is_made_unless_it_would_be_empty():
    four, six = wanted_slices(SERVICE, a_set()).slices
    assert next_slice(None, four) == four
    assert next_slice(None, six) is None


def test_slice_that_is_as_wanted_stays():
    (four, _), after = wanted_slices(SERVICE, a_set()).slices, stored
    found = after(four, annotations={"a": "b"})
    assert next_slice(found, four) is None
    # The order of endpoints means nothing.
    assert next_slice(replace(found, endpoints=found.endpoints[::-1]), four) is None


def test_changed_slice_keeps_what_others_have_put_to_it_and_names_the_version_that_was_read():
    found = stored(wanted(b1="10.0.0.9:30911").slices[0], finalizers=["x"], annotations={"a": "b"})
    found = replace(found, metadata=replace(found.metadata, labels=found.metadata.labels | {"team": "t"}))
    changed = next_slice(found, wanted(b1="10.0.0.1:30911").slices[0])
    assert published(changed) == {"b1": ["10.0.0.1"]}
    metadata = changed.metadata
    assert (metadata.resource_version, metadata.uid, metadata.finalizers) == ("7", "u", ["x"])
    assert (metadata.annotations, metadata.labels["team"]) == ({"a": "b"}, "t")


def test_slice_of_a_family_that_no_broker_has_any_more_becomes_empty():
    found = stored(wanted(b1="[fd00::1]:30911").slices[1])
    assert next_slice(found, wanted(b1="10.0.0.1:30911").slices[1]).endpoints == []


@pytest.mark.parametrize("labels", [{}, {"endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io"}])
def test_slice_that_somebody_else_writes_is_not_touched(labels):
    four = wanted_slices(SERVICE, a_set()).slices[0]
    found = stored(four)
    found = replace(found, metadata=replace(found.metadata, labels=labels))
    with pytest.raises(ForeignSlice, match="rmq-set-a-ipv4 is written by"):
        next_slice(found, four)
