// Consumer offsets: what is to be repaired, what jumped and why, restores and their undo, how brokers are read, and how far a
// group is behind.

import { answersOf, pathOf, request } from "../api.js";
import { badge, h, named, patch, sentence, table, whole } from "../dom.js";
import { follow } from "../feed.js";
import { count, duration, moment, t, tOr } from "../messages.js";
import { kindOfCause, kindOfRun, matching, restoreOf, serving, stateOfRun } from "../offsets_model.js";
import { filterField } from "../parts/filter.js";
import { onNew } from "../parts/pictures.js";
import { openRepair, openRestore, openUndo } from "./offset_changes.js";
import { lagAddress, lagForm, showLag } from "./offset_lag.js";

const JUMPS_MAX = 200;
const RUNS_MAX = 20;

/** Shows the view until the returned function is called: all, groups with a text in their names, or the lag of a group. */
export function show(root, page) {
  const [part = "", ...names] = page.names;
  return part === "lag" && names.some(Boolean) ? showLag(root, page, names) : showAll(root, page, part);
}

function showAll(root, page, text) {
  const content = h("div", { id: "offsets", "aria-busy": "true" }, h("p", {}, t("loading")));
  let value = null;
  let wanted = text;
  const filter = filterField(t("offsets.filter"), wanted, "#/offsets", (changed) => {
    wanted = changed;
    draw();
  });
  const restore = h(
    "button",
    { type: "button", class: "primary", disabled: true, onclick: () => openRestore(page, value.manager.peer) },
    t("offsets.restore"),
  );
  root.replaceChildren(h("h1", {}, t("offsets.title")), h("div", { class: "tools" }, filter, restore, lagForm()), content);

  function draw() {
    if (value !== null) patch(content, h("div", { id: "offsets", "aria-busy": "false" }, sections(page, value, wanted)));
  }

  return follow(
    load,
    onNew(page, (latest) => {
      value = latest;
      restore.disabled = value.manager === null || value.manager.value.follows === "nobody";
      draw();
    }),
    { isAnnounced: false },
  );
}

async function load() {
  const answers = await answersOf("offsets", (peer) => request(pathOf(peer, "manager")));
  const manager = serving(answers);
  if (manager === null) return { answers, manager };
  const of = (path) => partOf(manager.peer, path);
  const [repairs, jumps, operations, sets] = await Promise.all([
    of("offsets/repairs"),
    of(`offsets/jumps?limit=${JUMPS_MAX}`),
    of("offsets/operations"),
    of("offsets/sets?limit=1000"),
  ]);
  return { answers, manager, repairs, jumps, operations, sets };
}

/** Returns an answer, or why there is none: what a manager cannot tell now hides nothing else. */
async function partOf(peer, path) {
  try {
    return { value: await request(pathOf(peer, path)), problem: "" };
  } catch (failure) {
    if (![409, 503].includes(failure.status)) throw failure;
    return { value: null, problem: failure.message };
  }
}

function sections(page, value, wanted) {
  if (value.manager === null) return [h("p", {}, t("offsets.none")), managerTable(value.answers)];
  const { peer, value: manager } = value.manager;
  // Empty tables would say that all is well.
  if (manager.follows === "nobody") return [h("p", { class: "problem" }, t("offsets.follows_nobody")), managerTable(value.answers)];
  const problems = [value.repairs, value.jumps, value.operations, value.sets].map((part) => part.problem).filter(Boolean);
  if (!manager.mastersKnown) problems.unshift(t("offsets.masters_unknown"));
  return [
    [...new Set(problems)].map((problem) => h("p", { class: "problem" }, sentence(problem))),
    value.repairs.value && repairTable(page, peer, value.repairs.value),
    value.jumps.value && jumpTable(page, peer, value.jumps.value.jumps, wanted),
    value.operations.value && operationTable(page, peer, value.operations.value.operations),
    value.sets.value && setTable(value.sets.value.sets),
    managerTable(value.answers),
  ];
}

function repairTable(page, peer, { mode, runs, running }) {
  const countsOf = (row) =>
    h("ul", {}, Object.entries(row.counts).map(([outcome, queues]) => h("li", {}, `${count(queues)} × ${tOr(`offsets.outcome.${outcome}`, outcome)}`)));
  return [
    table(
      t("offsets.repairs"),
      [
        { label: t("offsets.run"), cell: (row) => whole(String(row.run)) },
        { label: t("broker_set"), cell: (row) => [named(row.brokerName), " ", h("small", {}, named(row.address))] },
        { label: t("offsets.what"), cell: (row) => tOr(`offsets.change.${row.cause}`, row.cause) },
        { label: t("offsets.when"), cell: (row) => [whole(moment(row.beganUnixMs)), h("small", {}, ` ${duration(row.tookMs)}`)] },
        {
          label: t("state"),
          cell: (row) => [
            badge(kindOfRun(row), t(`offsets.run.${stateOfRun(row)}`)),
            row.appliedBy ? [" ", named(row.appliedBy)] : null,
            row.problem ? [" ", sentence(row.problem)] : null,
          ],
        },
        { label: t("offsets.counts"), cell: countsOf },
        { label: t("offsets.again"), cell: (row) => count(row.messagesAgain) },
        { label: t("offsets.may_skip"), cell: (row) => count(row.messagesSkipped) },
        {
          label: t("actions"),
          cell: (row) =>
            stateOfRun(row) === "open" &&
            h(
              "button",
              {
                type: "button",
                "aria-label": t("offsets.repair_of", { run: row.run }),
                onclick: () => openRepair(page, peer, row.run),
              },
              t("offsets.repair"),
            ),
        },
      ],
      runs.slice(0, RUNS_MAX),
      t("offsets.no_repairs"),
      (row) => String(row.run),
    ),
    h("p", {}, tOr(`offsets.mode.${mode}`, mode), running ? ` ${t("offsets.running", { running })}` : ""),
  ];
}

function jumpTable(page, peer, jumps, wanted) {
  const shown = matching(jumps, wanted);
  return [
    table(
      t("offsets.jumps"),
      [
        {
          label: t("consumer_group"),
          cell: (row) => h("a", { href: lagAddress(row.cluster, row.group) }, named(row.group)),
        },
        { label: t("topic"), cell: (row) => named(row.topic) },
        { label: t("broker_set"), cell: (row) => named(row.brokerName) },
        { label: t("offsets.cause"), cell: (row) => badge(kindOfCause(row.cause), tOr(`offsets.cause.${row.cause}`, row.cause)) },
        { label: t("offsets.queues"), cell: queuesOf },
        { label: t("offsets.again"), cell: (row) => count(row.messagesAgain) },
        { label: t("offsets.skipped"), cell: (row) => count(row.messagesSkipped) },
        { label: t("offsets.seen"), cell: (row) => whole(moment(row.unixMs)) },
        {
          label: t("actions"),
          cell: (row) =>
            h(
              "button",
              {
                type: "button",
                "aria-label": t("offsets.restore_of", { group: row.group }),
                onclick: () => openRestore(page, peer, restoreOf(row)),
              },
              t("offsets.restore"),
            ),
        },
      ],
      shown,
      t(wanted ? "offsets.no_match" : "offsets.no_jumps"),
      ({ cluster, group, topic, brokerName, unixMs }) => JSON.stringify([cluster, group, topic, brokerName, unixMs]),
    ),
    jumps.length === JUMPS_MAX ? h("p", {}, t("offsets.first", { shown: JUMPS_MAX })) : null,
  ];
}

/** Returns how many queues jumped, with the first one. */
function queuesOf({ queueCount, queues: [[queueId, before, after]] }) {
  return [count(queueCount), " ", h("small", {}, whole(`${queueId}: ${count(before)} → ${count(after)}`))];
}

function operationTable(page, peer, operations) {
  return table(
    t("offsets.operations"),
    [
      { label: t("offsets.kind"), cell: (row) => tOr(`offsets.kind.${row.kind}`, row.kind) },
      { label: t("offsets.when"), cell: (row) => whole(moment(row.unixMs)) },
      { label: t("offsets.writer"), cell: (row) => named(row.writer) },
      { label: t("offsets.queues"), cell: (row) => count(row.queues) },
      {
        label: t("state"),
        cell: (row) => badge(row.finished ? "good" : "fair", t(row.finished ? "offsets.finished" : "offsets.unfinished")),
      },
      {
        label: "id",
        cell: (row) => [
          named(row.operationId),
          row.undoes ? h("small", {}, ` ${t("offsets.undoes", { id: row.undoes })}`) : null,
        ],
      },
      {
        label: t("actions"),
        cell: (row) =>
          h(
            "button",
            {
              type: "button",
              "aria-label": t("offsets.undo_of", { id: row.operationId }),
              onclick: () => openUndo(page, peer, row.operationId),
            },
            t("offsets.undo"),
          ),
      },
    ],
    operations,
    t("offsets.no_operations"),
    (row) => row.operationId,
  );
}

function setTable(sets) {
  return table(
    t("offsets.sets"),
    [
      { label: t("broker_set"), cell: (row) => named(row.brokerName) },
      { label: t("cluster"), cell: (row) => named(row.cluster) },
      { label: t("offsets.master"), cell: (row) => named(row.master ?? "–") },
      { label: t("state"), cell: (row) => badge(row.fresh ? "good" : "bad", t(row.fresh ? "offsets.fresh" : "offsets.stale")) },
      { label: t("offsets.read"), cell: (row) => whole(moment(row.readUnixMs)) },
      { label: t("offsets.kept_since"), cell: (row) => whole(moment(row.oldestUnixMs)) },
      { label: t("offsets.entries"), cell: (row) => count(row.groups) },
      { label: t("offsets.replicas"), cell: (row) => replicasOf(row.replicas) },
      { label: t("details"), cell: (row) => sentence(row.problem) },
    ],
    sets,
    t("offsets.no_sets"),
  );
}

const COPIES = new Map([
  [true, ["good", "offsets.copies"]],
  [false, ["bad", "offsets.copies_nothing"]],
  [null, ["plain", "offsets.copies_unknown"]],
]);

function replicasOf(replicas) {
  if (!replicas.length) return "–";
  return h(
    "ul",
    {},
    replicas.map(({ address, copies, problem }) => {
      const [kind, text] = COPIES.get(copies);
      return h("li", {}, named(address), " ", badge(kind, t(text)), problem ? [" ", sentence(problem)] : null);
    }),
  );
}

const ROLES = { leading: "good", loading: "fair", following: "plain" };

function managerTable(answers) {
  return table(
    t("offset_managers"),
    [
      { label: t("address"), cell: (row) => named(row.peer.address) },
      {
        label: t("role"),
        cell: (row) =>
          row.value
            ? badge(ROLES[row.value.role] ?? "plain", tOr(`offsets.role.${row.value.role}`, row.value.role))
            : badge("bad", t("unreachable")),
      },
      { label: t("offsets.follows"), cell: (row) => (row.value ? tOr(`offsets.follows.${row.value.follows}`, row.value.follows) : "–") },
      { label: t("offsets.followed_sets"), cell: (row) => count(row.value?.brokerSets) },
      { label: t("offsets.stored"), cell: (row) => count(row.value?.offsets) },
      { label: t("details"), cell: (row) => sentence(row.value ? row.value.lastFlushError : row.problem) },
    ],
    answers,
    t("offsets.none"),
  );
}
