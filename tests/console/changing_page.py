"""A tab of the console as an operator uses it who changes something: signs in, fills in dialogs, agrees."""

import json
import os
from pathlib import Path

from fakes.admin_token import ADMIN_TOKEN
from page_scripts import ROWS

#: Clicks what has this text; true if there is something.
_CLICK = """
(() => {
  const found = [...document.querySelectorAll(%s)].find(each => each.textContent.trim() === %s && !each.disabled);
  found?.click();
  return Boolean(found);
})()
"""


class ChangingPage:
    """What an operator does in a tab of the console at `url`."""

    def __init__(self, tab, url):
        self.tab = tab
        self.url = url
        self._opened = 0

    async def open(self, view, *, width=1200, dark=False, ready="main [aria-busy=false]"):
        # A query makes it another page, which is loaded anew: another fragment alone would not.
        self._opened += 1
        await self.tab.open(f"{self.url}?{self._opened}{view}", width=width, dark=dark)
        await self.tab.shows(f"Boolean(document.querySelector({json.dumps(ready)}))", True)

    async def sign_in(self):
        await self.open("#/sign-in", ready="#token")
        await self.tab.value(f"document.querySelector('#token').value = {json.dumps(ADMIN_TOKEN)}")
        await self.tab.value("document.querySelector('form').requestSubmit()")
        await self.tab.shows("document.querySelector('header button')?.textContent", "Sign out")

    async def text(self, selector="main"):
        return await self.tab.value(f"document.querySelector({json.dumps(selector)})?.innerText ?? ''")

    async def tables(self):
        """Return the rows of each table by its caption."""
        return dict(await self.tab.value(ROWS))

    async def click(self, text, within="main button"):
        await self.tab.shows(_CLICK % (json.dumps(within), json.dumps(text)), True)

    async def fill(self, **values):
        """Fill in the form of the dialog; True and False are check boxes."""
        for name, value in values.items():
            place = f"document.querySelector('dialog [name={name}]')"
            attribute = "checked" if isinstance(value, bool) else "value"
            await self.tab.value(f"{place}.{attribute} = {json.dumps(value)}")

    async def preview(self, seconds=60):
        """Let the dialog show what it will do, and return its text."""
        await self.click("Show what it will do", "dialog button")
        return await self._after("Reading what it would do…", seconds)

    async def agree(self, text, seconds=60):
        """Press the button that does it, and return the text of the dialog after that."""
        await self.click(text, "dialog button")
        return await self._after("It is being done…", seconds)

    async def close(self):
        await self.click("Close", "dialog button")
        await self.tab.shows("document.querySelector('dialog')", None)

    async def _after(self, status, seconds):
        place = "document.querySelector('dialog [role=status]')?.textContent"
        await self.tab.shows(f"{place} === {json.dumps(status)}", False, seconds)
        return await self.text("dialog")

    async def screenshot(self, name):
        """Keep a picture for eyes, if somebody wants one."""
        if folder := os.environ.get("CONSOLE_SCREENSHOTS"):
            await self.tab.screenshot(Path(folder, f"{name}.png"))
