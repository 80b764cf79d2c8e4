"""What a run of the checklist has measured, line by line, and the table of it at the end.

A line's limits are those of the checklist. They are judged where a run has its full length and the machine to itself;
short runs, in CI, only wait much longer than that, and the table tells what they measured.
"""

import json
import os
import re
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path

import pytest
from measured import note

#: Waits last so many times the limit of the checklist: machines of CI are slow, and how late is worth knowing.
PATIENCE = 4


@dataclass
class Line:
    """One line of the checklist in one run."""

    number: str
    behaviour: str
    #: Which controller, and where it matters the version of the brokers.
    subject: str
    measured: list[str] = field(default_factory=list)
    misses: list[str] = field(default_factory=list)

    def took(self, what, seconds, *, limit):
        """Note how long something took, and what it may take by the checklist; None has no limit."""
        self.measured.append(f"{what} {seconds:.2f} s")
        if limit is not None and seconds > limit:
            self.misses.append(f"{what} {seconds:.2f} s > {limit} s")

    def saw(self, what):
        self.measured.append(what)

    @property
    def passed(self):
        return not self.misses

    def row(self):
        """Return it as one line of text."""
        verdict = "pass" if self.passed else "FAIL: " + "; ".join(self.misses)
        return f"{self.number:>4} | {self.behaviour} | {self.subject} | {'; '.join(self.measured)} | {verdict}"


@dataclass(frozen=True)
class Run:
    """Which controller is tried with which brokers, and whether in full length."""

    controller: str
    full: bool
    broker_version: str

    @property
    def is_ours(self):
        return self.controller == "ours"

    def choose(self, *, full, short):
        return full if self.full else short


class Table:
    """All lines so far. With ACCEPTANCE_RESULTS, the name of a file, also those of earlier runs."""

    def __init__(self):
        kept = os.environ.get("ACCEPTANCE_RESULTS")
        self._file = Path(kept) if kept else None
        self._lines = {}

    @contextmanager
    def line(self, run, number, behaviour, *, subject, java_fails):
        """Note what one line measures.

        A full run fails if a limit of the checklist was missed. What matches `java_fails` is a known failure of the
        Java controller: it is noted, and the test counts as expected to fail.
        """
        line = Line(number, behaviour, subject)
        try:
            yield line
        except AssertionError as error:
            line.misses.append(str(error).partition("\n")[0])
            if run.is_ours or not _is_known(line, java_fails):
                raise
        finally:
            self._keep(line)
        if line.misses and not run.is_ours and _is_known(line, java_fails):
            pytest.xfail(f"the Java controller, as known: {'; '.join(line.misses)}")
        assert line.passed or not run.full or not run.is_ours, "; ".join(line.misses)

    def _keep(self, line):
        self._look_up()
        self._lines[line.number, line.subject] = line
        if self._file:
            self._file.write_text(json.dumps([asdict(each) for each in self._lines.values()], indent=1))
        for each in self._lines.values():
            note("checklist of the controller", (int(each.number.split("+")[0]), each.number, each.subject), each.row())

    def _look_up(self):
        """Take over what was kept by other runs, which may go on beside this one."""
        if self._file and self._file.exists():
            for row in json.loads(self._file.read_text()):
                self._lines[row["number"], row["subject"]] = Line(**row)


def _is_known(line, pattern):
    return pattern is not None and all(re.search(pattern, miss) for miss in line.misses)
