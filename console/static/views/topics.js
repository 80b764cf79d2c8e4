// All topics of the first NameServer that answers, with a filter.

import { items } from "../api.js";
import { badge, h, named, patch, table } from "../dom.js";
import { follow } from "../feed.js";
import { count, t, tOr } from "../messages.js";
import { setQuery, topicAddress } from "../parts/addresses.js";
import { peersByKind } from "../parts/name_servers.js";
import { filtered, KINDS, pageOf } from "../topics_model.js";

// So few rows that each letter of the filter is shown at once.
const PAGE_ROWS = 50;

/** Shows the view until the returned function is called. */
export function show(root, page) {
  const wanted = { text: page.query.get("find") ?? "", kind: KINDS.find((each) => each === page.query.get("kind")) ?? "", page: 1 };
  let value = null;
  let shown = null;
  let waiting = 0;
  const result = h("div", { id: "topics", "aria-busy": "true" }, h("p", {}, t("loading")));

  function draw() {
    if (value !== null) patch(result, resultOf(value, wanted, turn));
  }
  // Letters that come faster than pictures are drawn together.
  function changed(values) {
    if (!waiting) waiting = requestAnimationFrame(filter);
    Object.assign(wanted, { page: 1, ...values });
  }
  function filter() {
    waiting = 0;
    setQuery({ find: wanted.text, kind: wanted.kind });
    draw();
  }
  function turn(number) {
    wanted.page = number;
    draw();
    result.querySelector(".table").focus();
  }

  root.replaceChildren(h("h1", {}, t("topics")), form(wanted, changed), result);
  // Only the first picture comes in parts: later ones would seem to lose topics.
  const onPart = (part) => {
    if (shown !== null) return;
    value = part;
    draw();
  };
  const end = follow(
    () => load(onPart),
    (found) => {
      page.fresh(found.error, found.value === null ? null : found.ageMs, found.isOld);
      if (found.value === null || found.value === shown) return;
      shown = value = found.value;
      draw();
    },
  );
  return () => {
    cancelAnimationFrame(waiting);
    end();
  };
}

async function load(onPart) {
  const nameServers = (await peersByKind())("namesrv");
  const peer = nameServers.find((each) => each.reachable);
  if (!peer) return { topics: [], total: 0, isLoaded: true, isKnown: false };
  const onPage = (topics, total) => onPart({ topics: [...topics], total, isLoaded: false, isKnown: true });
  const { items: topics, isWhole } = await items(peer, "topics", "items", onPage);
  return { topics, total: topics.length, isLoaded: true, isKnown: true, isWhole };
}

function form(wanted, changed) {
  return h(
    "form",
    { class: "filter", role: "search", onsubmit: (event) => event.preventDefault() },
    h("label", { for: "find" }, t("topics.find")),
    h("input", { id: "find", type: "search", value: wanted.text, autocomplete: "off", oninput: (event) => changed({ text: event.target.value }) }),
    h("label", { for: "kind" }, t("topics.kind")),
    h(
      "select",
      { id: "kind", onchange: (event) => changed({ kind: event.target.value }) },
      ["", ...KINDS].map((kind) => h("option", { value: kind, selected: kind === wanted.kind }, t(`kind.${kind || "any"}`))),
    ),
  );
}

function resultOf(value, wanted, turn) {
  const found = filtered(value.topics, wanted.text, wanted.kind);
  const { items: rows, page, pages } = pageOf(found, wanted.page, PAGE_ROWS);
  const foundText = t("topics.count", { found: count(found.length), total: count(value.total) });
  return h(
    "div",
    { id: "topics", "aria-busy": String(!value.isLoaded) },
    h("p", { role: "status" }, value.isLoaded ? foundText : t("topics.loading", { count: count(value.topics.length), total: count(value.total) })),
    value.isWhole === false && h("p", { class: "problem" }, t("topics.part", { count: count(value.topics.length) })),
    table(
      t("topics"),
      [
        { label: t("topic.title"), cell: (row) => h("a", { href: topicAddress(row.topic) }, named(row.topic)) },
        { label: t("topics.kind"), cell: (row) => badge("plain", tOr(`kind.${row.kind}`, row.kind)) },
        { label: t("broker_sets"), cell: (row) => count(row.brokerSets) },
      ],
      rows,
      t(value.isKnown ? "topics.none" : "name_servers.unreachable"),
    ),
    pages > 1 && pager(page, pages, turn),
  );
}

function pager(page, pages, turn) {
  const button = (key, target) =>
    h("button", { type: "button", disabled: target < 1 || target > pages, onclick: () => turn(target) }, t(key));
  return h(
    "nav",
    { class: "pager", "aria-label": t("pages") },
    button("pages.previous", page - 1),
    h("span", {}, t("pages.present", { page: count(page), pages: count(pages) })),
    button("pages.next", page + 1),
  );
}
