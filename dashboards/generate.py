"""Writes the JSON of every board: `python -m dashboards.generate`."""

from pathlib import Path
from typing import Final

from dashboards.boards import BOARDS
from dashboards.grafana import as_json

FOLDER: Final = Path(__file__).parent / "json"


def main() -> None:
    """Write one file for each board, named by its uid, and remove those of boards that are gone."""
    written = {FOLDER / f"{board.uid}.json": as_json(board) for board in BOARDS}
    for stale in set(FOLDER.glob("*.json")) - written.keys():
        stale.unlink()
    for path, content in written.items():
        path.write_text(content, encoding="utf-8")


if __name__ == "__main__":
    main()
