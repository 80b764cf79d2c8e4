// A line of time as a picture, with the same in words below it.

import { h } from "../dom.js";
import { shortTime, t } from "../messages.js";
import { s } from "./svg.js";

// Of the whole line: what is shorter would not be seen.
const SHARE_MIN = 0.006;
const COLOURS = 8;

/**
 * Returns a line of `segments`, {name, ms, colour}, one after the other, with `marks`, {name, atMs}, from its beginning; `label`
 * says what of. Without a number of a colour each has that of its place. A mark is a point in time; those after the last segment
 * make the line longer.
 */
export function timeLine(label, segments, marks = []) {
  const total = Math.max(
    segments.reduce((sum, each) => sum + each.ms, 0),
    ...marks.map((each) => each.atMs),
    1,
  );
  const words = [
    ...segments.map(({ name, ms }) => `${name}: ${shortTime(ms)}`),
    ...marks.map(({ name, atMs }) => t("line.mark", { name, time: shortTime(atMs) })),
  ];
  return h(
    "figure",
    { class: "time-line" },
    picture(`${label}. ${words.join("; ")}`, segments, marks, total),
    h(
      "ol",
      { class: "legend" },
      segments.map(({ name, ms, colour = null }, index) =>
        h("li", {}, swatch(colour ?? index), name, " ", h("b", {}, shortTime(ms))),
      ),
      marks.map(({ name, atMs }) =>
        h(
          "li",
          {},
          h("i", { class: "mark", "aria-hidden": "true" }),
          name,
          " ",
          h("b", {}, t("line.after", { time: shortTime(atMs) })),
        ),
      ),
    ),
  );
}

function picture(label, segments, marks, total) {
  const shares = segments.map(({ ms }) => Math.max(ms / total, SHARE_MIN));
  const whole = Math.max(
    1,
    shares.reduce((sum, each) => sum + each, 0),
  );
  let start = 0;
  const bars = shares.map((share, index) => {
    const bar = s("rect", {
      class: classOf(segments[index].colour ?? index),
      x: percent(start / whole),
      width: percent(share / whole),
      y: 4,
      height: 16,
    });
    start += share;
    return bar;
  });
  const points = marks.map(({ atMs }) => {
    const x = percent(atMs / total);
    return s("line", { class: "mark", x1: x, x2: x, y1: 0, y2: 24 });
  });
  return s("svg", { role: "img", "aria-label": label, width: "100%", height: 24 }, bars, points);
}

function swatch(index) {
  return h("i", { class: `swatch ${classOf(index)}`, "aria-hidden": "true" });
}

const classOf = (index) => `phase-${index % COLOURS}`;
const percent = (share) => `${(share * 100).toFixed(2)}%`;
