"""Copies dashboards and alerts into the chart, where alone Helm's templates find them: `python helm/sync.py`.

What is no longer there is removed from the chart too. A test fails while both sides differ.
"""
# ruff: noqa: INP001 -- a program of its own, no part of a package

from collections.abc import Mapping
from pathlib import Path
from typing import Final

REPOSITORY: Final = Path(__file__).resolve().parent.parent
CHART: Final = REPOSITORY / "helm" / "rocketmq-control-plane"

#: Folder of the chart -> where its files come from, and their pattern. Rules alone end in .yaml there; an example of
#: Prometheus' own configuration ends in .yml.
SOURCES: Final[Mapping[str, tuple[Path, str]]] = {
    "dashboards": (REPOSITORY / "dashboards" / "json", "*.json"),
    "rules": (REPOSITORY / "dashboards" / "prometheus", "*.yaml"),
}


def wanted_files() -> dict[Path, bytes]:
    """Return what the chart's folders should hold."""
    return {
        CHART / folder / path.name: path.read_bytes()
        for folder, (source, pattern) in SOURCES.items()
        for path in sorted(source.glob(pattern))
    }


def present_files() -> dict[Path, bytes]:
    """Return what they hold."""
    return {path: path.read_bytes() for folder in SOURCES for path in sorted((CHART / folder).glob("*"))}


def main() -> None:
    """Make the chart's folders hold what they should."""
    wanted = wanted_files()
    for path in present_files().keys() - wanted.keys():
        path.unlink()
    for path, content in wanted.items():
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content)


if __name__ == "__main__":
    main()
