// Figures of values by name: bars, bars in parts, and spans of time; drawn as SVG, with the values as text beside.

import { h, printable } from "../dom.js";
import { t } from "../messages.js";
import { s } from "./svg.js";

const ROW = 26;
const BAR = 14;
const NARROW = 640;
// Letters are about so wide, px.
const LETTER = 7;

/** Returns a figure of `figureOf` with its caption; `legend` has the words for its parts. */
export function figure(caption, drawn, legend = []) {
  const width = innerWidth <= NARROW ? 340 : 960;
  const body = { bars, parts: bars, lanes }[drawn.form](drawn, width);
  return h(
    "figure",
    { class: "figure" },
    h("figcaption", {}, caption),
    h("div", {}, picture(caption, drawn, width, body)),
    legend.length ? h("ul", { class: "series-legend" }, legend.map((each, index) => h("li", { class: `series-${index}` }, each))) : null,
    drawn.total > drawn.items.length ? h("small", {}, t("analyses.figure_part", { shown: drawn.items.length, total: drawn.total })) : null,
  );
}

function picture(caption, drawn, width, body) {
  const height = drawn.items.length * ROW + (drawn.form === "lanes" ? ROW : 4);
  const words = `${caption}: ${drawn.items.map((each) => `${printable(each.label)} ${textOf(each, drawn)}`).join("; ")}`;
  return s("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": words }, body);
}

function bars(drawn, width) {
  const label = labelWidth(drawn.items, width);
  const values = drawn.items.map((each) => textOf(each, drawn));
  const room = width - label - Math.max(...values.map((each) => each.length)) * LETTER - 16;
  const most = Math.max(...drawn.items.map((each) => each.value)) || 1;
  return drawn.items.map((item, index) => {
    let x = label;
    const y = index * ROW;
    const parts = (item.values ?? [item.value]).map((value, part) => {
      const wide = Math.max(value > 0 ? 1 : 0, (value / most) * room);
      x += wide;
      return s("rect", { class: `series-${part}`, x: x - wide, y: y + 5, width: wide, height: BAR });
    });
    return [name(item.label, label, y), parts, s("text", { x: x + 6, y: y + 17 }, values[index])];
  });
}

function lanes(drawn, width) {
  const label = labelWidth(drawn.items, width);
  const room = width - label - 8;
  const start = Math.min(...drawn.items.map((each) => each.start));
  const end = Math.max(...drawn.items.map((each) => each.end), start + 1);
  const at = (ms) => label + ((ms - start) / (end - start)) * room;
  const bottom = drawn.items.length * ROW;
  const spans = drawn.items.map((item, index) => [
    name(item.label, label, index * ROW),
    s("line", { x1: label, x2: width - 8, y1: index * ROW + 12, y2: index * ROW + 12 }),
    s("rect", { class: "series-0", x: at(item.start), y: index * ROW + 5, width: Math.max(3, at(item.end) - at(item.start)), height: BAR }),
  ]);
  return [
    spans,
    s("text", { x: label, y: bottom + 17 }, time(start)),
    s("text", { x: width - 8, y: bottom + 17, "text-anchor": "end" }, time(end)),
  ];
}

function labelWidth(items, width) {
  return Math.min(Math.max(...items.map((each) => printable(each.label).length)) * LETTER + 12, width * 0.4);
}

function name(label, wide, y) {
  const room = Math.max(3, Math.floor((wide - 12) / LETTER));
  const text = printable(label);
  const shown = text.length > room ? `${text.slice(0, room - 1)}…` : text;
  return s("text", { x: 0, y: y + 17 }, s("title", {}, text), shown);
}

function textOf(item, { form, unit }) {
  if (form === "lanes") return `${time(item.start)} – ${time(item.end)}`;
  return `${item.isLeast ? "≥ " : ""}${quantity(item.value, unit)}`;
}

function time(ms) {
  return new Date(ms).toISOString().slice(5, 19).replace("T", " ");
}

/** Returns a number with its unit, with three significant digits where it is no whole number; more where it is nearly 1. */
export function quantity(value, unit) {
  const digits = Number.isInteger(value) ? { maximumFractionDigits: 0 } : fractionDigits(value);
  return `${new Intl.NumberFormat(document.documentElement.lang, digits).format(value)} ${unit}`.trim();
}

function fractionDigits(value) {
  // An availability of 0.99996 is none of 1.
  if (value > 0.9 && value < 1) return { maximumFractionDigits: 1 + Math.ceil(-Math.log10(1 - value)) };
  return { maximumSignificantDigits: 3 };
}
