"""Every citation of a protocol page resolves to a section, and every relative link of a document to a file."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from documents import ROOT, files, prose

PAGES: Final = ROOT / "docs" / "protocol"

#: `docs/protocol/namesrv.md 3.4 to 3.6`, over the end of a line too, and inside a comment.
_GAP: Final = r"(?:\s|#:?|,|`)+"
_SECTION: Final = r"[1-9]\d*(?:\.\d+)?(?!\d)"
_CITATION: Final = re.compile(
    rf"docs/protocol/(?P<page>[\w-]+)\.md(?:{_GAP}(?:sections?\s)?(?P<sections>{_SECTION}(?:{_GAP}(?:(?:and|to){_GAP})?{_SECTION})*))?"
)
_WITHOUT_FOLDER: Final = re.compile(
    rf"(?<![\w/(\[-])(?:namesrv|remoting|controller|broker-admin)\.md(?:'s)?,?\s(?:sections?\s)?{_SECTION}"
)
_HEADING: Final = re.compile(r"^#{1,6} (?P<text>.+?)\s*$", re.MULTILINE)
_NUMBERED: Final = re.compile(rf"^#{{2,3}} (?P<section>{_SECTION})\.? ", re.MULTILINE)
_LINK: Final = re.compile(r"(?<!!)\[[^\]]*\]\((?P<target>[^)\s]+)\)")


def sections_of(page: Path) -> set[str]:
    return {found["section"] for found in _NUMBERED.finditer(page.read_text())}


def anchors_of(document: Path) -> set[str]:
    """The anchors that GitHub gives to the headings of a document."""
    headings = (found["text"].lower() for found in _HEADING.finditer(prose(document)))
    return {re.sub(r"[^\w\- ]", "", heading).replace(" ", "-") for heading in headings}


def unresolved_citations() -> Iterator[str]:
    known = {page.stem: sections_of(page) for page in PAGES.glob("*.md")}
    for path in files(".py", ".md"):
        text = path.read_text()
        where = path.relative_to(ROOT)
        for found in _CITATION.finditer(text):
            page, sections = found["page"], re.findall(_SECTION, found["sections"] or "")
            if page not in known:
                yield f"{where}: there is no docs/protocol/{page}.md"
            elif not sections and path.suffix == ".py" and path.parent != Path(__file__).parent:
                yield f"{where}: {found[0]} is cited without a section"
            else:
                yield from (f"{where}: {page}.md has no section {one}" for one in sections if one not in known[page])


def test_every_cited_section_of_the_protocol_exists() -> None:
    assert list(unresolved_citations()) == []


def test_sections_of_the_protocol_are_cited_with_their_folder() -> None:
    elsewhere = (path for path in files(".py", ".md") if PAGES not in path.parents)
    bare = [
        f"{path.relative_to(ROOT)}: {found}"
        for path in elsewhere
        for found in _WITHOUT_FOLDER.findall(path.read_text())
    ]

    assert bare == []


def test_sections_are_cited_by_the_code() -> None:
    cited = sum(len(_CITATION.findall(path.read_text())) for path in files(".py"))

    assert cited > 30, "the expression above finds citations no more"


@pytest.mark.parametrize("document", list(files(".md")), ids=lambda path: str(path.relative_to(ROOT)))
def test_relative_links_of_a_document_resolve(document: Path) -> None:
    missing = []
    for found in _LINK.finditer(prose(document)):
        target, _, anchor = found["target"].partition("#")
        if "://" in target or target.startswith("mailto:"):
            continue
        linked = (document.parent / target).resolve() if target else document
        if not linked.exists() or (anchor and linked.suffix == ".md" and anchor not in anchors_of(linked)):
            missing.append(found["target"])

    assert missing == []
