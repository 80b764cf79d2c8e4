"""The last documents of one kind: kept over restarts, bounded, and a damaged one harms only itself."""

import msgspec
import pytest

from offsets.kept_documents import KeptDocuments
from serving.durable_file import DamagedFile, NotWritten


class Note(msgspec.Struct):
    text: str


def kept(folder, documents_max=3):
    return KeptDocuments(folder / "notes", Note, documents_max)


def test_documents_outlive_their_process_and_the_oldest_give_way(tmp_path):
    for number in range(1, 6):
        kept(tmp_path).keep(number, Note(f"note {number}"))
    kept(tmp_path).keep(5, Note("again"))
    damaged = []
    found = kept(tmp_path).read_all(damaged.append)
    assert {number: note.text for number, note in found.items()} == {3: "note 3", 4: "note 4", 5: "again"}
    assert damaged == []
    assert kept(tmp_path).read(1) is None
    assert len(list((tmp_path / "notes").iterdir())) == 3


@pytest.mark.parametrize("content", [b"", b"garbage", b"x\x9c"])
def test_a_damaged_document_is_named_and_left_out(tmp_path, content):
    notes = kept(tmp_path)
    notes.keep(1, Note("one"))
    notes.keep(2, Note("two"))
    path = min((tmp_path / "notes").iterdir())
    path.write_bytes(content)
    damaged = []
    assert list(notes.read_all(damaged.append)) == [2]
    assert str(path) in str(damaged[0])
    with pytest.raises(DamagedFile):
        notes.read(1)


def test_other_files_of_the_folder_are_left_alone(tmp_path):
    notes = kept(tmp_path, documents_max=1)
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "readme.txt").write_text("mine")
    notes.keep(1, Note("one"))
    notes.keep(2, Note("two"))
    assert sorted(path.name for path in (tmp_path / "notes").iterdir()) == ["000000000002.bin", "readme.txt"]


def test_nothing_is_kept_without_a_folder(tmp_path):
    (tmp_path / "notes").write_text("no folder")
    with pytest.raises(NotWritten):
        kept(tmp_path).keep(1, Note("one"))
