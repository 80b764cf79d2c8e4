"""Headers of every answer, whatever it is: no browser keeps it, guesses its type, frames it, or runs anything in it.

A page of the console has a policy of its own, which allows more.
"""

from typing import Final

ANSWER_HEADERS: Final = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
}
