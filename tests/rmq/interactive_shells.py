"""Real interactive shells at a terminal of their own: keys are typed, and what is on the line is read back."""

import contextlib
import os
import pty
import shlex
import subprocess
import sys
import threading

from peers.waiting import wait_until

#: Makes its input the terminal of its session, as fish needs it, and becomes the shell.
AT_TERMINAL = (
    "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); os.execvp(sys.argv[1], sys.argv[1:])"
)
#: A machine that does much else starts a command within it.
SHELL_S = 120
CTRL_X = "\x18"
CTRL_U = "\x15"

#: Command, and what has Ctrl-X s write the line to the file {line}.
SHELLS = {
    "bash": (
        ["bash", "--norc", "--noprofile", "-i"],
        (
            'eval "$(rmq completion bash)"\n'
            'line_to_file() {{ printf "%s\\n" "<$READLINE_LINE>" > {line}; }}\n'
            "bind -x '\"\\C-xs\": line_to_file'\n"
        ),
    ),
    "zsh": (
        ["zsh", "-f", "-i"],
        (
            "autoload -Uz compinit; compinit -D -u\n"
            'eval "$(rmq completion zsh)"\n'
            'line_to_file() {{ print -r -- "<$BUFFER>" > {line}; }}\n'
            "zle -N line_to_file; bindkey '^Xs' line_to_file\n"
        ),
    ),
    "fish": (
        ["fish", "--no-config", "-i"],
        (
            "rmq completion fish | source\n"
            'function line_to_file; echo "<"(commandline)">" > {line}; end\n'
            "bind \\cxs line_to_file\n"
        ),
    ),
}


class InteractiveShell:
    """One shell in a folder of its own."""

    def __init__(self, name, folder, environment):
        self._line, begun = folder / "line", folder / "begun"
        self._ours, its = pty.openpty()
        command, start = SHELLS[name]
        self._process = subprocess.Popen(
            [sys.executable, "-c", AT_TERMINAL, *command],
            cwd=folder,
            env=environment | {"TERM": "xterm", "PS1": "$ "},
            stdin=its,
            stdout=its,
            stderr=its,
            start_new_session=True,
        )
        os.close(its)
        self.shown = b""
        threading.Thread(target=self._read, daemon=True).start()
        self.type(start.format(line=shlex.quote(str(self._line))) + f"touch {shlex.quote(str(begun))}\n")
        wait_until(begun.exists, seconds=SHELL_S, what=lambda: f"the shell begins: {self.shown!r}")

    def type(self, keys):
        os.write(self._ours, keys.encode())

    def line_after(self, keys):
        """Type at an empty line and return what is on it then."""
        self._line.unlink(missing_ok=True)
        self.type(f"{CTRL_U}{keys}{CTRL_X}s")
        wait_until(self._is_written, seconds=SHELL_S, what=lambda: f"the line after {keys!r}: {self.shown[-500:]!r}")
        return self._line.read_text()[1:-2]

    def close(self):
        self._process.kill()
        self._process.wait()
        os.close(self._ours)

    def _is_written(self):
        return self._line.exists() and self._line.read_text().endswith(">\n")

    def _read(self):
        with contextlib.suppress(OSError):
            while chunk := os.read(self._ours, 65536):
                self.shown += chunk
