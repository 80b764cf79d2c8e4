"""`rmq-history`: the former name of `rmq history`, with the same answers; it goes with the next release."""

import argparse
import difflib
import os
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

import msgspec

from history.times import time_text
from remoting.clock import SystemClock
from remoting.protocol.shapes.route import BrokerData
from timemachine.moments import Moments, NotRecorded, Seen
from timemachine.queries import DEFAULT_FOLDER, NoHistory, body_line, open_history, span_of, time_in, timeline_of
from timemachine.rows import History

_EXIT_NOTHING: Final = 1
_EXIT_ARGUMENTS: Final = 2
_WIDTH: Final = 26
_HISTORY_HELP: Final = f"historyDir of the servers (default: {DEFAULT_FOLDER})"
_DESCRIPTION: Final = """The route of a topic at any moment, what changed since, and the timeline of a broker.
`rmq history` answers the same, also as tables, JSON and CSV; this name goes with the next release."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns 0, 1 if the history knows nothing of it, or 2 for invalid arguments."""
    parser = _parser()
    options = parser.parse_args(arguments)
    if complaint := options.error(options):
        parser.error(complaint)
    try:
        history = open_history(options.history)
    except NoHistory as error:
        print(f"rmq-history: {error}", file=sys.stderr)
        return _EXIT_ARGUMENTS
    try:
        code = int(options.command(options, history))
        sys.stdout.flush()
    except (NotRecorded, OSError) as error:
        if isinstance(error, BrokenPipeError):
            # Whoever reads has seen enough; Python must not try again when it ends.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        else:
            print(f"rmq-history: {error}", file=sys.stderr)
        code = _EXIT_NOTHING
    if history.unreadable:
        print(f"rmq-history: {history.unreadable} lines cannot be read and are left out", file=sys.stderr)
    return code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="rmq-history", description=_DESCRIPTION)
    parser.add_argument("--history", default=DEFAULT_FOLDER, metavar="FOLDER", help=_HISTORY_HELP)
    commands = parser.add_subparsers(required=True, metavar="route|timeline")
    route = commands.add_parser("route", help="the route of a topic as it was served")
    route.add_argument("topic", type=_name)
    route.add_argument("--at", type=_time, default=None, metavar="TIME", help="UTC, 2026-11-21T20:00:00; default: now")
    route.add_argument("--diff", type=_time, metavar="TIME", help="show what was different at this time")
    route.add_argument("--namesrv", type=_name, metavar="ID", help="only what this NameServer served (host_port)")
    route.add_argument("--json", action="store_true", help="the body as it was served, one line for each NameServer")
    _add_history(route)
    route.set_defaults(command=_route, error=_route_error)
    timeline = commands.add_parser("timeline", help="what happened to a broker, in order")
    timeline.add_argument("--broker", required=True, type=_name, metavar="NAME", help="broker name")
    timeline.add_argument("--from", dest="first", type=_time, metavar="TIME", help="default: an hour before --to")
    timeline.add_argument("--to", dest="last", type=_time, metavar="TIME", help="default: now")
    _add_history(timeline)
    timeline.set_defaults(command=_timeline, error=_timeline_error)
    return parser


def _add_history(parser: argparse.ArgumentParser) -> None:
    """Accept the folder after the command, too."""
    parser.add_argument("--history", default=argparse.SUPPRESS, metavar="FOLDER", help=_HISTORY_HELP)


def _time(text: str) -> datetime:
    try:
        return time_in(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _name(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise argparse.ArgumentTypeError(f"{text!r} is no text: names are UTF-8") from None
    return text


def _route_error(options: argparse.Namespace) -> str:
    return "--json shows one moment: leave --diff out" if options.json and options.diff else ""


def _timeline_error(options: argparse.Namespace) -> str:
    try:
        span_of(options.first, options.last, _now())
    except ValueError as error:
        return str(error)
    return ""


def _now() -> datetime:
    return datetime.fromtimestamp(SystemClock().unix_us() / 1e6, UTC)


def _route(options: argparse.Namespace, history: History) -> int:
    moments = Moments(history, _now())
    seen = moments.seen(options.topic, options.at or _now(), options.namesrv)
    if options.diff is None:
        for each in seen:
            print(_shown(each, is_json=options.json))
        return 0
    before = {each.ns_id: each for each in seen}
    after = {each.ns_id: each for each in moments.seen(options.topic, options.diff, options.namesrv)}
    for ns_id in sorted(before | after):
        print("\n".join([f"{ns_id}:", *_difference(before.get(ns_id), after.get(ns_id))]))
    return 0


def _difference(before: Seen | None, after: Seen | None) -> list[str]:
    """Return what changed for one NameServer, with the warnings about either time."""
    doubts = [
        f"  ({when}: {seen.doubt if seen else 'it had recorded nothing by then'})"
        for when, seen in (("before", before), ("after", after))
        if seen is None or seen.doubt
    ]
    lines, later = (_lines(seen) if seen else [] for seen in (before, after))
    changes = list(difflib.unified_diff(lines, later, lineterm=""))[2:]
    return [*doubts, *(changes or ["  no difference"])]


def _shown(seen: Seen, *, is_json: bool) -> str:
    if is_json:
        return body_line(seen)
    return "\n".join([f"{seen.ns_id}:{f' ({seen.doubt})' if seen.doubt else ''}", *_lines(seen)])


def _lines(seen: Seen) -> list[str]:
    route = seen.route
    if route is None:
        return ["  no route is known" if seen.doubt else "  no route: no broker has the topic"]
    lines = [_broker_line(data) for data in route.broker_datas]
    for each in route.queue_datas:
        flag = f", system flag {each.topic_sys_flag}" if each.topic_sys_flag else ""
        numbers = f"read {each.read_queue_nums}, write {each.write_queue_nums}, perm {each.perm}"
        lines.append(f"  queues {each.broker_name}: {numbers}{flag}")
    for address, servers in route.filter_server_table.items():
        lines.append(f"  filter servers of {address}: {', '.join(servers)}")
    if isinstance(route.order_topic_conf, str):
        lines.append(f"  order {route.order_topic_conf}")
    if isinstance(mappings := route.topic_queue_mapping_by_broker, dict):
        lines += [f"  mapping {name}: {msgspec.json.encode(each).decode()}" for name, each in mappings.items()]
    return lines


def _broker_line(data: BrokerData) -> str:
    members = ", ".join(f"{broker_id}={address}" for broker_id, address in data.broker_addrs.items())
    zone = f", zone {data.zone_name}" if isinstance(data.zone_name, str) else ""
    acting = ", a slave may act as master" if data.enable_acting_master else ""
    return f"  broker {data.broker_name} ({data.cluster}): {members}{zone}{acting}"


def _timeline(options: argparse.Namespace, history: History) -> int:
    found = timeline_of(history, options.broker, *span_of(options.first, options.last, _now()))
    for event in found.events:
        print(f"{time_text(event.unix_us):{_WIDTH}}  {event.ns_id:{_WIDTH}}  {event.sentence}")
    if found.nothing:
        sys.stdout.flush()
        raise NotRecorded(found.nothing)
    return 0


if __name__ == "__main__":
    sys.exit(main())
