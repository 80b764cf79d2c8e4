// What the route of a topic was: a slider through the history of NameServers, with what has changed since.

import { h, patch, scrolling } from "../dom.js";
import { onDemand } from "../feed.js";
import { t } from "../messages.js";
import { setQuery } from "../parts/addresses.js";
import { answersOf, reachable } from "../parts/name_servers.js";
import { differenceTable } from "../parts/route_differences.js";
import { legend, routePicture } from "../parts/route_picture.js";
import { spanChoice } from "../parts/span_form.js";
import { picture, s } from "../parts/svg.js";
import { inputTime, SPANS, unixMs, utc } from "../parts/times.js";
import { failed, problemsOf } from "../parts/past_problems.js";
import { changeMoments, differences, pairedRows, pastRoutes } from "../route_model.js";

// Longer than a slider rests while it is moved.
const REST_MS = 250;
const ANSWER_MS = 25_000;
const STEPS = 1000;

/** Shows the section; `update` takes the NameServers and {route, isKnown} of the present, `end` ends it. */
export function showPast(root, topic, at) {
  const past = new Past(root, topic, unixMs(at));
  return { update: (nameServers, present) => past.update(nameServers, present), end: () => past.end() };
}

class Past {
  constructor(root, topic, atMs) {
    this.root = root;
    this.topic = topic;
    this.peers = null;
    this.present = { route: null, isKnown: false };
    this.moments = [];
    this.atMs = atMs;
    this.nsId = null;
    this.answers = null;
    this.found = [];
    this.loadRoute = onDemand((ms) => this.ofPeers(`history/route?at=${ms}`), (found) => this.showRoute(found), REST_MS);
    this.loadChanges = onDemand(() => this.ofPeers(`history/route-changes?from=${this.firstMs}&to=${this.lastMs}`), (found) => this.showChanges(found));
  }

  ofPeers(path) {
    return answersOf(this.peers, `${path}&topic=${encodeURIComponent(this.topic)}`, { answerMs: ANSWER_MS });
  }

  end() {
    this.loadRoute.end();
    this.loadChanges.end();
  }

  update(peers, present) {
    const isFirst = this.peers === null;
    const isBack = !isFirst && !this.isKnown && reachable(peers) !== reachable(this.peers);
    const isChanged = JSON.stringify(present) !== JSON.stringify(this.present);
    this.peers = peers;
    this.present = present;
    if (isFirst) this.begin();
    else if (isBack) this.look(this.spanMs);
    else if (isChanged) this.draw();
  }

  begin() {
    const ageMs = this.atMs === null ? 0 : Date.now() - this.atMs;
    this.spanMs = Object.values(SPANS).find((ms) => ms > ageMs) ?? Math.max(...Object.values(SPANS));
    this.slider = h("input", {
      id: "past-slider",
      type: "range",
      min: 0,
      max: STEPS,
      step: 1,
      oninput: () => this.go(this.firstMs + (this.spanMs * Number(this.slider.value)) / STEPS),
    });
    this.input = h("input", { id: "past-at", type: "datetime-local", step: 1, onchange: () => this.go(unixMs(this.input.value)) });
    this.marks = h("div", { class: "marks" });
    // Kept while the picture changes: a screen reader reads what becomes of a text that was there before.
    this.changes = h("span", { role: "status" });
    this.status = h("p", { class: "hidden", role: "status" });
    this.first = h("span", {});
    this.last = h("span", {});
    this.result = h("div", { id: "past-result" });
    this.previous = h("button", { type: "button", onclick: () => this.jump(-1) }, t("past.previous"));
    this.next = h("button", { type: "button", onclick: () => this.jump(1) }, t("past.next"));
    this.root.replaceChildren(
      h("h2", {}, t("past.title")),
      h(
        "div",
        { class: "controls" },
        spanChoice("past-span", this.spanMs, (ms) => this.look(ms)),
        h("span", { class: "field" }, h("label", { for: "past-at" }, t("past.at")), this.input),
        this.previous,
        this.next,
        h("button", { type: "button", onclick: () => this.go(null) }, t("past.now")),
      ),
      h("label", { for: "past-slider", class: "hidden" }, t("past.slider")),
      h("div", { class: "ends" }, this.first, this.changes, this.last),
      this.marks,
      this.slider,
      this.status,
      this.result,
    );
    this.look(this.spanMs);
  }

  /** Looks so many ms back from now, or around the moment where that is longer ago. */
  look(spanMs) {
    this.spanMs = spanMs;
    this.lastMs = Date.now();
    if (this.atMs !== null && this.atMs < this.lastMs - spanMs) this.lastMs = Math.round(this.atMs + spanMs / 2);
    this.firstMs = this.lastMs - spanMs;
    this.moments = [];
    this.count = t("loading");
    this.drawMarks();
    this.loadChanges();
    this.go(this.atMs);
  }

  /** Shows a moment; null for the present. */
  go(ms) {
    this.atMs = ms === null ? null : Math.round(Math.min(ms, Date.now()));
    const shownMs = this.atMs ?? this.lastMs;
    this.slider.value = Math.round(((shownMs - this.firstMs) / this.spanMs) * STEPS);
    this.slider.setAttribute("aria-valuetext", this.atMs === null ? t("past.now") : utc(this.atMs));
    this.input.value = inputTime(shownMs);
    setQuery({ at: this.atMs === null ? null : inputTime(this.atMs) });
    this.drawMarks();
    if (this.atMs === null) {
      this.loadRoute.end();
      this.answers = null;
      this.draw();
    } else {
      // The address has whole seconds: what a colleague opens is what is seen here.
      this.loadRoute(unixMs(inputTime(this.atMs)));
    }
  }

  jump(direction) {
    const shownMs = this.atMs ?? this.lastMs;
    const later = this.moments.map((ms) => Math.ceil(ms / 1000) * 1000).filter((ms) => (direction > 0 ? ms > shownMs : ms < shownMs - 999));
    const target = direction > 0 ? later[0] : later.at(-1);
    if (target !== undefined) this.go(target);
  }

  showChanges({ value }) {
    const answers = value ?? [];
    this.moments = changeMoments(answers);
    this.isKnown = answers.some((each) => each.value && !each.value.problem);
    this.previous.disabled = this.next.disabled = !this.moments.length;
    this.count = this.isKnown ? t("past.changes", { count: this.moments.length }) : t("past.no_changes");
    if (answers.some((each) => each.value?.isComplete === false)) this.count += ` ${t("past.part")}`;
    this.found = answers;
    this.drawMarks();
    this.draw();
  }

  showRoute({ value, error }) {
    this.answers = value;
    this.error = error;
    this.draw();
  }

  drawMarks() {
    const x = (ms) => ((ms - this.firstMs) / this.spanMs) * STEPS;
    const within = this.moments.filter((ms) => ms >= this.firstMs && ms <= this.lastMs);
    const lines = within.map((ms) => s("line", { x1: x(ms), x2: x(ms), y1: 2, y2: 18 }));
    const drawn = picture(STEPS, 20, this.count, s("line", { x1: 0, x2: STEPS, y1: 18, y2: 18 }), lines);
    drawn.setAttribute("preserveAspectRatio", "none");
    if (this.changes.textContent !== this.count) this.changes.textContent = this.count;
    this.first.textContent = utc(this.firstMs);
    this.last.textContent = utc(this.lastMs);
    this.marks.replaceChildren(drawn);
  }

  draw() {
    patch(this.result, h("div", { id: "past-result" }, this.shown()));
    const sentences = this.atMs === null ? [] : [...this.result.querySelectorAll("h3, p")];
    this.status.textContent = sentences.map((each) => each.textContent).join(". ");
  }

  shown() {
    if (this.atMs === null) return [h("p", {}, t("past.hint")), problemsOf(failed(this.found))];
    if (this.error) return h("p", { class: "problem" }, this.error.message);
    if (this.answers === null) return h("p", {}, t("loading"));
    const seen = pastRoutes(this.answers);
    if (!seen.length) return problemsOf(this.answers);
    const item = seen.find((each) => each.nsId === this.nsId) ?? seen.find((each) => !each.doubt && each.route) ?? seen.find((each) => !each.doubt) ?? seen[0];
    return [problemsOf(failed(this.answers)), seen.length > 1 && this.choice(seen, item), this.moment(item)];
  }

  choice(seen, item) {
    const options = seen.map((each) => h("option", { value: each.nsId, selected: each === item }, each.nsId));
    const choose = (event) => {
      this.nsId = event.target.value;
      this.draw();
    };
    return h("div", { class: "controls" }, h("label", { for: "past-server" }, "NameServer"), h("select", { id: "past-server", onchange: choose }, options));
  }

  moment(item) {
    const time = utc(this.atMs);
    const title = h("h3", {}, t("past.moment", { time }));
    const doubt = item.doubt && h("p", { class: "doubt" }, item.doubt);
    // Where it is not known what was there, nothing can have been added or removed.
    if (item.route === null && item.doubt) return [title, doubt, h("p", {}, t("past.not_known"))];
    const present = this.present.isKnown ? this.present.route : item.route;
    const found = differences(item.route, present);
    const pairs = pairedRows(item.route, present);
    return [
      title,
      doubt,
      item.route === null && h("p", {}, t("past.absent")),
      h("p", {}, this.comparison(found)),
      pairs.length > 0 &&
        h(
          "figure",
          {},
          h("figcaption", {}, h("ul", { class: "legend" }, legend(true).map((each) => h("li", {}, each)))),
          scrolling(t("past.title"), routePicture(pairs, this.root.clientWidth - 40, t("past.picture", { time, count: found.length }))),
        ),
      found.length > 0 && differenceTable(t("past.since"), found),
    ];
  }

  comparison(found) {
    if (!this.present.isKnown) return t("past.present_not_known");
    return found.length ? t("past.differences", { count: found.length }) : t("past.same");
  }
}
