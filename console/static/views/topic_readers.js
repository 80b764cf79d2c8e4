// Who reads a topic and how far each group is behind, from an offset manager. Each lag is read from brokers when it is wanted,
// and never again by itself: offset managers allow few of them.

import { answerOf, pathOf, request, RequestFailed } from "../api.js";
import { badge, h, named, patch, table, whole } from "../dom.js";
import { onDemand } from "../feed.js";
import { count, t, tOr } from "../messages.js";
import { serving } from "../offsets_model.js";
import { utc } from "../parts/times.js";
import { lagQueues, lagSummary } from "../readers_model.js";

// Lags that are loaded when the view is opened, one after the other.
const LOADED_FIRST = 3;
const ANSWER_MS = 25_000;
const GROUPS_SHOWN = 100;
const QUEUES_SHOWN = 200;

/** Shows the section; `update` takes the offset managers and the clusters of the topic, `end` ends it. */
export function showReaders(root, topic) {
  const readers = new Readers(root, topic);
  return { update: (peers, clusters) => readers.update(peers, clusters), end: () => readers.end() };
}

class Readers {
  constructor(root, topic) {
    this.root = root;
    this.topic = topic;
    this.peers = [];
    // Whom groups were read from, and null before.
    this.peer = null;
    this.groups = null;
    // Grows with each reading of groups: what an earlier one had still to load is not wanted any more.
    this.round = 0;
    this.lags = new Map();
    this.load = onDemand(() => this.groupsOf(), (found) => this.showGroups(found));
  }

  update(peers, clusters) {
    this.peers = peers;
    this.clusters = clusters;
    const isNeeded = this.peer === null || this.error || !peers.some((each) => each.reachable && each.address === this.peer.address);
    if (isNeeded && !this.isLoading && peers.some((each) => each.reachable)) {
      this.isLoading = true;
      this.load();
    }
    this.draw();
  }

  end() {
    this.round += 1;
    this.load.end();
  }

  /** Returns the manager that leads, or one that answers; throws RequestFailed if none does. */
  async manager() {
    const answers = await Promise.all(this.peers.map((peer) => answerOf(peer, () => request(pathOf(peer, "manager")))));
    const found = serving(answers);
    if (found === null) throw new RequestFailed(0, t("readers.unreachable"));
    return found.peer;
  }

  async groupsOf() {
    const peer = await this.manager();
    const answer = await request(pathOf(peer, `offsets/groups?limit=${GROUPS_SHOWN}&topic=${encodeURIComponent(this.topic)}`));
    return { peer, ...answer };
  }

  async showGroups({ value, error }) {
    this.isLoading = false;
    this.error = error;
    if (value !== null) {
      this.peer = value.peer;
      this.groups = value.groups;
      this.more = value.total - value.groups.length;
    }
    this.draw();
    this.round += 1;
    const mine = this.round;
    for (const group of error ? [] : this.shown().slice(0, LOADED_FIRST)) {
      if (mine === this.round) await this.loadLag(group);
    }
  }

  /** Returns the groups of the clusters of the topic; of all where these are not known. */
  shown() {
    return this.groups.filter((each) => !this.clusters.length || this.clusters.includes(each.cluster));
  }

  async loadLag(group) {
    const key = keyOf(group);
    // What was read before stays until there is another one.
    this.lags.set(key, { ...this.lags.get(key), isLoading: true });
    this.draw();
    const query = new URLSearchParams({ group: group.group, topic: this.topic, cluster: group.cluster });
    try {
      const lag = await request(pathOf(await this.manager(), `offsets/lag?${query}`), { answerMs: ANSWER_MS });
      this.lags.set(key, { lag, readMs: Date.now() });
    } catch (failure) {
      this.lags.set(key, { problem: failure.message });
    }
    this.draw();
  }

  draw() {
    const content = h("section", { id: "readers" }, h("h2", {}, t("readers.title")), this.content());
    patch(this.root, content);
  }

  content() {
    if (!this.peers.length) return h("p", {}, t("readers.no_manager"));
    if (!this.peers.some((each) => each.reachable)) return h("p", { class: "problem" }, t("readers.unreachable"));
    if (this.error) return h("p", { class: "problem" }, this.error.message);
    if (this.groups === null) return h("p", {}, t("loading"));
    const columns = [
      { label: t("consumer_group"), cell: (row) => named(row.group) },
      { label: t("cluster"), cell: (row) => named(row.cluster) },
      { label: t("readers.kind"), cell: (row) => tOr(`readers.${row.kind}`, row.kind) },
      { label: t("readers.lag"), cell: (row) => this.lagCell(this.lags.get(keyOf(row))) },
      { label: t("actions"), cell: (row) => this.button(row) },
    ];
    const groups = this.shown();
    const details = groups.map((group) => [group, this.lags.get(keyOf(group))?.lag]).filter(([, lag]) => lag);
    return [
      table(t("readers.title"), columns, groups, t("readers.none"), keyOf),
      this.more > 0 && h("p", {}, t("and_more", { count: this.more })),
      details.map(([group, lag]) => this.details(group, lag)),
    ];
  }

  lagCell(state) {
    if (!state) return "–";
    if (state.isLoading && !state.lag) return t("loading");
    if (state.problem) return h("span", { class: "problem" }, state.problem);
    const { known, unknown } = lagSummary(state.lag);
    return [
      known === null && unknown > 0 ? null : count(known),
      unknown > 0 && [" ", badge("fair", t("readers.unknown", { count: unknown }))],
      state.lag.unavailable.map((each) => h("div", {}, named(each.brokerName), " ", badge("bad", t("readers.unavailable")))),
      h("small", {}, " ", whole(state.isLoading ? t("loading") : utc(state.readMs))),
    ];
  }

  button(group) {
    if (group.kind !== "clustering") return "–";
    const label = t("readers.read_now", { group: group.group });
    return h("button", { type: "button", "aria-label": label, onclick: () => this.loadLag(group) }, t("readers.read"));
  }

  details(group, lag) {
    const columns = [
      { label: t("readers.queue"), cell: (row) => [named(row.brokerName), ` ${row.queueId}`] },
      { label: t("readers.max"), cell: (row) => (row.maxOffset === null ? "–" : count(row.maxOffset)) },
      { label: t("readers.committed"), cell: (row) => (row.committedOffset === null ? "–" : count(row.committedOffset)) },
      { label: t("readers.lag"), cell: (row) => (row.lag === "unknown" ? [badge("fair", t("readers.not_known")), ` ${row.reason}`] : count(row.lag)) },
    ];
    return h(
      "details",
      { "data-key": keyOf(group) },
      h("summary", {}, t("readers.queues_of"), " ", named(group.group)),
      table(group.group, columns, lagQueues(lag).slice(0, QUEUES_SHOWN), t("readers.none")),
      lag.queues.length > QUEUES_SHOWN && h("p", {}, t("and_more", { count: lag.queues.length - QUEUES_SHOWN })),
    );
  }
}

const keyOf = (group) => JSON.stringify([group.cluster, group.group, group.kind]);
