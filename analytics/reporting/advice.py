"""What to change: timeouts and queues, with the commands that do it."""

from collections.abc import Mapping, Sequence
from typing import Final

from analytics.reporting.brokers import is_other, timeout_table
from analytics.reporting.page import Advice, Columns, Table
from analytics.reporting.results import JobResult
from analytics.reporting.wording import Row, broker, broker_set, counted, number, share

#: Brokers that run with enableSlaveActingMaster send heartbeats each second, and their timeout to NameServers.
_FREQUENT_BELOW_MS: Final = 10_000
#: Of all others this one counts.
_TIMEOUT_DEFAULT_S: Final = 120

#: So many changes of a kind have their commands on the page; all of them are in the results.
CHANGES_SHOWN: Final = 20


def advice(results: Mapping[str, JobResult]) -> list[Advice]:
    """Return what should be changed, by the results there are."""
    found = []
    if "A5" in results:
        found += _timeouts(results["A5"], _addresses(results))
    scaled = results["A9"].of_kind("proposal") if "A9" in results else []
    if "A9" in results:
        found += _queues(
            results["A9"], scaled, "Other numbers of queues", "Topics that need more queues, or far fewer."
        )
    if "A8" in results:
        # Both are made of the same present: the second change of a topic would undo the first.
        decided = {(row["cluster"], row["topic"]) for row in scaled}
        moved = [row for row in results["A8"].of_kind("proposal") if (row["cluster"], row["topic"]) not in decided]
        words = (
            "Queues that should move from full broker sets to empty ones; the sets that grow come first. Topics that "
            "need another number of queues move only after they have it."
        )
        found += _queues(results["A8"], moved, "Queues on other broker sets", words)
    return found


def _addresses(results: Mapping[str, JobResult]) -> Mapping[tuple[str, str], str]:
    """Return where masters are, by cluster and name of their sets, as far as the results have them."""
    rows = results["A8"].of_kind("broker") if "A8" in results else []
    return {(row["cluster"], row["broker_name"]): row["broker_addr"] for row in rows if row["broker_addr"]}


def _timeouts(result: JobResult, addresses: Mapping[tuple[str, str], str]) -> list[Advice]:
    rows = [row for row in result.rows if is_other(row)]
    if not rows:
        return []
    sending = [row for row in rows if _sends_its_timeout(row)]
    words = []
    if sending:
        words.append("The command takes effect at once and is kept in the broker's file.")
    if len(sending) < len(rows):
        words.append(
            "A broker sends its timeout to NameServers only if it runs with enableSlaveActingMaster=true; until then "
            f"{counted(len(rows) - len(sending), 'broker')} of these will expire after {_TIMEOUT_DEFAULT_S} s, "
            "whatever is recommended."
        )
    commands = [(broker(row), _timeout_command(row, addresses)) for row in sending]
    title = f"Other timeouts for {counted(len(rows), 'broker')}"
    return [Advice(title, result.job, " ".join(words), timeout_table(rows), commands[:CHANGES_SHOWN])]


def _sends_its_timeout(row: Row) -> bool:
    """Return whether a broker sends its timeout itself."""
    is_frequent = row["period_ms"] is not None and row["period_ms"] < _FREQUENT_BELOW_MS
    return is_frequent or row["current_timeout_s"] not in (None, _TIMEOUT_DEFAULT_S)


def _timeout_command(row: Row, addresses: Mapping[tuple[str, str], str]) -> str:
    known = addresses.get((row["cluster"], row["broker_name"])) if row["broker_id"] == 0 else None
    address = quoted(known or f"ADDRESS-OF-{row['broker_name']}-{row['broker_id']}")
    timeout_ms = round(1000 * row["recommended_timeout_s"])
    return f'mqadmin updateBrokerConfig -n "$NAMESRV_ADDR" -b {address} -k brokerNotActiveTimeoutMillis -v {timeout_ms}'


def quoted(word: str) -> str:
    """Return text as one word of a shell."""
    return "'" + word.replace("'", "'\\''") + "'"


_CHANGES: Final[Columns] = {
    "topic": "topic",
    "broker set": "broker_name",
    "cluster": "cluster",
    "#read queues": lambda row: f"{number(row['read_now'])} to {number(row['read_proposed'])}",
    "#write queues": lambda row: f"{number(row['write_now'])} to {number(row['write_proposed'])}",
    "#confidence": lambda row: share(row["confidence"], 0),
    "reason": "reason",
}


def _queues(result: JobResult, proposals: Sequence[Row], title: str, words: str) -> list[Advice]:
    rows = sorted(proposals, key=lambda row: (str(row["cluster"]), row["position"]))
    if not rows:
        return []
    commands = [step for row in rows[:CHANGES_SHOWN] for step in _steps(row)]
    caution = " A topic whose messages have an order loses it while its queues change."
    return [
        Advice(
            f"{title}: {counted(len(rows), 'change')}",
            result.job,
            words + caution,
            Table.of("Changes, in order", rows, _CHANGES),
            commands,
        )
    ]


def _steps(row: Row) -> Sequence[tuple[str, str]]:
    named = f"{row['topic']} on {broker_set(row)}"
    return [
        (f"{named}: {_step_in_words(step)}", command)
        for step, command in zip(row["steps"], row["commands"], strict=True)
    ]


def _step_in_words(step: str) -> str:
    word, _, counts = step.partition(" ")
    match word:
        case "expect":
            return f"go on only if it has {counts} there" if counts != "absent" else "go on only if it is not there"
        case "create":
            return f"{counts}; creates it there: give it the attributes that it has elsewhere (-a)"
        case "drain":
            return "wait until each group that reads it has nothing left in the queues that are no longer written"
    return counts
