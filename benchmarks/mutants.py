"""What the tests make of rules with one thing wrong: mutmut over the rules of both servers, into benchmarks/MUTANTS.md.

    python benchmarks/mutants.py                        every fifth mutant of each rule
    python benchmarks/mutants.py 'controller.failover.monitor.*'   all of these
    python benchmarks/mutants.py --show                 what has survived, as differences

Which modules are rules and which tests are asked stands in pyproject.toml. What mypy refuses is no mutant that a test
has to find. mutmut looks for those with a parser that takes minutes for each large module; here the lines are searched.
"""

import argparse
import json
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

from mutmut import __main__ as mutmut
from mutmut.configuration import config
from mutmut.mutation.file_mutation import FailedTypeCheckMutant, MutatedMethodLocation
from mutmut.stats import status_by_exit_code
from mutmut.type_checking import run_type_checker
from mutmut.utils.file_utils import change_cwd, walk_mutatable_files
from mutmut.utils.format_utils import get_mutant_name

#: Mutants of a function are numbered: these are every fifth.
SAMPLE = "*[27]"
RESULTS = Path(__file__).with_name("MUTANTS.md")
FOLDER = Path("mutants")
KILLED = ("killed", "timeout", "segfault", "suspicious")
MISSED = ("survived", "no tests")
REFUSED = "caught by type check"
_MUTANT = re.compile(r"\s*(?:async )?def (\S+__mutmut_\d+)\(")
_TABLE = re.compile(r"(?<=<!-- table -->\n).*?(?=<!-- end -->)", re.DOTALL)


def refused_by_types() -> dict[str, FailedTypeCheckMutant]:
    """Return the mutants that mypy refuses, by name."""
    refused: dict[str, FailedTypeCheckMutant] = {}
    lines: dict[Path, list[str]] = {}
    with change_cwd(FOLDER):
        for error in run_type_checker(config().type_check_command):
            path = error.file_path
            source = lines.setdefault(path, path.read_text().splitlines())
            number = next(
                (n for n in range(error.line_number, 0, -1) if re.match(r"(    )?(async )?def ", source[n - 1])), 0
            )
            found = _MUTANT.match(source[number - 1]) if number else None
            if found is not None:
                name = get_mutant_name(path.relative_to(Path.cwd()), found[1])
                where = MutatedMethodLocation(path, found[1], number, error.line_number)
                refused[name] = FailedTypeCheckMutant(where, name, error)
    return refused


def results() -> dict[str, dict[str, str]]:
    """Return module -> mutant -> what became of it, of those that were tried."""
    found: dict[str, dict[str, str]] = {}
    for path in walk_mutatable_files():
        meta = FOLDER / f"{path}.meta"
        if meta.exists():
            codes = json.loads(meta.read_text())["exit_code_by_key"]
            found[str(path)] = {name: status_by_exit_code[code] for name, code in codes.items() if code is not None}
    return found


def table() -> str:
    """Return what became of the mutants of each module."""
    rows = ["| module | tried | refused by mypy | killed by a test | survived | noticed | of the rest by tests |"]
    rows.append("|---|---|---|---|---|---|---|")
    everything: Counter[str] = Counter()
    for module, mutants in sorted(results().items()):
        if mutants:
            counts = Counter(mutants.values())
            everything += counts
            rows.append(_row(module, counts))
    return "\n".join([*rows, _row("all", everything)]) + "\n"


def _row(name: str, counts: Counter[str]) -> str:
    killed, missed = sum(counts[each] for each in KILLED), sum(counts[each] for each in MISSED)
    refused = counts[REFUSED]
    noticed = f"{_percent(refused + killed, missed)} | {_percent(killed, missed)}"
    return f"| {name} | {counts.total()} | {refused} | {killed} | {missed} | {noticed} |"


def _percent(killed: int, missed: int) -> str:
    return f"{100 * killed / (killed + missed):.0f} %" if killed + missed else "-"


def show() -> None:
    """Print the differences of all survivors."""
    for mutants in results().values():
        for name in (name for name, status in mutants.items() if status in MISSED):
            shown = subprocess.run(
                [sys.executable, "-m", "mutmut", "show", name], capture_output=True, text=True, check=False
            )
            changed = [line for line in shown.stdout.splitlines() if re.match(r"[-+](?![-+])", line)]
            print(name, *changed, "", sep="\n")


def main() -> None:
    """Try mutants and write down what became of them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("mutants", nargs="*", default=[SAMPLE], help=f"names, with * and [] (default: {SAMPLE})")
    parser.add_argument("--show", action="store_true", help="only print the survivors of the last runs")
    parser.add_argument("--processes", type=int, default=2)
    arguments = parser.parse_args()
    if not arguments.show:
        mutmut.filter_mutants_with_type_checker = refused_by_types
        mutmut._run(arguments.mutants, arguments.processes)  # noqa: SLF001  # its command line has no such hooks
        RESULTS.write_text(_TABLE.sub(lambda _: table(), RESULTS.read_text()))
    show()


if __name__ == "__main__":
    main()
