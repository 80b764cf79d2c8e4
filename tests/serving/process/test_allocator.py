"""Memory that lies free below what is in use, in a process of its own: it changes settings of the C library."""

import subprocess
import sys

import pytest

PROGRAM = """
from serving.process.allocator import FreeMemory, keep_freed_memory, resident_bytes
keep_freed_memory()
free = FreeMemory()
before = resident_bytes()
blocks = [bytes(bytearray(100_000)) for _ in range(4000)]
assert not free.give_back(), "all of it is in use"
pinned = blocks[1999::2000]
del blocks[2000:]
assert free.give_back(), "half is free"
assert resident_bytes() > before + 150_000_000
del blocks[:]
assert free.give_back()
assert resident_bytes() < before + 100_000_000
assert not free.give_back(), "nothing more is to be given back"
"""

#: Holes smaller than a page cannot be given back. Once they were in use, all that is free later counts.
HOLES = """
from serving.process.allocator import FreeMemory, keep_freed_memory, resident_bytes
keep_freed_memory()
free = FreeMemory()
before = resident_bytes()
blocks = [bytes(bytearray(3000)) for _ in range(130_000)]
highest = bytes(bytearray(3000))
del blocks[::2]
assert free.give_back(), "half is free"
assert resident_bytes() > before + 300_000_000, "in holes"
filling = [bytes(bytearray(3000)) for _ in range(65_000)]
assert not free.give_back(), "all of it is in use"
del filling, blocks[:20_000]
assert free.give_back(), "more than half is free"
assert resident_bytes() < before + 330_000_000
"""

linux_only = pytest.mark.skipif(sys.platform != "linux", reason="other systems have other C libraries")


@linux_only
def test_memory_that_was_free_once_used_since_and_free_again_goes_back():
    ran = subprocess.run([sys.executable, "-c", HOLES], capture_output=True, text=True, timeout=60, check=False)
    assert (ran.returncode, ran.stderr) == (0, "")


@linux_only
def test_much_free_memory_goes_back_to_the_system_once():
    ran = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=60, check=False)
    assert (ran.returncode, ran.stderr) == (0, "")
