"""What the system lets this process have: memory and open files.

Memory is that of the machine, or less where a control group (a container) limits it.
"""

import contextlib
import dataclasses
import os
import resource
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from serving.config.server_config import Config

#: What is shared by all peers and has a limit in bytes: unfinished frames, unread answers, bodies that wait. Each may
#: take this part of the memory, so that all together leave most of it to the tables.
_SHARE: Final = 8
#: A frame of a very large broker has 64 MiB; no deployment needs more than 512 MiB.
_SHARE_BYTES_MIN: Final = 64 * 1024 * 1024
_SHARE_BYTES_MAX: Final = 512 * 1024 * 1024
#: Tables grow with the site, so their limit, such a part of the memory, grows with the machine.
_TABLE_SHARE: Final = 4
_TABLE_BYTES_MIN: Final = 256 * 1024 * 1024

#: Files that are not connections of peers: the HTTP side's connections, requests of ours, stores and logs.
_FILES_RESERVED: Final = 512
_FILES_WANTED: Final = 10_240


def share_bytes(memory_bytes: int) -> int:
    """Return the limit in bytes of each of these, for so much memory."""
    return max(_SHARE_BYTES_MIN, min(_SHARE_BYTES_MAX, memory_bytes // _SHARE))


def with_shares(config: Config, memory_bytes: int) -> Config:
    """Return a configuration in which each of these limits that was left at 0 is its share of so much memory.

    Two servers in a process have half of it each; but no share is less than the longest frame.
    """
    memory_bytes //= 2 if config.has_others_properties else 1
    of_peers = ("partial_frame_bytes_max", "response_buffer_bytes_max", "queued_bytes_max")
    shares: dict[str, Any] = dict.fromkeys(of_peers, share_bytes(memory_bytes))
    # A NameServer's.
    shares["topic_bytes_max"] = max(_TABLE_BYTES_MIN, memory_bytes // _TABLE_SHARE)
    return dataclasses.replace(config, **{name: each for name, each in shares.items() if getattr(config, name, 1) == 0})


def usable_memory_bytes(root: Path = Path("/")) -> int:
    """Return the least of the machine's memory and the limits of the control groups that this process is in."""
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return min([machine, *_group_limits(root)])


def resident_bytes() -> int:
    """Return how much memory the process has; 0 where the system has no /proc."""
    with contextlib.suppress(OSError):
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")
    return 0


def raised_file_limit() -> int:
    """Let this process open as many files as the system allows it, as Java does, and return how many those are."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    # macOS reports no limit and then refuses it.
    wanted = hard if hard != resource.RLIM_INFINITY else max(soft, _FILES_WANTED)
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def room_for_connections(limit: int) -> int:
    return max(1, limit - _FILES_RESERVED)


def _group_limits(root: Path) -> Iterator[int]:
    for folder, name in _group_files(root):
        path = folder / name
        try:
            text = path.read_text().strip()
        except OSError:
            continue
        # `max` for none; the first version has a very large number instead.
        if text.isdecimal():
            yield int(text)


def _group_files(root: Path) -> Iterator[tuple[Path, str]]:
    """Return where a limit of this process may stand: its group's, and those of the groups above."""
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        return
    base = root / "sys/fs/cgroup"
    for line in lines:
        _, controllers, group = line.split(":", 2)
        top, name = (base, "memory.max") if not controllers else (base / "memory", "memory.limit_in_bytes")
        if controllers and "memory" not in controllers.split(","):
            continue
        # A container may see its group's own path, or that of the machine.
        inner = Path(group.lstrip("/"))
        yield from ((top / each, name) for each in (inner, *inner.parents))
