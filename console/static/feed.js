// The one source of live data: a view loads when the stream of events says that something has changed. Where there is no
// stream, as at a server of an older release, it loads each PERIOD_MS.

import { isLive, listen } from "./live.js";

const PERIOD_MS = 2000;
// While changes are announced: what no event tells, such as how long ago a heartbeat was.
const LIVE_PERIOD_MS = 15_000;
// Of a large cluster: no more than a fifth of the time is spent loading.
const PERIOD_MS_MAX = 20_000;
const SHARE = 4;
// Changes that follow each other are loaded together: after a load, nothing is loaded for as long as it took, and this at least.
const GAP_MS = 500;
// A server that says when to try again is believed up to here.
const RETRY_MS_MAX = 60_000;
// A picture is old so long after the next one should have been there.
const OLD_MS = 5000;

/**
 * Calls `load` when something has changed and now and then, while the page is visible, and `show({value, error, ageMs, isOld})`
 * after each and once a second; `value` is the last that was loaded, null before the first. `topics` are those whose routes are
 * shown. No event tells of some lists, as those of offsets: where they are shown `isAnnounced` is false, and they are loaded
 * each PERIOD_MS. Returns a function that ends it.
 */
export function follow(load, show, { topics = [], isAnnounced = true } = {}) {
  let value = null;
  let error = null;
  let loadedMs = performance.now();
  // When the next load has to begin; a picture is old some seconds after that.
  let dueMs = performance.now();
  // No load begins before it.
  let earliestMs = 0;
  let wasLive = false;
  let isEnded = false;
  let isLoading = false;
  let isStale = false;
  let timer = 0;

  const isCurrent = () => isAnnounced && isLive();

  function showNow() {
    const nowMs = performance.now();
    if (!isEnded) show({ value, error, ageMs: nowMs - loadedMs, isOld: nowMs > dueMs + OLD_MS });
  }

  function schedule(atMs) {
    clearTimeout(timer);
    dueMs = atMs;
    if (!isEnded && !document.hidden) timer = setTimeout(round, Math.max(0, atMs - performance.now()));
  }

  async function round() {
    if (isLoading) return;
    isLoading = true;
    isStale = false;
    const beganMs = performance.now();
    try {
      value = await load();
      error = null;
      loadedMs = performance.now();
    } catch (failure) {
      error = failure;
    }
    isLoading = false;
    const endedMs = performance.now();
    const tookMs = endedMs - beganMs;
    // Changes go on while a server is in trouble, and load it no sooner for that.
    const failedMs = error === null ? 0 : Math.max(PERIOD_MS, Math.min((error.retryAfterS ?? 0) * 1000, RETRY_MS_MAX));
    earliestMs = endedMs + Math.max(GAP_MS, tookMs, failedMs);
    const restMs = Math.min(tookMs * SHARE, PERIOD_MS_MAX);
    const periodMs = Math.max(isCurrent() && error === null ? LIVE_PERIOD_MS : PERIOD_MS, restMs);
    const lateMs = dueMs;
    schedule(isStale ? earliestMs : Math.max(earliestMs, endedMs + periodMs));
    // Until a load succeeds, the picture stays as old as it is.
    if (error !== null) dueMs = lateMs;
    showNow();
  }

  function changed() {
    if (isLoading) {
      isStale = true;
      return;
    }
    const lateMs = dueMs;
    // All pages learn of a change at once, and do not all ask at once.
    schedule(Math.max(performance.now(), earliestMs) + Math.random() * GAP_MS);
    dueMs = Math.min(dueMs, lateMs);
  }

  function tick() {
    // Without announcements the picture may be out of date from now on.
    if (wasLive && !isCurrent()) changed();
    wasLive = isCurrent();
    document.dispatchEvent(new CustomEvent("live", { detail: wasLive && error === null }));
    showNow();
  }

  const shown = () => {
    clearTimeout(timer);
    if (!document.hidden) schedule(Math.max(performance.now(), earliestMs));
  };
  const clock = setInterval(tick, 1000);
  document.addEventListener("visibilitychange", shown);
  const unlisten = isAnnounced ? listen(topics, changed) : () => {};
  schedule(performance.now());
  return () => {
    isEnded = true;
    clearTimeout(timer);
    clearInterval(clock);
    document.removeEventListener("visibilitychange", shown);
    unlisten();
  };
}

/**
 * Returns a function that loads with its arguments once it was not called again for `waitMs`; `show({value, error})` gets only
 * what was wanted last. The function's `end` ends it.
 */
export function onDemand(load, show, waitMs = 0) {
  let wanted = 0;
  let timer = 0;
  const call = (...values) => {
    wanted += 1;
    const mine = wanted;
    clearTimeout(timer);
    timer = setTimeout(async () => {
      let found;
      try {
        found = { value: await load(...values), error: null };
      } catch (error) {
        found = { value: null, error };
      }
      if (mine === wanted) show(found);
    }, waitMs);
  };
  call.end = () => {
    wanted += 1;
    clearTimeout(timer);
  };
  return call;
}
