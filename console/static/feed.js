// The one source of live data. Today it loads everything each PERIOD_MS; a view gets each result, and how old it is.
// Server-sent events will take the place of `load` here, and no view changes for that.

const PERIOD_MS = 2000;
/** A picture older than this is called old, in ms. */
export const OLD_MS = 7000;

/**
 * Calls `load` again and again while the page is visible, and `show({value, error, ageMs})` after each and once a second;
 * `value` is the last that was loaded, null before the first. Returns a function that ends it.
 */
export function follow(load, show) {
  let value = null;
  let error = null;
  let loadedMs = performance.now();
  let isEnded = false;
  let isLoading = false;
  let timer = 0;

  const showNow = () => !isEnded && show({ value, error, ageMs: performance.now() - loadedMs });

  async function round() {
    if (isLoading) return;
    isLoading = true;
    try {
      value = await load();
      error = null;
      loadedMs = performance.now();
    } catch (failure) {
      error = failure;
    }
    isLoading = false;
    showNow();
    if (!isEnded && !document.hidden) timer = setTimeout(round, PERIOD_MS);
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
