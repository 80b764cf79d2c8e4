"""A small disk for one server, which a test fills, empties and makes read-only.

The disk is memory, mounted in a mount namespace of the server's process: nobody else sees it, and it goes with the
process, whatever becomes of the test. Root needs nothing more for it; others need user namespaces.
"""

import functools
import os
import shutil
import subprocess
from pathlib import Path

DISK_BYTES = 256 * 1024

# Gets the folder, the option of the second mount and the file for the output, then the server's command.
_SCRIPT = """
set -e
folder=$1 mode=$2 output=$3
shift 3
mount -t tmpfs -o size=%d none "$folder.disk"
cp -r "$folder/." "$folder.disk"
mount --move "$folder.disk" "$folder"
mount -o "remount,$mode" "$folder"
[ -z "$output" ] || exec >"$output"
exec "$@"
"""


@functools.cache
def own_mounts():
    """Return the command that gives a program mounts of its own, None if there is none or it is not permitted."""
    if shutil.which("unshare") is None:
        return None
    for command in (["unshare", "--mount"], ["unshare", "--map-root-user", "--mount"]):
        probe = [*command, "mount", "-t", "tmpfs", "none", "/mnt"]
        if subprocess.run(probe, capture_output=True, check=False).returncode == 0:
            return command
    return None


def why_not():
    """Return why there can be no such disk here, None if there can."""
    return None if own_mounts() else "this system lets nobody mount a disk of its own"


class SmallDisk:
    """256 KiB in place of a folder, which hold at first what the folder holds."""

    def __init__(self, folder):
        folder.mkdir()
        folder.with_name(f"{folder.name}.disk").mkdir()
        self.folder = folder
        self._process = None

    def wrapper(self, *, read_only=False, output=None):
        """Return what starts a command with the disk; its output can go to a file on it."""
        script = _SCRIPT % DISK_BYTES
        mode = "ro" if read_only else "rw"
        return [*own_mounts(), "sh", "-c", script, "sh", self.folder, mode, self.folder / output if output else ""]

    def attach(self, process):
        """Look at the disk of this process from now on."""
        self._process = process
        return self

    def path(self, name="."):
        """Return where the test finds a file of the disk."""
        return Path(f"/proc/{self._process.pid}/root{self.folder}") / name

    def fill(self, *, pages_left=0):
        """Leave room for so many pages; each file takes one at least."""
        room = os.statvfs(self.path())
        with self.path("filler").open("ab") as file:
            file.write(b"x" * ((room.f_bavail - pages_left) * room.f_frsize))

    def make_room(self):
        self.path("filler").unlink()

    def set_read_only(self, read_only):
        mode = "remount,ro" if read_only else "remount,rw"
        into = ["nsenter", "--target", self._process.pid, "--mount"]
        into += ["--user", "--preserve-credentials"] if "--map-root-user" in own_mounts() else []
        subprocess.run([str(word) for word in (*into, "mount", "-o", mode, self.folder)], check=True)
