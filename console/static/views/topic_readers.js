// Who reads a topic and how far each group is behind, from an offset manager. Each lag is read from brokers when it is wanted,
// and never again by itself: offset managers allow few of them.

import { pathOf, request } from "../api.js";
import { badge, h, named, patch, table } from "../dom.js";
import { onDemand } from "../feed.js";
import { count, t } from "../messages.js";
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
  return { update: (peers, clusters) => readers.update(peers, clusters), end: () => readers.load.end() };
}

class Readers {
  constructor(root, topic) {
    this.root = root;
    this.topic = topic;
    this.peer = null;
    this.groups = null;
    this.lags = new Map();
    this.load = onDemand(() => this.groupsOf(), (found) => this.showGroups(found));
  }

  update(peers, clusters) {
    const peer = peers.find((each) => each.reachable) ?? null;
    this.hasPeers = peers.length > 0;
    this.clusters = clusters;
    if (peer && peer.address !== this.peer?.address) {
      this.peer = peer;
      this.load();
    }
    this.draw();
  }

  async groupsOf() {
    const answer = await request(pathOf(this.peer, `offsets/groups?limit=${GROUPS_SHOWN}&topic=${encodeURIComponent(this.topic)}`));
    return { total: answer.total, groups: answer.groups.filter((each) => !this.clusters.length || this.clusters.includes(each.cluster)) };
  }

  async showGroups({ value, error }) {
    this.error = error;
    this.groups = value?.groups ?? null;
    this.total = value?.total ?? 0;
    this.draw();
    for (const group of (this.groups ?? []).slice(0, LOADED_FIRST)) await this.loadLag(group);
  }

  async loadLag(group) {
    const key = keyOf(group);
    // What was read before stays until there is another one.
    this.lags.set(key, { ...this.lags.get(key), isLoading: true });
    this.draw();
    const query = new URLSearchParams({ group: group.group, topic: this.topic, cluster: group.cluster });
    try {
      const lag = await request(pathOf(this.peer, `offsets/lag?${query}`), { answerMs: ANSWER_MS });
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
    if (!this.hasPeers) return h("p", {}, t("readers.no_manager"));
    if (!this.peer) return h("p", { class: "problem" }, t("readers.unreachable"));
    if (this.error) return h("p", { class: "problem" }, this.error.message);
    if (this.groups === null) return h("p", {}, t("loading"));
    const columns = [
      { label: t("group"), cell: (row) => named(row.group) },
      { label: t("cluster"), cell: (row) => named(row.cluster) },
      { label: t("readers.kind"), cell: (row) => t(`readers.${row.kind}`) },
      { label: t("readers.lag"), cell: (row) => this.lagCell(this.lags.get(keyOf(row))) },
      { label: t("readers.read"), cell: (row) => this.button(row) },
    ];
    const details = this.groups.map((group) => [group, this.lags.get(keyOf(group))?.lag]).filter(([, lag]) => lag);
    return [
      table(t("readers.title"), columns, this.groups, t("readers.none")),
      this.total > this.groups.length && h("p", {}, t("and_more", { count: this.total - this.groups.length })),
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
      h("small", {}, ` ${state.isLoading ? t("loading") : utc(state.readMs)}`),
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
      {},
      h("summary", {}, t("readers.queues_of"), " ", named(group.group)),
      table(group.group, columns, lagQueues(lag).slice(0, QUEUES_SHOWN), t("readers.none")),
      lag.queues.length > QUEUES_SHOWN && h("p", {}, t("and_more", { count: lag.queues.length - QUEUES_SHOWN })),
    );
  }
}

const keyOf = (group) => JSON.stringify([group.cluster, group.group, group.kind]);
