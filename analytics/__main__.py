"""The `rmq-analytics` command: options, one task, an exit code.

Exit codes: 0 done; 1 failed, the last lines on stderr say why; 2 wrong options; 3 Java or PySpark is not installed;
130 interrupted. Results go to files; all that is printed is for people, on stderr. Nothing of Spark is imported before
it is needed, so that `-h` answers at once, also where Spark is not installed.
"""

import argparse
import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Final, NamedTuple, NoReturn

from analytics.engine.registry import MODULES, UnknownJob

FAILED: Final = 1
WRONG_OPTIONS: Final = 2
NOT_INSTALLED: Final = 3
INTERRUPTED: Final = 130


class Task(NamedTuple):
    """A subcommand: a function of the same name in a module does it, given the options."""

    name: str
    help: str
    add_options: Callable[[argparse.ArgumentParser], None]
    module: str = "analytics.cli.commands"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run `rmq-analytics` and return its exit code."""
    # Python's own times of day shall be Spark's.
    os.environ["TZ"] = "UTC"
    time.tzset()
    signal.signal(signal.SIGTERM, _interrupt)
    options = _parser().parse_args(arguments)
    if find_spec("pyspark") is None:
        return _leave(
            NOT_INSTALLED,
            f"PySpark is not installed: in the repository, {sys.executable} -m pip install --editable '.[analytics]'",
        )
    try:
        # Only now is it known that PySpark is there.
        from analytics.cli.options import WrongOptions  # noqa: PLC0415
        from analytics.cli.session import NoJava  # noqa: PLC0415
        from analytics.spark.failures import FAILURES, SomeFailed, sentence  # noqa: PLC0415

        getattr(import_module(options.task.module), options.task.name)(options)
    except KeyboardInterrupt:
        _leave(INTERRUPTED, "interrupted; what was finished counts, the next run goes on from there")
        # Python would wait for threads that plan and run jobs. Java ends when this process does.
        os._exit(INTERRUPTED)
    except (WrongOptions, UnknownJob) as error:
        return _leave(WRONG_OPTIONS, str(error))
    except NoJava as error:
        return _leave(NOT_INSTALLED, str(error))
    except SomeFailed as failed:
        return _leave(FAILED, f"failed: {failed}")
    except FAILURES as failure:
        return _leave(FAILED, f"failed: {sentence(failure)}")
    return 0


def _leave(code: int, sentence: str) -> int:
    sys.stderr.write(f"rmq-analytics: {sentence}\n")
    return code


def _interrupt(_number: int, _frame: object) -> NoReturn:
    """Leave as after Ctrl-C: wherever it is stopped, nothing has to be put in order."""
    raise KeyboardInterrupt


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="rmq-analytics",
        description="Learns from what the servers recorded: stores their history, and analyses it with Spark.",
    )
    subparsers = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    for task in TASKS:
        subparser = subparsers.add_parser(task.name, help=task.help, description=f"{task.help.capitalize()}.")
        task.add_options(subparser)
        subparser.set_defaults(task=task)
    return parser


#: Where `make run` has the servers write.
_HISTORY: Final = "~/rocketmq-history"


def _folder(text: str) -> str:
    """Return a folder of this machine with its home folder in place of `~`, or a URI as it is."""
    return text if "://" in text else str(Path(text).expanduser())


def _seconds(text: str) -> float:
    with suppress(ValueError):
        if (seconds := float(text)) >= 1:
            return seconds
    raise argparse.ArgumentTypeError(f"{text!r} is no time: write seconds, at least 1")


def add_folders(parser: argparse.ArgumentParser) -> None:
    """Add where the history is, and where all that is made of it goes."""
    parser.add_argument(
        "--history",
        metavar="DIR",
        type=_folder,
        default=_HISTORY,
        help="historyDir of the servers (default: %(default)s)",
    )
    parser.add_argument(
        "--output",
        metavar="DIR",
        type=_folder,
        help="where stored history and results go (default: the history folder)",
    )


def add_spark(parser: argparse.ArgumentParser) -> None:
    """Add where and how Spark runs, and the folders."""
    add_folders(parser)
    parser.add_argument("--master", default="local[*]", help="master of Spark (default: %(default)s, this machine)")
    parser.add_argument("--driver-memory", metavar="SIZE", default="3g", help="of the driver (default: %(default)s)")
    parser.add_argument(
        "--conf", metavar="KEY=VALUE", action="append", default=[], help="a setting of Spark; may be repeated"
    )


def _add_stream(parser: argparse.ArgumentParser) -> None:
    add_spark(parser)
    parser.add_argument("--once", action="store_true", help="take what is there now, and leave")
    parser.add_argument(
        "--every",
        metavar="SECONDS",
        type=_seconds,
        default=60.0,
        help="how often to look for files (default: %(default)g)",
    )


def _add_run(parser: argparse.ArgumentParser) -> None:
    add_spark(parser)
    known = ", ".join(f"{job_id} ({module})" for job_id, module in MODULES.items())
    parser.add_argument("--job", action="append", default=[], help=f"only this one; may be repeated; one of {known}")
    parser.add_argument("--from", dest="start", metavar="TIME", help="begin of the window, UTC (default: 30 days ago)")
    parser.add_argument("--to", dest="end", metavar="TIME", help="end of the window, UTC (default: now)")
    parser.add_argument(
        "--limit",
        metavar="RESOURCE=NUMBER",
        action="append",
        default=[],
        help="where a resource ends, for A12; may be repeated (resident_memory_bytes=2147483648)",
    )
    parser.add_argument(
        "--period",
        metavar="[SET/]KIND=MS",
        action="append",
        default=[],
        help="period of heartbeats, of all brokers or of one set, where it is not the default, for A2 and A5; "
        "may be repeated (register=60000, broker-a/heartbeat=500)",
    )
    parser.add_argument("--raw", action="store_true", help="make all of it from rows, not from what was kept of days")


def _add_update(parser: argparse.ArgumentParser) -> None:
    _add_run(parser)
    _add_file(parser)


def _add_report(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--output",
        "--history",
        metavar="DIR",
        type=_folder,
        default=_HISTORY,
        help="where the results are (default: %(default)s)",
    )
    _add_file(parser)


def _add_file(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--file", metavar="FILE", help="the page to write (default: report.html in the folder of the results)"
    )


#: All subcommands.
TASKS: Final = (
    Task("ingest", "read what the servers have written into the stored history", add_spark),
    Task("stream", "read it all the time, as soon as a file is there", _add_stream),
    Task("run", "run analyses and publish their results", _add_run),
    Task("report", "write one HTML page of what the analyses have found", _add_report, "analytics.cli.report"),
    Task("update", "ingest, run and report in one go", _add_update),
    Task("compact", "make few large files of many small ones, and delete what is old", add_spark),
)


if __name__ == "__main__":
    sys.exit(main())
