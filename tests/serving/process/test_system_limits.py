"""How much memory a server may use, and what of it peers may take."""

import os

import pytest

from namesrv.settings.config import NameServerConfig
from serving.process.system_limits import share_bytes, usable_memory_bytes, with_shares

MIB = 1024 * 1024
MACHINE = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def a_machine(folder, groups, **limits):
    files = {"proc/self/cgroup": groups} | {f"sys/fs/cgroup/{path}": text for path, text in limits.items()}
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    return folder


@pytest.mark.parametrize(
    ("groups", "limits", "expected"),
    [
        ("0::/\n", {"memory.max": f"{64 * MIB}\n"}, 64 * MIB),
        ("0::/a/b\n", {"a/b/memory.max": "max\n", "a/memory.max": f"{96 * MIB}\n"}, 96 * MIB),
        ("0::/a/b\n", {"a/b/memory.max": f"{32 * MIB}\n", "a/memory.max": f"{96 * MIB}\n"}, 32 * MIB),
        ("0::/elsewhere\n", {"memory.max": f"{64 * MIB}\n"}, 64 * MIB),
        ("5:cpu:/x\n4:memory:/y\n", {"memory/y/memory.limit_in_bytes": f"{48 * MIB}\n"}, 48 * MIB),
        ("4:memory:/\n", {"memory/memory.limit_in_bytes": "9223372036854771712\n"}, MACHINE),
        ("0::/\n", {"memory.max": "max\n"}, MACHINE),
        ("0::/\n", {}, MACHINE),
    ],
)
def test_the_least_limit_of_machine_and_control_groups_counts(tmp_path, groups, limits, expected):
    assert usable_memory_bytes(a_machine(tmp_path, groups, **limits)) == expected


def test_a_machine_without_control_groups_has_its_own_memory(tmp_path):
    assert usable_memory_bytes(tmp_path) == MACHINE


@pytest.mark.parametrize(
    ("memory", "share"), [(256 * MIB, 64 * MIB), (1024 * MIB, 128 * MIB), (2048 * MIB, 256 * MIB), (2**40, 512 * MIB)]
)
def test_peers_may_take_a_part_of_the_memory_for_each_kind_of_what_they_leave(memory, share):
    assert share_bytes(memory) == share


@pytest.mark.parametrize(("memory", "share"), [(512 * MIB, 256 * MIB), (8192 * MIB, 2048 * MIB), (2**40, 2**38)])
def test_tables_may_take_more_of_a_larger_machine(memory, share):
    assert with_shares(NameServerConfig(), memory).topic_bytes_max == share
    assert with_shares(NameServerConfig(topic_bytes_max=7), memory).topic_bytes_max == 7


@pytest.mark.parametrize(
    ("memory", "share"), [(512 * MIB, 64 * MIB), (2048 * MIB, 128 * MIB), (4096 * MIB, 256 * MIB), (2**40, 512 * MIB)]
)
def test_two_servers_in_one_process_take_no_more_of_the_memory_than_one(memory, share):
    alone, both = (NameServerConfig(enable_controller_in_namesrv=both, queued_bytes_max=7) for both in (False, True))
    config = with_shares(both, memory)
    assert (config.partial_frame_bytes_max, config.response_buffer_bytes_max, config.queued_bytes_max) == (
        share,
        share,
        7,
    )
    assert with_shares(alone, memory).response_buffer_bytes_max == share_bytes(memory)
