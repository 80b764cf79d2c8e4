"""Expressions that tests of the console evaluate in its page."""

#: Captions and rows of all tables.
ROWS = """
[...document.querySelectorAll("main table")].map(table => [
  table.caption.textContent,
  [...table.tBodies[0].rows].map(row => [...row.cells].map(cell => cell.textContent.trim())),
])
"""
