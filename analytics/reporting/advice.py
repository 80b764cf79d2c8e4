"""What to change: timeouts and queues, with the commands that do it."""

from collections.abc import Mapping, Sequence
from typing import Final

from analytics.reporting.brokers import is_other, timeout_table
from analytics.reporting.page import Advice, Table
from analytics.reporting.results import Result
from analytics.reporting.wording import Row, counted, number, share

#: So many changes of a kind have their commands on the page; all of them are in the results.
CHANGES_SHOWN: Final = 20


def advice(results: Mapping[str, Result]) -> list[Advice]:
    """Return what should be changed, by the results there are."""
    found = []
    if "A5" in results:
        found += _timeouts(results["A5"], _addresses(results))
    if "A9" in results:
        found += _queues(results["A9"], "Other numbers of queues", "Topics that need more queues, or far fewer.")
    if "A8" in results:
        words = "Queues that should move from full broker sets to empty ones; the sets that grow come first."
        found += _queues(results["A8"], "Queues on other broker sets", words)
    return found


def _addresses(results: Mapping[str, Result]) -> Mapping[str, str]:
    """Return where masters are, as far as the results tell."""
    rows = results["A8"].of_kind("broker") if "A8" in results else []
    return {row["broker_name"]: row["broker_addr"] for row in rows if row["broker_addr"]}


def _timeouts(result: Result, addresses: Mapping[str, str]) -> list[Advice]:
    rows = [row for row in result.rows if is_other(row)]
    if not rows:
        return []
    words = (
        "A broker tells NameServers its timeout if it runs with enableSlaveActingMaster=true; the others are given up "
        "after 120 s. The command takes effect at once and is kept in the broker's file."
    )
    commands = [(f"{row['broker_name']}:{row['broker_id']}", _timeout_command(row, addresses)) for row in rows]
    title = f"Other timeouts for {counted(len(rows), 'broker')}"
    return [Advice(title, result.job_id, words, timeout_table(rows), commands[:CHANGES_SHOWN])]


def _timeout_command(row: Row, addresses: Mapping[str, str]) -> str:
    known = addresses.get(row["broker_name"]) if row["broker_id"] == 0 else None
    address = quoted(known or f"ADDRESS-OF-{row['broker_name']}-{row['broker_id']}")
    timeout_ms = round(1000 * row["best_timeout_s"])
    return f'mqadmin updateBrokerConfig -n "$NAMESRV_ADDR" -b {address} -k brokerNotActiveTimeoutMillis -v {timeout_ms}'


def quoted(word: str) -> str:
    """Return text as one word of a shell."""
    return "'" + word.replace("'", "'\\''") + "'"


def _queues(result: Result, title: str, words: str) -> list[Advice]:
    rows = sorted(result.of_kind("proposal"), key=lambda row: (str(row["cluster"]), row["position"]))
    if not rows:
        return []
    commands = [step for row in rows[:CHANGES_SHOWN] for step in _steps(row)]
    caution = " A topic whose messages have an order loses it while its queues change."
    return [Advice(f"{title}: {counted(len(rows), 'change')}", result.job_id, words + caution, _table(rows), commands)]


def _steps(row: Row) -> Sequence[tuple[str, str]]:
    named = f"{row['topic']} on {row['broker_name']}"
    told = {"drain": f"{named}: wait until consumers have read what is left in the queues that are no longer written"}
    return [
        (told.get(step, f"{named}: {step.removeprefix('update ')}"), command)
        for step, command in zip(row["steps"], row["commands"], strict=True)
    ]


def _table(rows: list[Row]) -> Table:
    return Table(
        "Changes, in order",
        ("topic", "broker set", "cluster", "#read queues", "#write queues", "#confidence", "reason"),
        [
            (
                str(row["topic"]),
                str(row["broker_name"]),
                str(row["cluster"]),
                f"{number(row['read_now'])} to {number(row['read_proposed'])}",
                f"{number(row['write_now'])} to {number(row['write_proposed'])}",
                share(row["confidence"], 0),
                str(row["reason"]),
            )
            for row in rows
        ],
    )
