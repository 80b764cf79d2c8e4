"""How a long run tells what it measured: one line on the terminal, whatever pytest keeps to itself."""

import sys


def print_figures(capsys, line):
    with capsys.disabled():
        sys.stdout.write(f"\n{line}\n")
        sys.stdout.flush()
