"""What the scaling commands do."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

import click

from controller.dry_run.published_run import DRY_RUN, TopicRun, document_of
from controller.dry_run.recorded_topics import RecordedCounts, TopicNotRecorded, counts_of, samples_of
from controller.scaling.autoscaler.dry_run import DryRunStart, dry_run
from controller.scaling.autoscaler.policies import policies_of_toml
from controller.scaling.resize.observation import GroupKind
from history.landing import LANDING
from history.times import unix_us
from remoting.clock import SystemClock
from rmq.cli.profiles import settings_in
from rmq.failures import CommandFailed, UnknownName, WrongUse
from serving.config.table_documents import TablesRefused

#: So much is looked at unless --from says otherwise: servers keep as much.
DAYS: Final = 30
#: Each of them is read by itself.
TOPICS_MAX: Final = 50
#: How groups of a run can consume.
_KINDS: Final = [kind.value for kind in GroupKind if kind not in {GroupKind.UNKNOWN, GroupKind.OFFLINE}]
_QUEUES: Final = click.IntRange(1, 1024)


def _topics(text: str) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(name for name in text.split(",") if name))
    if not 1 <= len(names) <= TOPICS_MAX:
        raise click.BadParameter(f"{len(names)} topics: give 1 to {TOPICS_MAX}")
    return names


def _time(text: str) -> datetime:
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        raise click.BadParameter(f"{text!r} is not a time; write 2026-11-21T20:00:00 (UTC)") from None
    return time if time.tzinfo is not None else time.replace(tzinfo=UTC)


@click.command("dry-run")
@click.option("--history", metavar="FOLDER", help="historyDir of the servers and the sampler [RMQ_HISTORY]")
@click.option("--output", metavar="FOLDER", help="output of rmq-analytics (default: the history)")
@click.option("--policies", metavar="FILE", required=True, help="policies as TOML: controller/SCALING.md")
@click.option("--topics", metavar="A,B", required=True, type=_topics, help=f"at most {TOPICS_MAX}")
@click.option("--from", "first", metavar="TIME", type=_time, help=f"UTC; default: {DAYS} days before --to")
@click.option("--to", "last", metavar="TIME", type=_time, help="UTC; default: now")
@click.option("--queues", type=_QUEUES, help="queues on each set at the start (default: as recorded)")
@click.option("--sets", type=_QUEUES, default=1, help="with --queues: broker sets (default: 1)")
@click.option("--kind", type=click.Choice(_KINDS), default=GroupKind.CONCURRENT.value, help="how the groups consume")
@click.pass_context
def play_policies(
    context: click.Context,
    *,
    history: str | None,
    output: str | None,
    policies: str,
    topics: tuple[str, ...],
    first: datetime | None,
    last: datetime | None,
    queues: int | None,
    sets: int,
    kind: str,
) -> None:
    """Show which resizes policies would have made with recorded samples (controller/SCALING.md)."""
    clock = SystemClock()
    started_us = clock.unix_us()
    until = last or datetime.fromtimestamp(started_us / 1e6, UTC)
    window = (first or until - timedelta(days=DAYS), until)
    given = history or settings_in(context).history
    folder = Path(given).expanduser()
    if window[0] >= until:
        raise WrongUse("--from must be before --to")
    if not given or not (folder / LANDING).is_dir():
        raise WrongUse(f"there is no history in {folder}: give the historyDir of the servers with --history")
    counts = None if queues is None else RecordedCounts(queues, sets)
    try:
        found = _runs(folder, topics, Path(policies), window, counts, GroupKind(kind))
        target = Path(output or folder).expanduser() / DRY_RUN
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(document_of(found, (unix_us(window[0]), unix_us(until)), (started_us, clock.unix_us())))
    except (TablesRefused, UnicodeDecodeError) as error:
        raise WrongUse(f"{policies}: {error}") from None
    except TopicNotRecorded as error:
        raise UnknownName(str(error)) from None
    except OSError as error:
        raise CommandFailed(str(error)) from None
    for run in found:
        click.echo(f"{run.samples[0].topic}: {len(run.changes)} resizes of {len(run.samples)} samples")
    click.echo(f"written to {target}; `rmq-analytics report` shows it")


def _runs(
    folder: Path,
    topics: Sequence[str],
    file: Path,
    window: tuple[datetime, datetime],
    given: RecordedCounts | None,
    kind: GroupKind,
) -> list[TopicRun]:
    """Return the runs of topics, one in each of their clusters; raises TopicNotRecorded, TablesRefused, OSError."""
    policies = policies_of_toml(file.read_text(encoding="utf-8"))

    def of_topic(topic: str) -> Iterator[TopicRun]:
        policy = policies.policy_of(topic)
        if policy is None:
            raise TopicNotRecorded(f"no policy of {file} matches {topic}")
        by_cluster = samples_of(folder, topic, *window)
        if not by_cluster:
            raise TopicNotRecorded(f"{topic} was not sampled in that time: is it among the topics of `rmq sample`?")
        if len(by_cluster) > 1 and given is None:
            clusters = ", ".join(sorted(by_cluster))
            raise TopicNotRecorded(
                f"{topic} is in the clusters {clusters}: give its queues in one cluster with --queues and --sets"
            )
        counts = given or counts_of(folder, topic, *window)
        start = DryRunStart(queues_per_set=counts.queues_per_set, sets=counts.sets, kind=kind)
        for cluster, samples in sorted(by_cluster.items()):
            verdicts = dry_run(samples, policy, start)
            yield TopicRun(cluster=cluster, policy=policy, start=start, samples=samples, verdicts=verdicts)

    return [run for topic in topics for run in of_topic(topic)]
