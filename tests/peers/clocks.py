"""A wall clock that a test sets for one process, without touching that of the machine.

A library that is loaded before all others adds an offset to the time of day, and to nothing else, in everything that
asks libc for it: Python, its event loop and its libraries alike. An injected clock would show our own code only, and
that is kept from the wall clock by the linter already. Time namespaces have no offset for this clock.
"""

import mmap
import shutil
import struct
import subprocess
import sys

# Declares what it needs itself, so that a compiler is enough and no headers have to be installed.
_SOURCE = r"""
struct timespec { long tv_sec; long tv_nsec; };
struct timeval { long tv_sec; long tv_usec; };
extern char *getenv(const char *);
extern int open(const char *, int, ...);
extern void *mmap(void *, unsigned long, int, int, int, long);
extern long syscall(long, ...);

static volatile long *offset_s;

__attribute__((constructor)) static void start(void) {
    int file = open(getenv("WALL_CLOCK_OFFSET_FILE"), 0);
    void *memory = file < 0 ? (void *) -1 : mmap(0, sizeof(long), 1, 1, file, 0);
    if (memory != (void *) -1) offset_s = memory;
}

int clock_gettime(int clock, struct timespec *now) {
    int result = syscall(CLOCK_GETTIME, clock, now);
    /* CLOCK_REALTIME and CLOCK_REALTIME_COARSE */
    if (result == 0 && offset_s && (clock == 0 || clock == 5)) now->tv_sec += *offset_s;
    return result;
}

int gettimeofday(struct timeval *now, void *zone) {
    struct timespec precise;
    int result = clock_gettime(0, &precise);
    if (now) { now->tv_sec = precise.tv_sec; now->tv_usec = precise.tv_nsec / 1000; }
    return result;
}

long time(long *now) {
    struct timespec precise;
    clock_gettime(0, &precise);
    if (now) *now = precise.tv_sec;
    return precise.tv_sec;
}
"""

#: The number of the system call, by machine.
_CLOCK_GETTIME = {"x86_64": 228, "aarch64": 113}


def why_not():
    """Return why no clock can be set here, None if one can."""
    if sys.platform != "linux" or _machine() not in _CLOCK_GETTIME:
        return "the wall clock of a process can be set on Linux of 64 bits only"
    return None if shutil.which("cc") else "the wall clock of a process cannot be set, not installed: cc"


class WallClock:
    """Says by how much the wall clock of the processes with its `environment` is wrong."""

    def __init__(self, folder):
        source, library, offset = (folder / name for name in ("clock.c", "clock.so", "offset"))
        source.write_text(_SOURCE)
        define = f"-DCLOCK_GETTIME={_CLOCK_GETTIME[_machine()]}"
        compiler = ["cc", "-shared", "-fPIC", "-O1", "-nostdlib", define, "-o", library, source]
        subprocess.run([str(word) for word in compiler], check=True)
        offset.write_bytes(bytes(8))
        with offset.open("r+b") as file:
            self._offset = mmap.mmap(file.fileno(), 8)
        self.environment = {"LD_PRELOAD": str(library), "WALL_CLOCK_OFFSET_FILE": str(offset)}

    def jump_to(self, offset_s):
        """Let the clock be so many seconds ahead of that of the machine from now on."""
        self._offset[:] = struct.pack("q", offset_s)


def _machine():
    return subprocess.run(["uname", "-m"], capture_output=True, text=True, check=True).stdout.strip()
