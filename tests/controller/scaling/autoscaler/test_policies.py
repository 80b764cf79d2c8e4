import pytest

from controller.scaling.autoscaler.policies import (
    MATCHES_MAX,
    POLICIES_MAX,
    PolicyMode,
    PolicyTable,
    ScalingPolicy,
    policies_of_json,
    policies_of_toml,
)
from serving.config.table_documents import DOCUMENT_CHARS_MAX, MISTAKES_MAX, TablesRefused

FILE = """
# Queues of the shop.
[[policy]]
topic = "orders"
min = 8
max = 64
step = 1.5
cooldown = "15m"
window = 90000
behind = "1m"
queueWrites = 8000
brokerWrites = 60000.5
mode = "auto"

[[policy]]
topic = "log-*"
mode = "approve"
"""


def mistakes_of(text: str) -> list[str]:
    with pytest.raises(TablesRefused) as refused:
        policies_of_toml(text)
    return [str(each) for each in refused.value.mistakes]


def test_policies_of_a_file_are_read():
    orders, logs = policies_of_toml(FILE).policies
    assert orders == ScalingPolicy(
        topic="orders",
        queues_min=8,
        queues_max=64,
        step=1.5,
        cooldown_ms=900_000,
        window_ms=90_000,
        behind_ms=60_000,
        queue_writes_max=8000.0,
        broker_writes_max=60000.5,
        mode=PolicyMode.AUTO,
    )
    assert logs == ScalingPolicy(topic="log-*", mode=PolicyMode.APPROVE)


def test_policy_without_a_mode_only_proposes():
    assert policies_of_toml('[[policy]]\ntopic = "orders"').policies[0].mode is PolicyMode.PROPOSE


def test_json_of_the_same_shape_gives_the_same_policies():
    body = '{"policy": [{"topic": "orders", "min": 8, "cooldown": "15m"}]}'
    file = '[[policy]]\ntopic = "orders"\nmin = 8\ncooldown = "15m"'
    assert policies_of_json(body).policies == policies_of_toml(file).policies


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("min = 0", "line 3, policy 1: min: 0 is not allowed, but a whole number of queues from 1 to 1024 is"),
        ("max = 1025", "line 3, policy 1: max: 1025 is not allowed, but a whole number of queues from 1 to 1024 is"),
        ("min = true", "line 3, policy 1: min: True is not allowed, but a whole number of queues from 1 to 1024 is"),
        ("min = 200", "line 3, policy 1: min: min is 200 and max 128; min may not be larger than max"),
        (
            "queueWrites = 0",
            "line 3, policy 1: queueWrites: 0 is not allowed, but a number of messages a second from 1 to 100000000 is",
        ),
        ("step = 1", "line 3, policy 1: step: 1 is not allowed, but a factor from 1.1 to 8 is"),
        ("step = 1.0000000001", "line 3, policy 1: step: 1.0000000001 is not allowed, but a factor from 1.1 to 8 is"),
        (
            f"step = 0x{'f' * 900}",
            "line 3, policy 1: step: an integer of 3600 bits is not allowed, but a factor from 1.1 to 8 is",
        ),
        (
            "min" + ".a" * 1500 + " = 1",
            "line 1, policy 1: min: a table is not allowed, but a whole number of queues from 1 to 1024 is",
        ),
        ("step = nan", "line 3, policy 1: step: nan is not allowed, but a factor from 1.1 to 8 is"),
        (
            'cooldown = "soon"',
            (
                "line 3, policy 1: cooldown: 'soon' is not allowed, but "
                'a time such as "90s", "15m", "1d", or a number of ms, from 60000 to 604800000 ms is'
            ),
        ),
        (
            'mode = "automatic"',
            'line 3, policy 1: mode: \'automatic\' is not allowed, but "propose" or "approve" or "auto" is',
        ),
        (
            "minimum = 3",
            (
                "line 3, policy 1: minimum: is no property of a policy; those are topic, min, max, step, cooldown, "
                "window, behind, queueWrites, brokerWrites, mode"
            ),
        ),
    ],
)
def test_mistake_is_named_with_its_line_its_property_and_what_is_allowed(line, problem):
    assert mistakes_of(f'[[policy]]\ntopic = "orders"\n{line}') == [problem]


@pytest.mark.parametrize("topic", ['""', '"a b"', '"orders[1]"', '"TBW102"', '"rmq_sys_TRACE"', f'"{"x" * 256}"', "7"])
def test_topic_that_no_operator_can_have_is_refused(topic):
    assert mistakes_of(f"[[policy]]\ntopic = {topic}")[0].startswith("line 2, policy 1: topic: ")


def test_every_mistake_of_a_file_is_named():
    text = '[[policy]]\nmin = 0\n\n[[policy]]\ntopic = "orders"\nmode = 3\n'
    assert [each.split(": ")[0] + ": " + each.split(": ")[1] for each in mistakes_of(text)] == [
        "line 1, policy 1: topic",
        "line 2, policy 1: min",
        "line 6, policy 2: mode",
    ]


def test_mistake_in_json_names_the_policy():
    with pytest.raises(TablesRefused, match="policy 2: max: 'many' is not allowed"):
        policies_of_json('{"policy": [{"topic": "a"}, {"topic": "b", "max": "many"}]}')


def test_two_policies_of_one_pattern_are_refused():
    assert mistakes_of('[[policy]]\ntopic = "log-*"\n[[policy]]\ntopic = "log-*"') == [
        "line 4, policy 2: topic: 'log-*' is that of policy 1 too; one policy per topic or pattern"
    ]


@pytest.mark.parametrize("separator", ["\u2028", "\x85"])
def test_line_is_counted_as_editors_and_toml_count_it(separator):
    assert mistakes_of(f'# one{separator}line\r\n[[policy]]\r\ntopic = "orders"\r\nmin = 0')[0].startswith("line 4, ")


def test_thousands_of_mistakes_are_named_in_part():
    text = "[[policy]]\n" + "".join(f"p{number} = 1\n" for number in range(5_000))
    with pytest.raises(TablesRefused) as refused:
        policies_of_toml(text)
    assert len(refused.value.mistakes) == MISTAKES_MAX
    assert str(refused.value).endswith("; there are more of them")


def test_number_of_thousands_of_digits_is_refused():
    assert mistakes_of(f'[[policy]]\ntopic = "orders"\nmin = {"9" * 5000}')[0].startswith("not TOML: ")


def test_text_that_is_no_toml_is_refused_with_its_line():
    assert "line 2" in mistakes_of('[[policy]]\ntopic = "orders\nmin = 1')[0]


def test_text_that_looks_like_a_header_leaves_the_line_out_instead_of_a_wrong_one():
    assert mistakes_of('[[policy]]\ntopic = """\n[[policy]]\n"""')[0].startswith("policy 1: topic: ")


@pytest.mark.parametrize(
    "text",
    [
        "policy = 3",
        "[policies]\nx = 1",
        "policy = [3]",
        f"# {'x' * DOCUMENT_CHARS_MAX}",
        "\n".join(f'[[policy]]\ntopic = "t{number}"' for number in range(POLICIES_MAX + 1)),
    ],
)
def test_document_of_another_shape_or_size_is_refused(text):
    assert mistakes_of(text)


def test_json_nested_without_end_is_refused():
    with pytest.raises(TablesRefused):
        policies_of_json("[" * 100_000)


def table(*topics: str) -> PolicyTable:
    return PolicyTable([ScalingPolicy(topic=topic) for topic in topics])


@pytest.mark.parametrize(
    ("topic", "winner"),
    [
        ("orders", "orders"),
        ("orders-eu", "orders-*"),
        ("orders-eu-1", "orders-eu-?"),
        ("payments", "*"),
        ("orders-eu-12", "orders-*"),
    ],
)
def test_exact_name_wins_before_the_longest_pattern(topic, winner):
    assert table("*", "orders-*", "orders", "orders-eu-?").policy_of(topic).topic == winner


def test_name_that_somebody_made_up_to_be_compared_for_minutes_is_compared_at_once():
    """Whoever creates topics chooses their names; going back to each `*` would take longer than this test may."""
    assert table("*-*-*-*-*-*-*-*-a").policy_of("-" * 127) is None
    assert table("*-*-*-*-*-*-*-*-a").policy_of("-" * 126 + "a") is not None


def test_of_equally_long_patterns_the_first_wins():
    assert table("a*", "*b").policy_of("ab").topic == "a*"
    assert table("*b", "a*").policy_of("ab").topic == "*b"


@pytest.mark.parametrize("topic", ["TBW102", "rmq_sys_wheel_timer", "%RETRY%billing", "%DLQ%billing"])
def test_pattern_matches_no_topic_of_the_brokers_own(topic):
    assert table("*").policy_of(topic) is None


def test_retry_topic_has_a_policy_by_its_exact_name():
    assert table("%RETRY%billing").policy_of("%RETRY%billing") is not None


def test_topic_without_a_policy_has_none():
    assert table("orders").policy_of("payments") is None


def test_policies_of_any_number_of_topics_are_found():
    policies = table("t-*")
    assert all(policies.policy_of(f"t-{number}") for number in range(MATCHES_MAX + 10))
    assert len(policies._matches) <= MATCHES_MAX
