// Consumer offsets: what went back and why, restores and their undo, the guard, the mirror, and how far a group is behind.

import { answersOf, pathOf, request } from "../api.js";
import { badge, h, named, patch, sentence, table, whole } from "../dom.js";
import { follow } from "../feed.js";
import { count, duration, moment, t, tOr } from "../messages.js";
import { kindOfCause, kindOfRun, matching, restoreOf, serving } from "../offsets_model.js";
import { filterField } from "../parts/filter.js";
import { onNew } from "../parts/pictures.js";
import { openRestore, openUndo } from "./offset_changes.js";
import { lagAddress, lagForm, showLag } from "./offset_lag.js";

const REGRESSIONS_MAX = 200;
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
      restore.disabled = value.manager === null;
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
  const [regressions, operations, guard, mirror] = await Promise.all([
    of(`offsets/regressions?limit=${REGRESSIONS_MAX}`),
    of("offsets/operations"),
    of("offsets/guard"),
    of("offsets/mirror?limit=1000"),
  ]);
  return { answers, manager, regressions, operations, guard, mirror };
}

/** Returns an answer, or why there is none: a manager that follows no brokers has no mirror, and shows the rest. */
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
  const { peer } = value.manager;
  return [
    [...new Set([value.regressions, value.operations, value.guard, value.mirror].map((each) => each.problem))]
      .filter(Boolean)
      .map((problem) => h("p", { class: "problem" }, sentence(problem))),
    value.regressions.value && regressionTable(page, peer, value.regressions.value, wanted),
    value.operations.value && operationTable(page, peer, value.operations.value.operations),
    value.guard.value && guardTable(value.guard.value),
    value.mirror.value && mirrorTable(value.mirror.value.sets),
    managerTable(value.answers),
  ];
}

function regressionTable(page, peer, { regressions, remembered, dropped }, wanted) {
  const shown = matching(regressions, wanted);
  return [
    table(
      t("offsets.regressions"),
      [
        {
          label: t("consumer_group"),
          cell: (row) => h("a", { href: lagAddress(row.cluster, row.group) }, named(row.group)),
        },
        { label: t("topic"), cell: (row) => named(row.topic) },
        { label: t("queue"), cell: (row) => [named(row.brokerName), ` / ${row.queueId}`] },
        { label: t("offsets.cause"), cell: (row) => badge(kindOfCause(row.cause), tOr(`offsets.cause.${row.cause}`, row.cause)) },
        { label: t("offsets.from_to"), cell: (row) => whole(`${count(row.fromOffset)} → ${count(row.toOffset)}`) },
        { label: t("offsets.again"), cell: (row) => count(row.messagesAgain) },
        {
          label: t("offsets.seen"),
          cell: (row) => [
            whole(moment(row.unixMs)),
            row.times > 1 ? h("small", {}, ` ${t("offsets.times", { count: row.times })}`) : null,
          ],
        },
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
      t(wanted ? "offsets.no_match" : "offsets.no_regressions"),
      ({ cluster, group, topic, brokerName, queueId }) => JSON.stringify([cluster, group, topic, brokerName, queueId]),
    ),
    remembered > regressions.length ? h("p", {}, t("offsets.more", { shown: regressions.length, total: remembered })) : null,
    dropped ? h("p", {}, t("offsets.dropped", { count: dropped })) : null,
  ];
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

function guardTable({ mode, runs, running, waiting }) {
  return [
    table(
      t("offsets.guard"),
      [
        { label: t("broker_set"), cell: (row) => [named(row.brokerName), " ", h("small", {}, named(row.address))] },
        { label: t("offsets.cause"), cell: (row) => tOr(`offsets.guard_cause.${row.cause}`, row.cause) },
        {
          label: t("state"),
          cell: (row) => [
            badge(kindOfRun(row.result), tOr(`offsets.run.${row.result}`, row.result)),
            row.error ? [" ", sentence(row.error)] : null,
          ],
        },
        { label: t("offsets.when"), cell: (row) => [whole(moment(row.beganUnixMs)), h("small", {}, ` ${duration(row.durationMs)}`)] },
        {
          label: t("offsets.counts"),
          cell: (row) =>
            h(
              "ul",
              {},
              row.counts.map((each) => h("li", {}, `${count(each.offsets)} × ${each.action}: ${each.reason}, ${each.outcome}`)),
            ),
        },
      ],
      runs.slice(0, RUNS_MAX),
      t("offsets.no_runs"),
    ),
    h("p", {}, tOr(`offsets.mode.${mode}`, mode), running || waiting ? ` ${t("offsets.running", { running, waiting })}` : ""),
  ];
}

const MIRROR_STATES = { fresh: "good", stale: "bad", absent: "plain" };

function mirrorTable(sets) {
  return table(
    t("offsets.mirror"),
    [
      { label: t("broker_set"), cell: (row) => named(row.brokerName) },
      { label: t("cluster"), cell: (row) => named(row.cluster) },
      {
        label: t("state"),
        cell: (row) => badge(MIRROR_STATES[row.state] ?? "plain", tOr(`offsets.mirror.${row.state}`, row.state)),
      },
      { label: t("offsets.age"), cell: (row) => duration(row.ageMs) },
      { label: t("offsets.kept_since"), cell: (row) => whole(moment(row.keptSinceUnixMs)) },
      { label: t("offsets.entries"), cell: (row) => (row.keptSinceUnixMs === null ? "–" : count(row.entries)) },
      { label: t("details"), cell: (row) => sentence(row.error ?? "") },
    ],
    sets,
    t("offsets.no_mirror"),
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
      { label: t("offsets.stored"), cell: (row) => count(row.value?.offsets) },
      { label: t("details"), cell: (row) => sentence(row.value ? row.value.lastFlushError : row.problem) },
    ],
    answers,
    t("offsets.none"),
  );
}
