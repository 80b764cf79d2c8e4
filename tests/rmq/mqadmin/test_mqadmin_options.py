"""Options are read, and the usage is printed, as commons-cli does both."""

import pytest

from rmq.mqadmin.java.options import ExclusiveOptions, OptionsError, options_of, read_words, switch, usage_of, value

OPTIONS = options_of(
    ExclusiveOptions(
        (
            value("b", "brokerAddr", "create topic to which broker"),
            value("c", "clusterName", "create topic to which cluster"),
        )
    ),
    value("a", "attributes", "attribute(+a=b,+c=d,-e)"),
    value("t", "topic", "topic name", required=True),
    value("r", "readQueueNums", "set read queue nums"),
    value("w", "writeQueueNums", "set write queue nums"),
    value("p", "perm", "set topic's permission(2|4|6), intro[2:W 4:R; 6:RW]"),
    value("o", "order", "set topic's order(true|false)"),
    value("u", "unit", "is unit topic (true|false)"),
    value("s", "hasUnitSub", "has unit sub (true|false)"),
)
WITH_SWITCHES = options_of(
    switch("m", "moreStats", "Print more stats"),
    value("i", "interval", "seconds"),
    value("bn", "brokerName", "name"),
    value("t", "topic", "topic"),
    value("to", "topicOther", "other"),
)

#: Printed by mqadmin 5.5.0.
USAGE = """\
usage: mqadmin updateTopic [-a <arg>] -b <arg> | -c <arg>  [-h] [-n <arg>] [-o <arg>] [-p <arg>] [-r <arg>]
       [-s <arg>] -t <arg> [-u <arg>] [-w <arg>]
 -a,--attributes <arg>       attribute(+a=b,+c=d,-e)
 -b,--brokerAddr <arg>       create topic to which broker
 -c,--clusterName <arg>      create topic to which cluster
 -h,--help                   Print help
 -n,--namesrvAddr <arg>      Name server address list, eg: '192.168.0.1:9876;192.168.0.2:9876'
 -o,--order <arg>            set topic's order(true|false)
 -p,--perm <arg>             set topic's permission(2|4|6), intro[2:W 4:R; 6:RW]
 -r,--readQueueNums <arg>    set read queue nums
 -s,--hasUnitSub <arg>       has unit sub (true|false)
 -t,--topic <arg>            topic name
 -u,--unit <arg>             is unit topic (true|false)
 -w,--writeQueueNums <arg>   set write queue nums
"""


def test_usage_is_that_of_mqadmin():
    assert usage_of("updateTopic", OPTIONS) == USAGE


@pytest.mark.parametrize(
    "words",
    [
        ["-t", "T", "-b", "a:1", "-r", "4"],
        ["-topic", "T", "--brokerAddr=a:1", "-r4"],
        ["--topic", "T", "-brokerAddr", "a:1", "-r=4"],
        ["-tT", "-ba:1", "--read", "4", "ignored"],
        ["--top=T", "-b", '"a:1"', "-r", "4", "--", "-x"],
        ["-t", "T", "-b", "a:1", "-r", "4", "-r", "5"],
    ],
)
def test_options_are_read_however_they_are_written(words):
    line = read_words(OPTIONS, words)

    assert (line.needed("t"), line.text("b"), line.text("r")) == ("T", "a:1", "4")
    assert not line.has("c")


def test_letters_without_values_may_be_joined():
    line = read_words(WITH_SWITCHES, ["-mi", "3"])

    assert (line.has("m"), line.text("i")) == (True, "3")


def test_value_may_be_a_negative_number_and_a_name_of_two_letters_is_one_option():
    line = read_words(WITH_SWITCHES, ["-i", "-5", "-bn", " broker-a ", "-to", "x"])

    assert (line.text("i"), line.needed("bn"), line.text("to"), line.text("t")) == ("-5", "broker-a", "x", None)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            [],
            "Missing required options: [-b create topic to which broker, -c create topic to which cluster], t",
        ),
        (["-b", "a:1"], "Missing required option: t"),
        (["-t"], "Missing argument for option: t"),
        (["-t", "-b", "a:1"], "Missing argument for option: t"),
        (["-t", "T", "-x", "1"], "Unrecognized option: -x"),
        (["-t", "T", "--nope=1"], "Unrecognized option: --nope=1"),
        (["-h=1"], "Unrecognized option: -h=1"),
        (["-hx"], "Unrecognized option: -hx"),
        (
            ["-b", "a:1", "-c", "x"],
            "The option 'c' was specified but an option from this group has already been selected: 'b'",
        ),
        (["--h"], "Ambiguous option: '--h'  (could be: 'help', 'hasUnitSub')"),
    ],
)
def test_what_cannot_be_read_is_told_in_the_words_of_commons_cli(words, message):
    with pytest.raises(OptionsError) as error:
        read_words(OPTIONS, words)

    assert str(error.value) == message
