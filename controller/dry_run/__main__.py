"""`rmq-scaling-dry-run`: what policies would have done with recorded samples, for the report of the analyses."""

import argparse
import sys
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from controller.dry_run.published_run import DRY_RUN, TopicRun, document_of
from controller.dry_run.recorded_topics import RecordedCounts, TopicNotRecorded, counts_of, samples_of
from controller.scaling.autoscaler.dry_run import DryRunStart, dry_run
from controller.scaling.autoscaler.policies import PolicyTable
from controller.scaling.autoscaler.policy_documents import policies_of_toml
from controller.scaling.resize.observation import GroupKind
from history.landing import LANDING
from history.times import unix_us
from remoting.clock import SystemClock
from serving.config.table_documents import TablesRefused

#: So much is looked at unless --from says otherwise: servers keep as much.
DAYS: Final = 30
#: Each of them is read by itself.
TOPICS_MAX: Final = 50
#: How groups of a run can consume.
KINDS: Final = tuple(each for each in GroupKind if each not in {GroupKind.UNKNOWN, GroupKind.OFFLINE})
_QUEUES: Final = range(1, 1025)

_EXIT_NOTHING: Final = 1
_EXIT_ARGUMENTS: Final = 2


def main(arguments: Sequence[str] | None = None) -> int:
    """Run it; returns 0, 1 if the history lacks what is needed, or 2 for invalid arguments."""
    parser = _parser()
    options = parser.parse_args(arguments)
    clock = SystemClock()
    started_us = clock.unix_us()
    last = options.last or datetime.fromtimestamp(started_us / 1e6, UTC)
    first = options.first or last - timedelta(days=DAYS)
    folder = Path(options.history).expanduser()
    if first >= last:
        parser.error("--from has to be before --to")
    if not (folder / LANDING).is_dir():
        parser.error(f"there is no history in {folder}: give the historyDir of the servers with --history")
    try:
        policies = policies_of_toml(Path(options.policies).read_text(encoding="utf-8"))
        runs = [run for topic in options.topics for run in _runs(folder, topic, policies, options, (first, last))]
        target = Path(options.output or folder).expanduser() / DRY_RUN
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(document_of(runs, (unix_us(first), unix_us(last)), (started_us, clock.unix_us())))
    except (TablesRefused, UnicodeDecodeError) as error:
        print(f"rmq-scaling-dry-run: {options.policies}: {error}", file=sys.stderr)
        return _EXIT_ARGUMENTS
    except (TopicNotRecorded, OSError) as error:
        print(f"rmq-scaling-dry-run: {error}", file=sys.stderr)
        return _EXIT_NOTHING
    for run in runs:
        print(f"{run.samples[0].topic}: {len(run.changes)} resizes of {len(run.samples)} samples")
    print(f"written to {target}; `rmq-analytics report` shows it")
    return 0


def _runs(
    folder: Path, topic: str, policies: PolicyTable, options: argparse.Namespace, window: tuple[datetime, datetime]
) -> Iterator[TopicRun]:
    """Yield the run of a topic in each of its clusters; raises TopicNotRecorded."""
    policy = policies.policy_of(topic)
    if policy is None:
        raise TopicNotRecorded(f"no policy of {options.policies} holds for {topic}")
    by_cluster = samples_of(folder, topic, *window)
    if not by_cluster:
        raise TopicNotRecorded(f"{topic} was not sampled in that time: is it among the topics of rmq sample?")
    if len(by_cluster) > 1 and options.queues is None:
        clusters = ", ".join(sorted(by_cluster))
        raise TopicNotRecorded(
            f"{topic} is in the clusters {clusters}: give its queues in one with --queues and --sets"
        )
    given = None if options.queues is None else RecordedCounts(options.queues, options.sets)
    counts = given or counts_of(folder, topic, *window)
    start = DryRunStart(queues_per_set=counts.queues_per_set, sets=counts.sets, kind=options.kind)
    for cluster, samples in sorted(by_cluster.items()):
        verdicts = dry_run(samples, policy, start)
        yield TopicRun(cluster=cluster, policy=policy, start=start, samples=samples, verdicts=verdicts)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="rmq-scaling-dry-run", description=__doc__)
    parser.add_argument("--history", required=True, metavar="FOLDER", help="historyDir of the servers and the sampler")
    parser.add_argument("--output", metavar="FOLDER", help="output of rmq-analytics (default: the history)")
    parser.add_argument("--policies", required=True, metavar="FILE", help="policies as TOML: controller/SCALING.md")
    parser.add_argument("--topics", required=True, type=_topics, metavar="A,B", help=f"at most {TOPICS_MAX}")
    parser.add_argument(
        "--from", dest="first", type=_time, metavar="TIME", help=f"UTC; default: {DAYS} days before --to"
    )
    parser.add_argument("--to", dest="last", type=_time, metavar="TIME", help="UTC; default: now")
    parser.add_argument("--queues", type=_count, metavar="N", help="queues on each set at first (default: as recorded)")
    parser.add_argument("--sets", type=_count, default=1, metavar="N", help="with --queues: broker sets (default: 1)")
    kinds = ", ".join(each.value for each in KINDS)
    parser.add_argument("--kind", type=_kind, default=GroupKind.CONCURRENT, help=f"of the groups: {kinds}")
    return parser


def _kind(text: str) -> GroupKind:
    kind = GroupKind(text)
    if kind not in KINDS:
        raise ValueError(text)
    return kind


def _topics(text: str) -> list[str]:
    names = list(dict.fromkeys(name for name in text.split(",") if name))
    if not 1 <= len(names) <= TOPICS_MAX:
        raise argparse.ArgumentTypeError(f"{len(names)} topics; 1 to {TOPICS_MAX} are run at a time")
    return names


def _time(text: str) -> datetime:
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no time; write 2026-11-21T20:00:00 (UTC)") from None
    return time if time.tzinfo is not None else time.replace(tzinfo=UTC)


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) not in _QUEUES:
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number from {_QUEUES.start} to {_QUEUES.stop - 1}")
    return int(text)


if __name__ == "__main__":
    sys.exit(main())
