// What stands between a feed and a view.

/** Returns what a feed calls: it tells the page how old the picture is, and calls `draw(value)` with each new value. */
export function onNew(page, draw) {
  let drawn = null;
  return ({ value, error, ageMs, isOld }) => {
    page.fresh(error, value === null ? null : ageMs, isOld);
    if (value === null || value === drawn) return;
    drawn = value;
    draw(value);
  };
}
