"""What `rmq-sampler` can be told, and what it says to what it cannot do."""

import re
from pathlib import Path

import pytest

from sampling.options import TOPICS_MAX, asked_options

NEEDED = {"--namesrv": "ns1:9876", "--topics": "orders", "--history": "/h"}


def asked(**changed):
    words = NEEDED | {f"--{name}": value for name, value in changed.items()}
    return asked_options([word for pair in words.items() if pair[1] is not None for word in pair], "a host:1")


def test_lists_are_read_and_what_stands_twice_counts_once():
    options = asked(namesrv=" ns1:9876;ns2:9876;", topics="a, b,a,,ns%c")
    assert options.name_servers == ("ns1:9876", "ns2:9876")
    assert options.topics == ("a", "b", "ns%c")


def test_a_sampler_has_the_name_of_its_host_and_samples_each_minute():
    options = asked()
    assert (options.name, options.interval_s, options.history) == ("sampler_a_host_1", 60, Path("/h"))


def test_the_home_folder_may_be_written_short():
    assert asked(history="~/h").history == Path("~/h").expanduser()


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"topics": None}, "required: --topics"),
        ({"namesrv": None}, "required: --namesrv"),
        ({"history": None}, "required: --history"),
        ({"topics": " , "}, "name the topics to be sampled"),
        (
            {"topics": ",".join(f"t{n}" for n in range(TOPICS_MAX + 1))},
            "201 topics are more than 200: .*another --name",
        ),
        ({"namesrv": ";"}, "it is no host:port"),
        ({"namesrv": "ns1:9876,ns2"}, "ns1:9876,ns2 is no host:port; several are separated by semicolons"),
        ({"namesrv": "ns1:9876,ns2:9876"}, "separated by semicolons"),
        ({"namesrv": "ns1:99999"}, "ns1:99999 is no host:port"),
        ({"topics": "a;b"}, "a;b is no topic: several are separated by commas"),
        ({"history": "hdfs://nn/h"}, "hdfs://nn/h is a URI: .* folders of this machine"),
        ({"interval": "0"}, "0 is no number of seconds from 1 to 3600"),
        ({"interval": "1m"}, "1m is no number of seconds"),
        ({"name": "a/b"}, "a/b may have letters, digits"),
    ],
)
def test_what_cannot_be_done_is_said_with_what_to_do(capsys, changed, says):
    with pytest.raises(SystemExit) as left:
        asked(**changed)
    assert left.value.code == 2
    assert re.search(says, " ".join(capsys.readouterr().err.split()))
