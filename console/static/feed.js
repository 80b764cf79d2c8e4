// The one source of live data. Today it loads everything each PERIOD_MS; a view gets each result, and how old it is.
// Server-sent events will take the place of `load` here, and no view changes for that.

const PERIOD_MS = 2000;
// Of a large cluster: no more than a fifth of the time is spent loading.
const PERIOD_MS_MAX = 20_000;
const SHARE = 4;
// A picture is old so long after the next one should have been there.
const OLD_MS = 5000;

/**
 * Calls `load` again and again while the page is visible, and `show({value, error, ageMs, isOld})` after each and once
 * a second; `value` is the last that was loaded, null before the first. Returns a function that ends it.
 */
export function follow(load, show) {
  let value = null;
  let error = null;
  let loadedMs = performance.now();
  let isEnded = false;
  let isLoading = false;
  let timer = 0;
  let periodMs = PERIOD_MS;

  function showNow() {
    const ageMs = performance.now() - loadedMs;
    if (!isEnded) show({ value, error, ageMs, isOld: ageMs > periodMs + OLD_MS });
  }

  async function round() {
    if (isLoading) return;
    isLoading = true;
    const beganMs = performance.now();
    try {
      value = await load();
      error = null;
      loadedMs = performance.now();
    } catch (failure) {
      error = failure;
    }
    isLoading = false;
    periodMs = Math.min(Math.max(PERIOD_MS, (performance.now() - beganMs) * SHARE), PERIOD_MS_MAX);
    showNow();
    if (!isEnded && !document.hidden) timer = setTimeout(round, periodMs);
  }

  const shown = () => {
    clearTimeout(timer);
    if (!document.hidden) round();
  };
  const clock = setInterval(showNow, 1000);
  document.addEventListener("visibilitychange", shown);
  round();
  return () => {
    isEnded = true;
    clearTimeout(timer);
    clearInterval(clock);
    document.removeEventListener("visibilitychange", shown);
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
