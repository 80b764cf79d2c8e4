"""`rmq-history`: the route of a topic at any moment, what changed since, and the story of a broker."""

import argparse
import difflib
import sys
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

import msgspec

from history.landing import LANDING
from history.schemas import BROKER_STATE, CONTROLLER
from history.times import time_text
from remoting.clock import SystemClock
from remoting.fastjson import Dialect, encode
from timemachine.broker_story import story
from timemachine.moments import Moments, NotRecorded, Seen
from timemachine.rows import History

_EXIT_NOTHING: Final = 1
_EXIT_ARGUMENTS: Final = 2
_WIDTH: Final = 26


def main(arguments: Sequence[str] | None = None) -> int:
    """Answer one question; returns 0, 1 if the history knows nothing of it, or 2 for a question that is none."""
    parser = _parser()
    asked = parser.parse_args(arguments)
    folder = Path(asked.history).expanduser()
    if not (folder / LANDING).is_dir():
        print(
            f"rmq-history: there is no history in {folder}; give the folder that the servers have as historyDir "
            "with --history",
            file=sys.stderr,
        )
        return _EXIT_ARGUMENTS
    try:
        return int(asked.answer(asked, History(folder)))
    except NotRecorded as error:
        print(f"rmq-history: {error}", file=sys.stderr)
        return _EXIT_NOTHING


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="rmq-history", description=__doc__)
    parser.add_argument("--history", default="~/rocketmq-history", metavar="FOLDER", help="historyDir of the servers")
    commands = parser.add_subparsers(required=True, metavar="route|timeline")
    route = commands.add_parser("route", help="the route of a topic as it was served")
    route.add_argument("topic")
    route.add_argument("--at", type=_time, default=None, metavar="TIME", help="UTC, 2026-11-21T20:00:00; default: now")
    route.add_argument("--diff", type=_time, metavar="TIME", help="show what was different at this time")
    route.add_argument("--namesrv", metavar="ID", help="only what this NameServer served (host_port)")
    route.add_argument("--json", action="store_true", help="the body as it was served, one line for each NameServer")
    route.set_defaults(answer=_route)
    timeline = commands.add_parser("timeline", help="what happened to a broker, in order")
    timeline.add_argument("--broker", required=True, metavar="NAME", help="broker name")
    timeline.add_argument("--from", dest="first", type=_time, metavar="TIME", help="default: an hour before --to")
    timeline.add_argument("--to", dest="last", type=_time, metavar="TIME", help="default: now")
    timeline.set_defaults(answer=_timeline)
    return parser


def _time(text: str) -> datetime:
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no time; write 2026-11-21T20:00:00 (UTC)") from None
    return time if time.tzinfo is not None else time.replace(tzinfo=UTC)


def _now() -> datetime:
    return datetime.fromtimestamp(SystemClock().unix_us() / 1e6, UTC)


def _route(asked: argparse.Namespace, history: History) -> int:
    moments = Moments(history)
    seen = moments.seen(asked.topic, asked.at or _now(), asked.namesrv)
    if asked.diff is None:
        for each in seen:
            print(_shown(each, is_json=asked.json))
        return 0
    later = {each.ns_id: each for each in moments.seen(asked.topic, asked.diff, asked.namesrv)}
    for each in seen:
        before, after = _lines(each), _lines(later[each.ns_id]) if each.ns_id in later else []
        changes = list(difflib.unified_diff(before, after, "before", "after", lineterm=""))[2:]
        print("\n".join([f"{each.ns_id}:", *(changes or ["  no difference"])]))
    return 0


def _shown(seen: Seen, *, is_json: bool) -> str:
    if is_json:
        body = None if seen.route is None else encode(seen.route, Dialect.STANDARD).decode()
        return msgspec.json.encode({"ns_id": seen.ns_id, "doubt": seen.doubt, "route": body}).decode()
    return "\n".join([f"{seen.ns_id}:{f' ({seen.doubt})' if seen.doubt else ''}", *_lines(seen)])


def _lines(seen: Seen) -> list[str]:
    route = seen.route
    if route is None:
        return ["  no route: no broker has the topic"]
    lines = []
    for data in route.broker_datas:
        members = ", ".join(f"{broker_id}={address}" for broker_id, address in data.broker_addrs.items())
        lines.append(f"  broker {data.broker_name} ({data.cluster}): {members}")
    lines += [
        f"  queues {each.broker_name}: read {each.read_queue_nums}, write {each.write_queue_nums}, perm {each.perm}"
        for each in route.queue_datas
    ]
    if isinstance(route.order_topic_conf, str):
        lines.append(f"  order {route.order_topic_conf}")
    return lines


def _timeline(asked: argparse.Namespace, history: History) -> int:
    last = asked.last or _now()
    first = asked.first or last - timedelta(hours=1)
    name = f'"{asked.broker}"'.encode()
    rows = [
        row
        for family in (BROKER_STATE.name, CONTROLLER.name)
        for row in history.rows(family, first, last, None, lambda line: name in line)
        if row.broker_name == asked.broker
    ]
    if not rows:
        raise NotRecorded(f"nothing happened to {asked.broker} between {first.isoformat()} and {last.isoformat()}")
    for moment in story(rows):
        print(f"{time_text(moment.unix_us):{_WIDTH}}  {moment.ns_id:{_WIDTH}}  {moment.sentence}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
