"""`rmq mqadmin` prints what mqadmin 5.5.0 prints at brokers of 4.9.7 and 5.1.4."""

import re

import pytest
from mqadmin_pair import check_same
from mqadmin_site import GROUP, TOPIC, running_site
from peers.jars import V4_9, V5_1

# A site of seven JVMs for each release.
pytestmark = [pytest.mark.java, pytest.mark.soak]

NS = ("-n", "{ns}")
CLUSTER = ("-c", "DefaultCluster")
RATE = r"(?<=TPS: )[\d.]+\d"
#: mqadmin 5.5.0 requests the configuration of topics, which brokers have from 5.0 on, and fails at older ones.
LACKED = "request type 351 not supported"
#: A row of consumerProgress but for what is on its way to clients, which 4.9.7 does not have.
PROGRESS = re.compile(r"^(\S+) +(\S+) +(\d+) +(\d+) +(\d+) +(\d+) +(?:(?:N/A|-?\d+) +)?(N/A|\d{4}-.*)$", re.MULTILINE)
RESETS = [
    ("resetOffsetByTime", "-g", "Offsets-NAME", "-t", TOPIC, "-s", "1700000000000"),
    ("skipAccumulatedMessage", "-g", "Offsets-NAME", "-t", TOPIC),
]


@pytest.fixture(scope="module", params=[V5_1, V4_9])
def site(request, tmp_path_factory):
    with running_site(tmp_path_factory.mktemp("old_site"), request.param) as site:
        yield site


@pytest.fixture(scope="module")
def pair(site):
    return site.pair


@pytest.fixture(scope="module")
def working_pair(site):
    """A pair whose mqadmin can do at these brokers what needs the configuration of topics."""
    return site.pair_with(V4_9) if site.release == V4_9 else site.pair


@pytest.mark.parametrize(
    "words",
    [
        ("topicRoute", "-t", TOPIC),
        ("topicList", "-c"),
        ("getConsumerConfig", "-g", GROUP),
        ("consumerConnection", "-g", GROUP, "-b", "{a}"),
        ("getBrokerConfig", "-b", "{a}"),
        ("brokerConsumeStats", "-b", "{a}"),
    ],
)
def test_reads_of_older_brokers_print_the_same(pair, words):
    check_same(pair.run(*words, *NS), [RATE])


def check_lacked(pair):
    """Check that mqadmin 5.5.0 cannot do it, and we can."""
    assert (LACKED in pair.java.err, pair.java.out) == (True, ""), pair
    assert (pair.ours.code, pair.ours.err) == (0, ""), pair


def test_topic_status_of_older_brokers_is_the_same(site, pair, working_pair):
    words = ("topicStatus", "-t", TOPIC, *NS)
    found = pair.run(*words)

    if site.release != V4_9:
        check_same(found, [RATE])
        return
    check_lacked(found)
    # mqadmin of 4.9.7 has no such last line.
    assert found.ours.out.replace("\nTopic Put TPS: 0.0\n", "") == working_pair.java(*words).out


def test_progress_at_older_brokers_is_the_same(site, pair, working_pair):
    words = ("consumerProgress", "-g", GROUP, *NS)
    found = pair.run(*words)

    if site.release != V4_9:
        check_same(found, [RATE])
        return
    check_lacked(found)
    java = PROGRESS.findall(working_pair.java(*words).out)
    assert [row[0] for row in java].count(TOPIC) == 8
    assert PROGRESS.findall(found.ours.out) == java
    assert re.search(r"^Consume Diff Total: 0\nConsume Inflight Total: N/A$", found.ours.out, re.MULTILINE), found


def test_load_of_older_brokers_has_the_same_form(pair):
    check_same(pair.run("brokerStatus", "-b", "{a}", *NS), [r"(?<=: ).*"])
    check_same(pair.run("clusterList", *NS), [r"[ \d.,()|msNw-]+"])


@pytest.mark.parametrize(
    "words",
    [
        ("updateTopic", "-t", "NAME", *CLUSTER, "-r", "3", "-w", "2", "-o", "true"),
        ("updateSubGroup", "-g", "NAME", *CLUSTER, "-r", "3"),
        ("deleteSubGroup", "-g", "NAME", *CLUSTER),
        ("deleteTopic", "-t", "NAME", *CLUSTER),
    ],
)
def test_changes_of_older_brokers_print_the_same(pair, words):
    check_same(pair.apart(*words, *NS))


def test_offsets_at_older_brokers_are_cloned_reset_and_skipped(site, pair, working_pair):
    check_same(pair.apart("updateSubGroup", "-g", "Offsets-NAME", *CLUSTER, *NS))
    for words in RESETS:
        # Brokers before 5.5 do not reset a group that never read.
        found = pair.apart(*words, *NS)
        assert (found.java.out, found.ours.out, found.ours.code) == ("", "", 1), found
        assert [each.err.count("not exist") for each in (found.java, found.ours)] == [1, 1], found
    clone = ("cloneGroupOffset", "-s", GROUP, "-d", "Offsets-NAME", "-t", TOPIC, *NS)
    if site.release == V4_9:
        check_lacked(pair.apart(*clone))
    check_same(working_pair.apart(*clone))
    assert _progress(pair, "Offsets-ByJava") == _progress(pair, "Offsets-ByOurs") == _progress(pair, GROUP)
    for words in RESETS:
        check_same(pair.apart(*words, *NS))
        assert _progress(pair, "Offsets-ByJava") == _progress(pair, "Offsets-ByOurs")


def _progress(pair, group):
    rows = PROGRESS.findall(pair.ours("consumerProgress", "-g", group, "-t", TOPIC, *NS).out)
    assert len(rows) == 8
    return rows


def test_request_that_an_old_broker_does_not_know_is_one_sentence(pair):
    found = pair.run("haStatus", "-b", "{a}", *NS)

    if found.java.err:
        assert (found.ours.out, found.ours.code) == ("", 6), found
    else:
        check_same(found)
