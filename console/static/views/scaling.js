// Resizes of topics: plans, progress and hindrances, and proposals of the autoscaler.

import { answersOf, pathOf, request } from "../api.js";
import { badge, h, named, patch, sentence, table, whole } from "../dom.js";
import { follow } from "../feed.js";
import { duration, moment, t, tOr } from "../messages.js";
import { filterField } from "../parts/filter.js";
import { onNew } from "../parts/pictures.js";
import { timeLine } from "../parts/time_line.js";
import { addressOf, commandsOf, countsOf, hasEnded, kindOfPhase, lineOf, progressOf } from "../scaling_model.js";
import { autoscalerTables } from "./autoscaler.js";
import { openApproval, openCommand, openDismissal, openResize } from "./scaling_changes.js";

const OPERATIONS_MAX = 30;
const DECISIONS_MAX = 200;
// An id is TOPIC.UNIX_MS, and no topic has a point.
const IS_ID = /\.\d+$/;

/** Shows the view until the returned function is called: everything, topics that begin with a text, or one resize. */
export function show(root, page) {
  const [part = ""] = page.names;
  return IS_ID.test(part) ? showOne(root, page, part) : showAll(root, page, part);
}

function showAll(root, page, prefix) {
  const content = h("div", { id: "scaling", "aria-busy": "true" }, h("p", {}, t("loading")));
  const end = { follow: () => {}, timer: 0 };
  let leader = null;
  const start = (text) => {
    end.follow();
    end.follow = follow(
      () => load(text),
      drawer(page, content, (value) => {
        leader = value.leader;
        resize.disabled = leader === null;
        return value.leader ? sections(page, value) : [h("p", { class: "problem" }, t("scaling.no_leader"))];
      }),
    );
  };
  const filter = filterField(t("scaling.filter"), prefix, "#/scaling", (text) => {
    clearTimeout(end.timer);
    end.timer = setTimeout(() => start(text), 200);
  });
  const resize = h(
    "button",
    { type: "button", class: "primary", disabled: true, onclick: () => openResize(page, leader) },
    t("scaling.resize"),
  );
  root.replaceChildren(h("h1", {}, t("scaling.title")), h("div", { class: "tools" }, filter, resize), content);
  start(prefix);
  return () => {
    clearTimeout(end.timer);
    end.follow();
  };
}

function showOne(root, page, id) {
  const content = h("div", { id: "scaling", "aria-busy": "true" }, h("p", {}, t("loading")));
  root.replaceChildren(content);
  const back = () => h("p", {}, h("a", { href: "#/scaling" }, t("scaling.all")));
  return follow(
    async () => {
      const leader = await leaderOf();
      return { leader, operation: leader && (await request(pathOf(leader, `scaling/operations/${encodeURIComponent(id)}`))) };
    },
    drawer(page, content, ({ leader, operation }) => [
      leader ? detail(page, leader, operation) : h("p", { class: "problem" }, t("scaling.no_leader")),
      back(),
    ]),
  );
}

/** Returns what draws each new value into `content`. */
function drawer(page, content, sectionsOf) {
  return onNew(page, (value) => patch(content, h("div", { id: "scaling", "aria-busy": "false" }, sectionsOf(value))));
}

async function leaderOf() {
  const answers = await answersOf("controller", (peer) => request(pathOf(peer, "controllers")));
  return answers.find((each) => each.value?.role === "leader")?.peer ?? null;
}

async function load(text) {
  const leader = await leaderOf();
  if (!leader) return { leader };
  const prefix = `prefix=${encodeURIComponent(text)}`;
  const [operations, proposals, decisions, policies] = await Promise.all([
    request(pathOf(leader, `scaling/operations?limit=${OPERATIONS_MAX}&${prefix}`)),
    request(pathOf(leader, "scaling/proposals")),
    request(pathOf(leader, `scaling/decisions?limit=${DECISIONS_MAX}&${prefix}`)),
    request(pathOf(leader, "scaling/policies")),
  ]);
  return {
    leader,
    operations,
    proposals: proposals.proposals.filter((each) => each.topic.startsWith(text)),
    decisions,
    policies,
  };
}

function sections(page, { leader, operations, proposals, decisions, policies }) {
  return [
    proposalTable(page, leader, proposals),
    operationTable(page, leader, operations),
    Object.entries(operations.problems).map(([name, problem]) =>
      h("p", { class: "problem" }, named(name), ": ", sentence(problem)),
    ),
    autoscalerTables(decisions, policies),
  ];
}

function proposalTable(page, leader, proposals) {
  return table(
    t("scaling.proposals"),
    [
      { label: t("topic"), cell: (row) => named(row.topic) },
      { label: t("scaling.queues"), cell: (row) => `${row.before} → ${row.target}` },
      { label: t("scaling.reason"), cell: (row) => sentence(row.reason) },
      { label: t("scaling.expires"), cell: (row) => whole(moment(row.expiresUnixMs)) },
      {
        label: t("actions"),
        cell: (row) =>
          h(
            "div",
            { class: "buttons" },
            button(t("scaling.approve"), t("scaling.approve_of", row), () => openApproval(page, leader, row)),
            button(t("scaling.dismiss"), t("scaling.dismiss_of", row), () => openDismissal(page, leader, row)),
          ),
      },
    ],
    proposals,
    t("scaling.no_proposals"),
    (row) => row.id,
  );
}

/** Returns a button; `label` says what it does where the row is not seen. */
const button = (text, label, onclick) => h("button", { type: "button", "aria-label": label, onclick }, text);

function operationTable(page, leader, { operations, total }) {
  return [
    table(
      t("scaling.operations"),
      [
        { label: t("topic"), cell: (row) => h("a", { href: addressOf(row) }, named(row.topic)) },
        { label: t("scaling.kind"), cell: (row) => tOr(`scaling.kind.${row.kind}`, row.kind) },
        { label: t("scaling.queues"), cell: countsOf },
        { label: t("scaling.phase"), cell: (row) => [phaseBadge(row), progress(row)] },
        { label: t("scaling.waits_for"), cell: hindrances },
        {
          label: t("scaling.begun"),
          cell: (row) => [whole(moment(row.createdUnixMs)), row.requestedBy ? h("small", {}, " ", named(row.requestedBy)) : null],
        },
        { label: t("actions"), cell: (row) => commands(page, leader, row) },
      ],
      operations,
      t("scaling.no_operations"),
      (row) => row.id,
    ),
    total > operations.length ? h("p", {}, t("scaling.more", { shown: operations.length, total })) : null,
  ];
}

function phaseBadge({ phase, resumePhase, isUndone }) {
  return [
    badge(kindOfPhase(phase), phase),
    resumePhase ? h("small", {}, ` ${t("scaling.resumes", { phase: resumePhase })}`) : null,
    isUndone && phase !== "ABORTED" ? [" ", badge("fair", t("scaling.undone"))] : null,
  ];
}

function progress(operation) {
  const at = progressOf(operation);
  if (at === null || hasEnded(operation)) return null;
  const text = t("scaling.progress", { done: at.done, total: at.total });
  return h("div", {}, h("progress", { max: at.total, value: at.done, "aria-label": text }), " ", h("small", {}, text));
}

function hindrances({ problem, waitsFor }) {
  const sentences = [...(problem ? [problem] : []), ...waitsFor];
  return sentences.length
    ? h(
        "ul",
        {},
        sentences.map((each) => h("li", {}, sentence(each))),
      )
    : "–";
}

function commands(page, leader, operation) {
  const names = commandsOf(operation);
  return names.length
    ? h(
        "div",
        { class: "buttons" },
        names.map((name) =>
          button(t(`scaling.${name}`), t(`scaling.${name}_of`, operation), () => openCommand(page, leader, operation, name)),
        ),
      )
    : "–";
}

function detail(page, leader, operation) {
  return [
    h("h1", {}, t("scaling.of"), " ", named(operation.topic), " · ", countsOf(operation)),
    h(
      "p",
      {},
      phaseBadge(operation),
      " ",
      tOr(`scaling.kind.${operation.kind}`, operation.kind),
      " · ",
      moment(operation.createdUnixMs),
      operation.requestedBy ? [" · ", named(operation.requestedBy)] : null,
    ),
    operation.reason ? h("p", {}, t("scaling.reason"), ": ", named(operation.reason)) : null,
    progress(operation),
    hasEnded(operation) && !operation.problem
      ? null
      : h("section", { class: "card", "aria-live": "polite" }, h("h2", {}, t("scaling.waits_for")), hindrances(operation)),
    hasEnded(operation) ? null : commands(page, leader, operation),
    timeLine(t("scaling.line"), lineOf(operation)),
    setTable(operation.sets),
    stepTable(operation.steps),
  ];
}

function setTable(sets) {
  return table(
    t("broker_sets"),
    [
      { label: t("broker_set"), cell: (row) => named(row.brokerName) },
      { label: t("cluster"), cell: (row) => named(row.cluster) },
      { label: t("scaling.former"), cell: (row) => t("scaling.read_write", { read: row.readBefore, write: row.writeBefore }) },
      { label: t("scaling.target"), cell: (row) => row.target },
    ],
    sets,
    "",
  );
}

function stepTable(steps) {
  return table(
    t("scaling.steps"),
    [
      { label: t("scaling.phase"), cell: (row) => row.phase },
      { label: t("scaling.begun"), cell: (row) => whole(moment(row.beganUnixMs)) },
      { label: t("scaling.took"), cell: (row) => duration(row.endedUnixMs - row.beganUnixMs) },
      {
        label: t("scaling.evidence"),
        cell: (row) =>
          h(
            "ul",
            {},
            row.evidence.map((each) => h("li", {}, sentence(each))),
          ),
      },
    ],
    steps,
    t("scaling.no_steps"),
  );
}
