"""A real browser without a window: it opens a page at a width, and tells what it loaded and how it is laid out."""

import asyncio
import base64
import contextlib
import os
import re
import shutil
import signal
import subprocess

import aiohttp

NAMES = ("chromium", "chromium-browser", "google-chrome")

#: Texts whose contrast is too low for many eyes (WCAG 2.2: 4.5).
LOW_CONTRASTS = """
(() => {
  const numbers = text => text.match(/[\\d.]+/g).map(Number);
  const light = ([r, g, b]) => [r, g, b].map(c => (c /= 255) <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)
    .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
  const behind = element => {
    for (; element; element = element.parentElement) {
      const color = numbers(getComputedStyle(element).backgroundColor);
      if (color.length === 3 || color[3] > 0) return color;
    }
    return [255, 255, 255];
  };
  return [...document.querySelectorAll("main *, header *")]
    .filter(element => [...element.childNodes].some(each => each.nodeType === 3 && each.data.trim()))
    .filter(element => {
      const [one, other] = [numbers(getComputedStyle(element).color), behind(element)].map(light);
      return (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05) < 4.5;
    }).map(element => element.outerHTML);
})()
"""


def program():
    """Where a Chromium is; None if there is none."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)


class Tab:
    """One page."""

    def __init__(self, socket):
        self._socket, self._number = socket, 0
        #: Addresses that were asked for.
        self.requests = []
        #: What the page, or the browser about it, wrote to its console as a warning or an error.
        self.problems = []
        self._loaded = False

    async def command(self, method, **params):
        self._number += 1
        await self._socket.send_json({"id": self._number, "method": method, "params": params})
        while True:
            message = await self._socket.receive_json(timeout=60)
            self._note(message)
            if message.get("id") == self._number:
                assert "error" not in message, message
                return message["result"]

    def _note(self, message):
        if message.get("method") == "Network.requestWillBeSent":
            self.requests.append(message["params"]["request"]["url"])
        self._note_problem(message.get("method"), message.get("params"))
        self._loaded |= message.get("method") == "Page.loadEventFired"

    def _note_problem(self, event, params):
        match event:
            case "Runtime.exceptionThrown":
                details = params["exceptionDetails"]
                self.problems.append(details.get("exception", {}).get("description") or details["text"])
            case "Runtime.consoleAPICalled" if params["type"] in {"error", "warning", "assert"}:
                self.problems.append(params["args"])
            case "Log.entryAdded" if params["entry"]["level"] in {"error", "warning"}:
                self.problems.append(params["entry"]["text"])

    async def open(self, address, *, width, dark=False):
        await self.command("Page.enable")
        await self.command("Network.enable")
        await self.command("Runtime.enable")
        await self.command("Log.enable")
        await self.command(
            "Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=width < 500
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        await self.command("Emulation.setEmulatedMedia", features=[scheme])
        self.requests, self.problems, self._loaded = [], [], False
        await self.command("Page.navigate", url=address)
        while not self._loaded:
            self._note(await self._socket.receive_json(timeout=60))

    async def value(self, expression):
        result = await self.command("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in result, result
        return result["result"].get("value")

    async def shows(self, expression, wanted, seconds=30):
        """Wait until an expression has a value."""
        for _ in range(seconds * 10):
            if (found := await self.value(expression)) == wanted:
                return
            await asyncio.sleep(0.1)
        raise AssertionError(f"{expression} is {found!r}, not {wanted!r}; {self.problems}")

    async def press(self, key):
        """Press a key, as a user without a mouse does."""
        for kind in ("rawKeyDown", "keyUp"):
            await self.command("Input.dispatchKeyEvent", type=kind, key=key, windowsVirtualKeyCode={"Tab": 9}[key])

    async def screenshot(self, path, height=None):
        """Write a picture of the whole page, or of its first lines of pixels."""
        width = await self.value("innerWidth")
        part = {} if height is None else {"clip": {"x": 0, "y": 0, "width": width, "height": height, "scale": 1}}
        shot = await self.command("Page.captureScreenshot", captureBeyondViewport=True, **part)
        path.write_bytes(base64.b64decode(shot["data"]))


@contextlib.asynccontextmanager
async def a_tab(folder):
    """A tab of a browser of its own, which ends with it."""
    options = ("--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run")
    command = [program(), *options, "--remote-debugging-port=0", f"--user-data-dir={folder / 'profile'}", "about:blank"]
    log = folder / "browser.log"
    browser = _start(command, log, {**os.environ, "HOME": str(folder)})
    try:
        address = await _address(log, browser)
        async with aiohttp.ClientSession() as session:
            async with session.get(f"http://{address}/json/list") as answer:
                pages = [each for each in await answer.json() if each["type"] == "page"]
            async with session.ws_connect(pages[0]["webSocketDebuggerUrl"], max_msg_size=2**28) as socket:
                yield Tab(socket)
    finally:
        # The group that was started with it: it has helpers.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(browser.pid, signal.SIGKILL)
        browser.wait()


def _start(command, log, env):
    with log.open("wb") as out:
        return subprocess.Popen(command, stdout=out, stderr=out, start_new_session=True, env=env)


async def _address(log, browser):
    for _ in range(600):
        found = re.search(rb"DevTools listening on ws://([^/]+)/", log.read_bytes())
        if found:
            return found[1].decode()
        assert browser.poll() is None, log.read_text(errors="replace")
        await asyncio.sleep(0.1)
    raise AssertionError(log.read_text(errors="replace"))
