// The queues of a topic over broker sets, as a picture: one cell for each queue, with what changed where two routes are given.

import { t } from "../messages.js";
import { permText, queueChange, queueState } from "../route_model.js";
import { cut, picture, s } from "./svg.js";

const CELL = 24;
const GAP = 3;
const LABEL = 22;
const MARGIN = 8;
// Of one broker set; the table has all numbers.
const QUEUES_MAX = 256;
const SETS_MAX = 64;
const CHARACTER = 7.5;
const MARKS = { added: "+", removed: "−", changed: "~" };

/**
 * Returns the picture of the former of two routes, with marks of what changed since; `pairs` as `pairedRows` makes them, `widthMax`
 * in px. What was added since stands in outline.
 */
export function routePicture(pairs, widthMax, alternative) {
  const columns = Math.max(8, Math.min(64, Math.floor((widthMax - 2 * MARGIN) / CELL)));
  const width = columns * CELL + 2 * MARGIN;
  let top = MARGIN;
  const parts = pairs.slice(0, SETS_MAX).map((pair) => {
    const row = pair.former ?? pair.present;
    const queues = Math.max(...[pair.former, pair.present].map((each) => (each ? Math.max(each.read, each.write) : 0)));
    const shown = Math.min(queues, QUEUES_MAX);
    const drawn = [label(pair, row, top, width)];
    for (let id = 0; id < shown; id += 1) {
      drawn.push(cell(pair, id, MARGIN + (id % columns) * CELL, top + LABEL + Math.floor(id / columns) * CELL));
    }
    top += LABEL + Math.max(1, Math.ceil(shown / columns)) * CELL;
    if (queues > shown) {
      drawn.push(s("text", { x: MARGIN, y: top + 12, class: "faint" }, t("and_more", { count: queues - shown })));
      top += 18;
    }
    top += MARGIN;
    return s("g", {}, drawn);
  });
  if (pairs.length > SETS_MAX) {
    parts.push(s("text", { x: MARGIN, y: top + 12, class: "faint" }, t("and_more", { count: pairs.length - SETS_MAX })));
    top += 24;
  }
  return picture(width, top, alternative, parts);
}

function label(pair, row, top, width) {
  const mark = pair.change === "same" ? "" : `${MARKS[pair.change]} `;
  const perm = `  ${permText(row.perm)}  ${row.read}/${row.write}`;
  const text = cut(row.name, Math.max(4, Math.floor((width - 2 * MARGIN) / CHARACTER) - perm.length - 2));
  return s(
    "text",
    { x: MARGIN, y: top + 15, class: `set ${pair.change}` },
    s("title", {}, row.name),
    mark,
    s("tspan", { class: "name" }, text),
    s("tspan", { class: "faint" }, perm),
  );
}

function cell(pair, id, x, y) {
  const change = queueChange(pair, id);
  const state = queueState(change === "added" ? pair.present : pair.former, id);
  const size = CELL - GAP;
  const words = [t("queue_number", { id }), t(`queue.${state}`), ...(change === "same" ? [] : [t(`change.${change}`)])];
  return s(
    "g",
    { class: `queue ${state} ${change}` },
    s("title", {}, words.join(", ")),
    s("rect", { x, y, width: size, height: size, rx: 3 }),
    s("text", { x: x + size / 2, y: y + size / 2 + 4, "text-anchor": "middle" }, MARKS[change] ?? id),
  );
}

/** Returns what the colours of the picture mean; each is also a letter of the permission or a mark. */
export function legend(hasChanges) {
  const sample = (classes, text, mark = "") =>
    s(
      "svg",
      { width: 18, height: 18, class: "picture sample", "aria-hidden": "true" },
      s("g", { class: `queue ${classes}` }, s("rect", { x: 1, y: 1, width: 16, height: 16, rx: 3 }), s("text", { x: 9, y: 13, "text-anchor": "middle" }, mark)),
    );
  const entries = ["read_write", "read", "write", "none"].map((state) => [sample(state), t(`queue.${state}`)]);
  if (hasChanges) for (const change of ["added", "removed", "changed"]) entries.push([sample(`read_write ${change}`, "", MARKS[change]), t(`change.${change}`)]);
  return entries;
}
