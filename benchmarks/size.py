"""Prints how large the product and its tests are, by package, and what the aims for it are.

Lines are those of Python files that git knows, blank ones and comments too. Product is what the wheel holds, with
dashboards/ and helm/; benchmarks/ and demo/ are neither product nor tests. Plumbing is what takes a feature in and out
of a server: HTTP, logs and metrics, recording, options; its share is of the rest of the servers.
"""

import argparse
import subprocess
from collections import Counter
from pathlib import Path, PurePath
from statistics import median
from typing import Final

REPOSITORY: Final = Path(__file__).parents[1]
SERVERS: Final = ("namesrv", "controller", "offsets")
NO_PRODUCT: Final = ("tests", "benchmarks", "demo")
SMALL_LINES: Final = 60
#: Folders of a server, and names of modules anywhere in it.
PLUMBING_FOLDERS: Final = frozenset({"http", "observability", "recording", "settings"})
PLUMBING_MODULES: Final = frozenset({"events", "catalogues", "gauges", "config"})


def lines_by_file(revision: str) -> dict[str, int]:
    """Return the lines of each Python file at a revision; of the working tree where that is blank."""
    where = ["", revision] if revision else ["--untracked", ""]
    counting = ["git", "grep", "--count", *where, "--", "*.py"]
    counted = subprocess.run(counting, cwd=REPOSITORY, capture_output=True, text=True, check=True).stdout.splitlines()
    pairs = (line.removeprefix(f"{revision}:").rsplit(":", 1) for line in counted)
    return {name: int(lines) for name, lines in pairs}


def package(name: str) -> str:
    """Return the package or folder of a file, `.` for one at the top."""
    parts = PurePath(name).parts
    return parts[0] if len(parts) > 1 else "."


def is_plumbing(name: str) -> bool:
    """Tell whether a file of a server takes features in and out."""
    path = PurePath(name)
    return path.parts[1] in PLUMBING_FOLDERS or path.stem in PLUMBING_MODULES


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("revision", nargs="?", default="", help="a commit (default: the working tree)")
    files = lines_by_file(parser.parse_args().revision)
    product = {name: lines for name, lines in files.items() if package(name) not in NO_PRODUCT}
    tests = {name: lines for name, lines in files.items() if package(name) == "tests"}
    sizes = product.values()
    plumbing, core = Counter[str](), Counter[str]()
    for name, lines in product.items():
        if package(name) in SERVERS and len(PurePath(name).parts) > 1:
            (plumbing if is_plumbing(name) else core)[package(name)] += lines
    shares = ", ".join(f"{server} {plumbing[server] / core[server]:.0%}" for server in SERVERS if core[server])
    small = sum(size < SMALL_LINES for size in sizes)
    print("| measure | now | goal |\n|---|---|---|")
    print(f"| product, lines | {sum(product.values()):,} in {len(product)} files | 93,000 |")
    print(f"| tests, lines | {sum(tests.values()):,} in {len(tests)} files | 108,000 |")
    print(f"| median file of the product, lines | {median(sizes):.0f} | 180 |")
    print(f"| files below {SMALL_LINES} lines | {small / len(sizes):.0%} | names that people look for |")
    print(f"| plumbing on top of the rest | {plumbing.total() / core.total():.0%} ({shares}) | 15% |")
    print("\n| package | lines | files | median | tests |\n|---|---|---|---|---|")
    packages = {
        name: [lines for file, lines in product.items() if package(file) == name] for name in map(package, product)
    }
    for name, own in sorted(packages.items(), key=lambda pair: -sum(pair[1])):
        its = sum(lines for file, lines in tests.items() if PurePath(file).parts[1] == name)
        print(f"| {name} | {sum(own):,} | {len(own)} | {median(own):.0f} | {its:,} |")


if __name__ == "__main__":
    main()
