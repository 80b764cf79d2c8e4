// The stream of events that says when something has changed: one for this page, whatever it shows. It brings no data.

// The server sends a ping each 2 s; a stream without any is cut, whatever the browser thinks.
const LOST_MS = 5000;
const RETRY_MS = 15_000;
// Browsers open six connections to a server for all of their pages together, and requests need some of them.
const STREAMS_MAX = 3;

const listeners = new Set();
let source = null;
let release = null;
let address = "";
let isOpening = false;
let lastMs = -Infinity;
let retryMs = 0;
let watched = [];

/** Returns whether changes are announced: what was loaded is current until then. */
export function isLive() {
  return source !== null && performance.now() - lastMs < LOST_MS && watched.every(({ state }) => state !== "unwatched");
}

/**
 * Calls `changed` whenever something may be different from what was loaded before, the routes of `topics` too, while the page is
 * visible. Returns a function that ends it. Where there is no stream, `isLive` is false and nothing is called.
 */
export function listen(topics, changed) {
  const listener = { topics, changed };
  listeners.add(listener);
  retryMs = 0;
  keepOpen();
  return () => {
    listeners.delete(listener);
    // The next view takes the stream over.
    setTimeout(keepOpen, 1000);
  };
}

function wanted() {
  if (!listeners.size || document.hidden) return "";
  const topics = [...new Set([...listeners].flatMap((each) => each.topics))].sort();
  const query = new URLSearchParams(topics.map((each) => ["topic", each]));
  return new URL(`live?${query}`, document.baseURI.split("#")[0]).href;
}

async function keepOpen() {
  const next = wanted();
  if (source !== null && next !== address) close();
  if (!next || source !== null || isOpening || performance.now() < retryMs) return;
  isOpening = true;
  release = await place();
  isOpening = false;
  if (release === null) {
    retryMs = performance.now() + RETRY_MS;
  } else {
    open(wanted());
  }
}

function open(next) {
  if (!next) return close();
  address = next;
  watched = [];
  const opened = new EventSource(next);
  source = opened;
  for (const name of ["live", "changed"]) opened.addEventListener(name, (event) => take(JSON.parse(event.data)));
  opened.addEventListener("ping", () => (lastMs = performance.now()));
  opened.addEventListener("error", () => {
    lastMs = -Infinity;
    // It connects again by itself, unless the server refused it: an older one has no such path.
    if (opened.readyState === EventSource.CLOSED && source === opened) {
      retryMs = performance.now() + RETRY_MS;
      close();
    }
  });
}

function take(event) {
  lastMs = performance.now();
  watched = event.watched;
  if (!event.isCurrent) for (const { changed } of listeners) changed();
}

function close() {
  source?.close();
  source = null;
  lastMs = -Infinity;
  release?.();
  release = null;
}

/** Returns a function that gives the place of a stream back; null if other pages of this browser have all of them. */
async function place() {
  // Only pages of loopback and those over TLS have locks.
  if (!navigator.locks) return () => {};
  for (let number = 0; number < STREAMS_MAX; number += 1) {
    const given = await new Promise((resolve) => {
      navigator.locks.request(`rmq-console-stream-${number}`, { ifAvailable: true }, (lock) =>
        lock === null ? resolve(null) : new Promise((end) => resolve(end)),
      );
    });
    if (given !== null) return given;
  }
  return null;
}

document.addEventListener("visibilitychange", keepOpen);
setInterval(keepOpen, 1000);
