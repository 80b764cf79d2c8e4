"""`rmq mqadmin` prints what mqadmin 5.5.0 prints at brokers of 4.9.7 and 5.1.4."""

import pytest
from mqadmin_pair import check_same
from mqadmin_site import GROUP, TOPIC, running_site
from peers.jars import V4_9, V5_1

# A site of seven JVMs for each release.
pytestmark = [pytest.mark.java, pytest.mark.soak]

NS = ("-n", "{ns}")
CLUSTER = ("-c", "DefaultCluster")
RATE = r"(?<=TPS: )[\d.]+\d"


@pytest.fixture(scope="module", params=[V5_1, V4_9])
def pair(request, tmp_path_factory):
    with running_site(tmp_path_factory.mktemp("old_site"), request.param) as site:
        yield site.pair


@pytest.mark.parametrize(
    "words",
    [
        ("topicRoute", "-t", TOPIC),
        ("topicList", "-c"),
        ("topicStatus", "-t", TOPIC),
        ("getConsumerConfig", "-g", GROUP),
        ("consumerProgress", "-g", GROUP),
        ("consumerConnection", "-g", GROUP, "-b", "{a}"),
        ("getBrokerConfig", "-b", "{a}"),
        ("brokerConsumeStats", "-b", "{a}"),
    ],
)
def test_reads_of_older_brokers_print_the_same(pair, words):
    check_same(pair.run(*words, *NS), [RATE])


def test_load_of_older_brokers_has_the_same_form(pair):
    check_same(pair.run("brokerStatus", "-b", "{a}", *NS), [r"(?<=: ).*"])
    check_same(pair.run("clusterList", *NS), [r"[ \d.,()|msNw-]+"])


@pytest.mark.parametrize(
    "words",
    [
        ("updateTopic", "-t", "NAME", *CLUSTER, "-r", "3", "-w", "2", "-o", "true"),
        ("updateSubGroup", "-g", "NAME", *CLUSTER, "-r", "3"),
        ("resetOffsetByTime", "-g", "NAME", "-t", TOPIC, "-s", "1700000000000"),
        ("skipAccumulatedMessage", "-g", "NAME", "-t", TOPIC),
        ("cloneGroupOffset", "-s", GROUP, "-d", "NAME", "-t", TOPIC),
        ("deleteSubGroup", "-g", "NAME", *CLUSTER),
        ("deleteTopic", "-t", "NAME", *CLUSTER),
    ],
)
def test_changes_of_older_brokers_print_the_same(pair, words):
    check_same(pair.apart(*words, *NS))


def test_request_that_an_old_broker_does_not_know_is_one_sentence(pair):
    found = pair.run("haStatus", "-b", "{a}", *NS)

    if found.java.err:
        assert (found.ours.out, found.ours.code) == ("", 6), found
    else:
        check_same(found)
