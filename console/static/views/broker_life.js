// The life of a broker: when each NameServer listed it, silences, and what happened to its set.

import { badge, h, named, patch, scrolling, table, whole } from "../dom.js";
import { onDemand } from "../feed.js";
import { duration, t, tOr } from "../messages.js";
import { setQuery } from "../parts/addresses.js";
import { answersOf, reachable } from "../parts/name_servers.js";
import { failed, problemsOf } from "../parts/past_problems.js";
import { spanChoice } from "../parts/span_form.js";
import { cut, picture, s } from "../parts/svg.js";
import { inputTime, SPANS, unixMs, utc } from "../parts/times.js";
import { events, lanes } from "../broker_model.js";

const ANSWER_MS = 25_000;
const LANE = 46;
const BAR = 18;
const EVENTS_SHOWN = 300;
// Each kind of bar that a lane may have.
const LEGEND = [
  ...["master", "slave", "acting_master"].map((role) => ({ state: "registered", role })),
  ...["silent", "absent", "unobserved"].map((state) => ({ state, role: null })),
];
const BADGES = { registered: "good", silent: "fair", absent: "bad", unobserved: "plain" };

/** Shows the section; `update` takes the servers that record, `end` ends it. */
export function showLife(root, broker, query) {
  const life = new Life(root, broker, query);
  return { update: (peers) => life.update(peers), end: () => life.load.end() };
}

class Life {
  constructor(root, broker, query) {
    this.root = root;
    this.broker = broker;
    this.peers = null;
    this.spanMs = Object.values(SPANS).find((ms) => String(ms) === query.get("span")) ?? SPANS["span.day"];
    this.endMs = unixMs(query.get("to"));
    this.load = onDemand(
      () => {
        const path = `history/broker?broker=${encodeURIComponent(broker.name)}&brokerId=${broker.id}&from=${this.firstMs}&to=${this.lastMs}`;
        return answersOf(this.peers, path, { answerMs: ANSWER_MS });
      },
      (found) => this.draw(found),
    );
  }

  update(peers) {
    const isFirst = this.peers === null;
    const isBack = !isFirst && !this.isKnown && reachable(peers) !== reachable(this.peers);
    this.peers = peers;
    if (isFirst) this.begin();
    else if (isBack) this.load();
  }

  begin() {
    this.result = h("div", { id: "life-result" }, h("p", {}, t("loading")));
    this.input = h("input", { id: "life-to", type: "datetime-local", step: 1, onchange: () => this.look({ endMs: unixMs(this.input.value) }) });
    this.root.replaceChildren(
      h("h2", {}, t("life.title")),
      h(
        "div",
        { class: "controls" },
        spanChoice("life-span", this.spanMs, (spanMs) => this.look({ spanMs })),
        h("span", { class: "field" }, h("label", { for: "life-to" }, t("life.to")), this.input),
        h("button", { type: "button", onclick: () => this.look({ endMs: null }) }, t("past.now")),
      ),
      this.result,
    );
    this.look({});
  }

  look(values) {
    Object.assign(this, values);
    this.lastMs = this.endMs ?? Date.now();
    this.firstMs = this.lastMs - this.spanMs;
    this.input.value = inputTime(this.lastMs);
    setQuery({ span: this.spanMs === SPANS["span.day"] ? null : String(this.spanMs), to: this.endMs === null ? null : inputTime(this.endMs) });
    this.load();
  }

  draw({ value, error }) {
    patch(this.result, h("div", { id: "life-result" }, error ? h("p", { class: "problem" }, error.message) : this.shown(value)));
  }

  shown(answers) {
    const found = lanes(answers);
    const happened = events(answers);
    this.isKnown = answers.some(({ value }) => value && !value.problem);
    if (!this.isKnown) return problemsOf(answers);
    const isWhole = answers.every(({ value }) => value?.isComplete !== false);
    return [
      problemsOf(failed(answers)),
      found.length ? [this.lifePicture(found, happened), this.spanTable(found)] : h("p", {}, t("life.none")),
      eventTable(happened),
      (!isWhole || happened.length > EVENTS_SHOWN) && h("p", {}, t("life.part", { count: Math.min(EVENTS_SHOWN, happened.length) })),
    ];
  }

  lifePicture(found, happened) {
    const width = Math.max(320, this.root.clientWidth - 40);
    const x = (ms) => Math.round(((ms - this.firstMs) / (this.lastMs - this.firstMs)) * width * 10) / 10;
    const drawn = found.map(({ nsId, spans }, index) => {
      const top = index * LANE;
      const bars = spans.map((each) =>
        s(
          "g",
          { class: classOf(each) },
          s("title", {}, spanText(each)),
          s("rect", { x: x(each.firstUnixMs), y: top + 20, width: Math.max(1, x(each.lastUnixMs) - x(each.firstUnixMs)), height: barHeight(each.state) }),
        ),
      );
      const marks = happened
        .filter((each) => each.nsId === nsId)
        .map((each) => s("line", { class: "mark", x1: x(each.unixMs), x2: x(each.unixMs), y1: top + 17, y2: top + 41 }, s("title", {}, `${utc(each.unixMs)} ${each.sentence}`)));
      return s("g", {}, s("text", { x: 0, y: top + 13, class: "faint" }, cut(nsId, 60)), bars, marks);
    });
    const alternative = t("life.picture", { name: `${this.broker.name}:${this.broker.id}`, first: utc(this.firstMs), last: utc(this.lastMs) });
    return h(
      "figure",
      {},
      h("figcaption", {}, h("ul", { class: "legend" }, LEGEND.map((each) => h("li", {}, swatch(each), spanName(each))))),
      scrolling(t("life.title"), picture(width, found.length * LANE, alternative, drawn)),
      h("div", { class: "ends" }, h("span", {}, utc(this.firstMs)), h("span", {}, utc(this.lastMs))),
    );
  }

  spanTable(found) {
    const rows = found.flatMap(({ spans }) => [...spans].reverse());
    return h(
      "details",
      {},
      h("summary", {}, t("life.spans")),
      table(
        t("life.spans"),
        [
          { label: "NameServer", cell: (row) => named(row.nsId) },
          { label: t("state"), cell: (row) => [badge(BADGES[row.state] ?? "plain", tOr(`life.${row.state}`, row.state)), row.role && ` ${roleText(row)}`] },
          { label: t("life.from"), cell: (row) => whole(utc(row.firstUnixMs)) },
          { label: t("life.to"), cell: (row) => whole(utc(row.lastUnixMs)) },
          { label: t("life.duration"), cell: (row) => duration(row.lastUnixMs - row.firstUnixMs) },
          { label: t("address"), cell: (row) => named(row.address ?? "–") },
        ],
        rows.slice(0, EVENTS_SHOWN),
        t("life.none"),
      ),
    );
  }
}

// Not by colour alone: what is silent or absent is lower.
function barHeight(state) {
  return { registered: BAR, silent: BAR / 2, absent: BAR / 6, unobserved: BAR / 3 }[state] ?? BAR / 3;
}

const roleText = ({ role }) => tOr(`role.${role}`, role);

const classOf = ({ state, role }) => `life ${state} ${role ?? ""}`;

const spanName = (span) => `${tOr(`life.${span.state}`, span.state)}${span.role ? `, ${roleText(span)}` : ""}`;

const spanText = (span) => `${spanName(span)}: ${utc(span.firstUnixMs)} – ${utc(span.lastUnixMs)}`;

function swatch(span) {
  const bar = s("rect", { y: 0, width: BAR, height: barHeight(span.state) });
  return s("svg", { width: BAR, height: BAR, "aria-hidden": "true" }, s("g", { class: classOf(span) }, bar));
}

function eventTable(happened) {
  return table(
    t("life.events"),
    [
      { label: t("life.time"), cell: (row) => whole(utc(row.unixMs)) },
      { label: t("life.server"), cell: (row) => named(row.nsId) },
      { label: t("life.event"), cell: (row) => row.sentence },
    ],
    happened.slice(0, EVENTS_SHOWN),
    t("life.no_events"),
  );
}
