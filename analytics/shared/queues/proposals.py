"""How a change of queue counts is proposed: what is, what shall be, and the steps that lead there without a loss.

An operator runs the commands in their order. A program reads `steps`:

- `expect read=R write=W`, or `expect absent`: a proposal is for what it was made of. If the set has other counts by
  now, as after another proposal for the same topic, it is void.
- `update read=R write=W`, or `create` with the same: the topic is new on the set.
- `drain`: over when no consumer group has anything left in the queues that are no longer written.

A step may be repeated, and between any two of them write <= read holds if it held before: reads grow before writes,
writes shrink before reads.
"""

from typing import Final

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from history.columns import Column, Type

PROPOSAL_COLUMNS: Final = (
    Column("topic", Type.STRING, "the topic"),
    Column("broker_name", Type.STRING, "broker set whose queues are counted"),
    Column("broker_addr", Type.STRING, "address of its master, to which the commands go; null if it is not known"),
    Column("read_now", Type.LONG, "read queues there now"),
    Column("write_now", Type.LONG, "write queues there now"),
    Column("read_proposed", Type.LONG, "read queues proposed"),
    Column("write_proposed", Type.LONG, "write queues proposed"),
    Column("reason", Type.STRING, "why, in a sentence"),
    Column("confidence", Type.DOUBLE, "0 to 1: the share of the evidence that speaks for it"),
    Column("position", Type.LONG, "in which order proposals for a cluster are applied, from 1"),
    Column("steps", Type.STRINGS, "in order: `expect`, `update` or `create`, each with read=R write=W, or `drain`"),
    Column(
        "commands",
        Type.STRINGS,
        "the command of each step; that of `expect` shows the counts, that of `drain` what each group has left to "
        "read; where no group was sampled it names a placeholder, to be run for each group that reads the topic",
    ),
)

_BOTH = 6
_UNIT, _UNIT_SUB = 1, 2


def with_steps(proposals: DataFrame) -> DataFrame:
    """Return the proposals with `steps` and `commands`; needs `perm`, `topic_sys_flag` and `groups` beside the counts.

    `updateTopic` sets all of a topic's settings at once, so those that stay are given too.
    """
    read_now, read_then = F.col("read_now"), F.col("read_proposed")
    write_now, write_then = F.col("write_now"), F.col("write_proposed")
    grows, changes, shrinks = read_now < read_then, write_now != write_then, read_now > read_then
    is_new = (read_now == 0) & (write_now == 0)
    steps = (
        F.when(is_new, "expect absent").otherwise(_step("expect", read_now, write_now)),
        _when(
            grows,
            F.when(is_new, _step("create", read_then, write_now)).otherwise(_step("update", read_then, write_now)),
        ),
        _when(changes, _step("update", F.greatest(read_now, read_then), write_then)),
        _when(shrinks, F.lit("drain")),
        _when(shrinks, _step("update", read_then, write_then)),
    )
    commands = (
        F.concat(F.lit('mqadmin topicRoute -n "$NAMESRV_ADDR" -t '), _quoted(F.col("topic"))),
        _when(grows, _update_command(read_then, write_now)),
        _when(changes, _update_command(F.greatest(read_now, read_then), write_then)),
        _when(shrinks, _drain_command()),
        _when(shrinks, _update_command(read_then, write_then)),
    )
    return proposals.withColumn("steps", F.array_compact(F.array(*steps))).withColumn(
        "commands", F.array_compact(F.array(*commands))
    )


def _when(condition: Expression, text: Expression) -> Expression:
    return F.when(condition, text)


def _step(word: str, read: Expression, write: Expression) -> Expression:
    return F.format_string(f"{word} read=%d write=%d", read, write)


def _update_command(read: Expression, write: Expression) -> Expression:
    flag = F.coalesce(F.col("topic_sys_flag"), F.lit(0))
    return F.concat(
        F.format_string(
            'mqadmin updateTopic -n "$NAMESRV_ADDR" -b %s -t %s -r %d -w %d -p %d',
            _quoted(F.coalesce(F.col("broker_addr"), F.concat(F.lit("ADDRESS-OF-"), F.col("broker_name")))),
            _quoted(F.col("topic")),
            read,
            write,
            F.coalesce(F.col("perm"), F.lit(_BOTH)),
        ),
        F.when(flag.bitwiseAND(_UNIT) != 0, F.lit(" -u true")).otherwise(F.lit("")),
        F.when(flag.bitwiseAND(_UNIT_SUB) != 0, F.lit(" -s true")).otherwise(F.lit("")),
    )


def _drain_command() -> Expression:
    """Return what shows what each group has left to read; the state of the topic alone does not show it."""
    unknown = F.array(F.concat(F.lit("EACH-GROUP-OF-"), F.col("topic")))
    groups = F.when(F.size("groups") > 0, F.col("groups")).otherwise(unknown)
    command = F.lit('mqadmin consumerProgress -n "$NAMESRV_ADDR" -g ')
    return F.array_join(F.transform(groups, lambda group: F.concat(command, _quoted(group))), "; ")


def groups_of_days() -> Expression:
    """Return the groups of a topic, of those that were sampled on its days."""
    return F.array_sort(F.array_distinct(F.flatten(F.collect_list("groups"))))


def _quoted(text: Expression) -> Expression:
    """Return the text as one word of a shell: a name came over the wire and may hold anything."""
    return F.concat(F.lit("'"), F.replace(text, F.lit("'"), F.lit("'\\''")), F.lit("'"))
