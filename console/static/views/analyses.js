// Results of the Spark analyses: which there are, and of one of them a figure and its rows, filtered by cluster and time.

import { ROWS_MAX, clustersOf, columnsOf, figureOf, kindsOf, requestTime } from "../analyses_model.js";
import { answersOf, pathOf, request } from "../api.js";
import { h, named, patch, table } from "../dom.js";
import { follow } from "../feed.js";
import { t, tOr } from "../messages.js";
import { field } from "../parts/fields.js";
import { figure, quantity } from "../parts/figures.js";

const FIRST = "availability";
const FILTERS = ["analysis", "cluster", "from", "to"];

/** Shows the view until the returned function is called. */
export function show(root, page) {
  const chosen = Object.fromEntries(FILTERS.map((each) => [each, page.query.get(each) ?? ""]));
  const content = h("div", { id: "analyses", "aria-busy": "true" }, h("p", {}, t("loading")));
  const kept = {};
  root.replaceChildren(h("h1", {}, t("analyses.title")), content);
  let end = () => {};

  function choose(change) {
    Object.assign(chosen, change);
    const query = new URLSearchParams(FILTERS.filter((each) => chosen[each]).map((each) => [each, chosen[each]]));
    // The address can be sent to a colleague; the view stays where it is.
    history.replaceState(null, "", `#/analyses?${query}`);
    begin();
  }

  function begin() {
    end();
    let drawn = null;
    end = follow(
      () => load(chosen, kept),
      ({ value, error, ageMs, isOld }) => {
        page.fresh(error, value === null ? null : ageMs, isOld);
        if (value === null || value === drawn) return;
        drawn = value;
        patch(content, h("div", { id: "analyses", "aria-busy": "false" }, sections(value, chosen, choose)));
      },
      { isAnnounced: false },
    );
  }

  begin();
  return () => end();
}

async function load(chosen, kept) {
  const { name = "", ...found } = await listing(chosen);
  if (!name) return found;
  const times = { from: requestTime(chosen.from), to: requestTime(chosen.to) };
  const query = new URLSearchParams({ limit: 1000, ...(chosen.cluster ? { cluster: chosen.cluster } : {}), ...withoutBlanks(times) });
  const finished = found.items.find((each) => each.name === name).finishedAt;
  const key = [found.peer.address, name, finished, query].join(" ");
  // Analyses run once a day: rows that are there already are not requested again.
  if (kept.key !== key) Object.assign(kept, { rows: await request(pathOf(found.peer, `analyses/${name}?${query}`)), key });
  return { ...found, name, ...kept };
}

async function listing(chosen) {
  const answers = await answersOf("controller", (peer) => request(pathOf(peer, "analyses")));
  if (!answers.length) return { state: "no_controller" };
  const reached = answers.filter(({ peer }) => peer.reachable);
  const answer = reached.find(({ value }) => value?.isConfigured) ?? reached[0];
  if (!answer) return { state: "unreachable" };
  if (answer.value === null) return { state: "failed", problem: answer.problem };
  const found = { peer: answer.peer, ...answer.value };
  if (!found.isConfigured) return { state: "not_configured" };
  if (!found.items.length) return { ...found, state: "empty" };
  const names = found.items.map((each) => each.name);
  const name = [chosen.analysis, FIRST, names[0]].find((each) => names.includes(each));
  return { ...found, state: "shown", name };
}

function withoutBlanks(values) {
  return Object.fromEntries(Object.entries(values).filter(([, value]) => value));
}

function sections(value, chosen, choose) {
  if (value.state !== "shown") return [h("p", {}, t(`analyses.${value.state}`)), value.problem ? h("p", { lang: "en" }, value.problem) : null];
  const { rows, name } = value;
  return [
    filters(value, chosen, choose),
    Object.entries(value.problems).map(([file, problem]) => h("p", { class: "problem", lang: "en" }, `${file}: ${problem}`)),
    h("h2", {}, titleOf(name)),
    h("p", {}, h("span", { lang: "en" }, rows.result.question), " ", h("small", {}, sourceOf(rows.result))),
    pictureOf(name, rows),
    rowTables(name, rows),
    results(value.items),
  ];
}

function filters({ items, name, rows }, chosen, choose) {
  const time = (key) =>
    h("input", { id: `analyses-${key}`, type: "datetime-local", value: chosen[key], onchange: (event) => choose({ [key]: event.target.value }) });
  return h(
    "form",
    { class: "filters", onsubmit: (event) => event.preventDefault() },
    field(
      t("analyses.analysis"),
      h(
        "select",
        { id: "analyses-analysis", onchange: (event) => choose({ analysis: event.target.value }) },
        items.map((each) => h("option", { value: each.name, selected: each.name === name }, `${each.job} ${titleOf(each.name)}`)),
      ),
    ),
    field(
      t("cluster"),
      h("input", {
        id: "analyses-cluster",
        list: "analyses-clusters",
        value: chosen.cluster,
        onchange: (event) => choose({ cluster: event.target.value }),
      }),
    ),
    h("datalist", { id: "analyses-clusters" }, clustersOf(rows.items).map((each) => h("option", { value: each }))),
    field(t("analyses.from"), time("from")),
    field(t("analyses.to"), time("to")),
  );
}

function pictureOf(name, rows) {
  const drawn = figureOf(name, rows.items, rows.result.windowEnd);
  if (drawn === null) return null;
  return figure(tOr(`analyses.figure.${name}`, name), drawn, drawn.parts.map((each) => tOr(`analyses.part.${each}`, each)));
}

function rowTables(name, rows) {
  const shown = rows.items.slice(0, ROWS_MAX);
  const used = columnsOf(rows.columns, shown);
  return [
    h("p", {}, t("analyses.rows", { shown: shown.length, total: rows.total })),
    kindsOf(shown).map(([kind, ofKind]) => rowTable(kind ?? titleOf(name), used, ofKind)),
    shown.length ? h("details", {}, h("summary", {}, t("analyses.columns")), h("dl", { lang: "en" }, used.map(docOf))) : null,
  ];
}

function rowTable(caption, used, rows) {
  const columns = columnsOf(used, rows).map(({ name, type }) => ({ label: name, cell: (row) => cellOf(row[name], type) }));
  return table(caption, columns, rows, "");
}

function docOf({ name, doc }) {
  return [h("dt", {}, name), h("dd", {}, doc)];
}

function cellOf(value, type) {
  if (value === null || value === undefined) return h("span", { class: "none" }, "–");
  if (type === "timestamp") return String(value).slice(0, 19).replace("T", " ");
  if (typeof value === "number") return quantity(value, "");
  return named(Array.isArray(value) ? value.join(", ") : String(value));
}

function results(items) {
  return table(
    t("analyses.results"),
    [
      { label: t("analyses.analysis"), cell: (row) => h("a", { href: `#/analyses?analysis=${row.name}` }, `${row.job} ${titleOf(row.name)}`) },
      { label: t("analyses.question"), cell: (row) => h("span", { lang: "en" }, row.question) },
      { label: t("analyses.finished"), cell: (row) => cellOf(row.finishedAt, "timestamp") },
      { label: t("analyses.row_count"), cell: (row) => quantity(row.rowCount, "") },
    ],
    items,
    "",
  );
}

function sourceOf(result) {
  const times = { start: result.windowStart, end: result.windowEnd, finished: result.finishedAt };
  return t("analyses.source", Object.fromEntries(Object.entries(times).map(([key, each]) => [key, cellOf(each, "timestamp")])));
}

const titleOf = (name) => tOr(`analyses.name.${name}`, name);
