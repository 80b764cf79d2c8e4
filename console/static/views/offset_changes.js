// Repairs and restores of consumer offsets, and their undo: each shows what it will do to every queue, and is done once the user
// agrees.

import { change } from "../api.js";
import { badge, h, named, sentence, table } from "../dom.js";
import { count, t, tOr, zone } from "../messages.js";
import { byUrgency, kindOfStatus, localTime, restoreBody, totalsOf } from "../offsets_model.js";
import { nameField, openChange } from "../parts/change.js";
import { checkBox, field } from "../parts/fields.js";

// Of thousands of queues the first are shown: those that need somebody come first.
const QUEUES_MAX = 500;
const HOUR_MS = 3_600_000;

/** Asks what is to be restored, shows what would become of each queue, and restores it. */
export function openRestore(page, manager, suggested = {}) {
  openChange(page, {
    title: t("offsets.restore_title"),
    server: manager.address,
    fields: restoreFields(suggested),
    confirmLabel: t("offsets.restore_now"),
    preview: async (values) =>
      previewed(await change(manager, "offsets/restore", { ...restoreBody(values), dryRun: true }), values),
    perform: async (values) => done(await change(manager, "offsets/restore", restoreBody(values))),
  });
}

/** Shows what a repair that was only reported would write, and writes it: the manager decides anew before. */
export function openRepair(page, manager, run) {
  openChange(page, {
    title: t("offsets.repair_of", { run }),
    server: manager.address,
    fields: [checkBox(t("offsets.allow_back"), "allowBack"), nameField()],
    confirmLabel: t("offsets.repair_now"),
    preview: async (values) => {
      const answer = await change(manager, `offsets/repairs/${run}/apply`, { ...values, dryRun: true });
      const { counts, messagesAgain, messagesSkipped } = answer.run;
      const open = counts["would change"] ?? 0;
      const again = answer.queues.reduce((sum, row) => sum + (row.offset < row.shown ? row.messagesAgain : 0), 0);
      const sums = { open: count(open), again: count(again), spared: count(messagesAgain - again), skipped: count(messagesSkipped) };
      return { content: [h("p", {}, t("offsets.would_repair", sums)), runTable(answer)], isPossible: open > 0 };
    },
    perform: async (values) => {
      const { counts } = (await change(manager, `offsets/repairs/${run}/apply`, values)).run;
      return [
        h("p", {}, t("offsets.repaired")),
        h("ul", {}, Object.entries(counts).map(([outcome, queues]) => h("li", {}, `${count(queues)} × ${tOr(`offsets.outcome.${outcome}`, outcome)}`))),
      ];
    },
  });
}

function runTable({ queues, total }) {
  return [
    table(
      t("offsets.queues"),
      [
        { label: t("consumer_group"), cell: (row) => named(row.group) },
        { label: t("topic"), cell: (row) => named(row.topic) },
        { label: t("queue"), cell: (row) => row.queueId },
        {
          label: t("state"),
          cell: (row) => [
            badge(kindOfStatus(row.outcome), tOr(`offsets.outcome.${row.outcome}`, row.outcome)),
            row.why ? [" ", sentence(row.why)] : null,
          ],
        },
        { label: t("offsets.before"), cell: (row) => count(row.before) },
        { label: t("offsets.old_new"), cell: (row) => `${count(row.shown)} → ${count(row.offset)}` },
        { label: t("offsets.again"), cell: (row) => count(row.messagesAgain) },
        { label: t("offsets.may_skip"), cell: (row) => count(row.messagesSkipped) },
      ],
      queues.slice(0, QUEUES_MAX),
      t("offsets.no_queues"),
    ),
    total > QUEUES_MAX ? h("p", {}, t("offsets.more", { shown: QUEUES_MAX, total })) : null,
  ];
}

function restoreFields(suggested) {
  const { cluster = "DefaultCluster", group = "", topic = "", brokerName = "", moment = "former" } = suggested;
  const isFormer = moment === "former";
  const unixMs = isFormer ? Date.now() - HOUR_MS : moment;
  const suggestedTime = localTime(unixMs);
  const text = (label, name, value, isRequired = false) =>
    field(label, h("input", { name, value, maxlength: 255, required: isRequired, spellcheck: "false" }));
  return [
    h("p", {}, t("offsets.scope_text")),
    text(t("cluster"), "cluster", cluster, true),
    text(t("consumer_group"), "group", group),
    text(t("topic"), "topic", topic),
    text(t("broker_set"), "brokerName", brokerName),
    field(
      t("offsets.moment"),
      h("select", { name: "how" }, [
        h("option", { value: "former", selected: isFormer }, t("offsets.moment.former")),
        h("option", { value: "time", selected: !isFormer }, t("offsets.moment.time")),
      ]),
    ),
    field(t("offsets.time", { zone: zone() }), h("input", { name: "time", type: "datetime-local", step: 1, value: suggestedTime, required: true })),
    h("input", { type: "hidden", name: "suggestedTime", value: suggestedTime }),
    h("input", { type: "hidden", name: "suggestedUnixMs", value: unixMs }),
    checkBox(t("offsets.allow_back"), "allowBack", suggested.allowBack),
    checkBox(t("offsets.allow_unproved"), "allowUnproved"),
    checkBox(t("offsets.over_resets"), "overResets", suggested.overResets),
    checkBox(t("offsets.pulls"), "pulls"),
    nameField(),
  ];
}

/** Shows what the undo of an operation would do, and undoes it. */
export function openUndo(page, manager, operationId) {
  const body = ({ writer, force, allowUnproved, pulls }) => ({ operationId, writer, force, allowUnproved, pulls });
  openChange(page, {
    title: t("offsets.undo_of", { id: operationId }),
    server: manager.address,
    fields: [
      checkBox(t("offsets.force"), "force"),
      checkBox(t("offsets.allow_unproved"), "allowUnproved"),
      checkBox(t("offsets.pulls"), "pulls"),
      nameField(),
    ],
    confirmLabel: t("offsets.undo"),
    preview: async (values) => previewed(await change(manager, "offsets/undo", { ...body(values), dryRun: true }), values),
    perform: async (values) => done(await change(manager, "offsets/undo", body(values))),
  });
}

function previewed(answer, { allowUnproved }) {
  const totals = totalsOf(answer);
  const text = totals.written ? sumOf("offsets.would", totals) : t("offsets.would_nothing");
  // What is proved was read before; without a proof messages may be lost for the group.
  const isRisky = totals.unknown > 0 || (totals.skipped > 0 && allowUnproved);
  return {
    content: [h("p", { class: isRisky ? "problem" : null }, text), problems(answer), queueTable(answer)],
    isPossible: totals.written > 0,
  };
}

/** Returns the sentence of totals, and of how many queues they are not known. */
function sumOf(key, { written, left, again, skipped, unknown }) {
  const sum = t(key, { written, left, again: count(again), skipped: count(skipped) });
  return unknown ? `${sum} ${t("offsets.not_counted", { count: count(unknown) })}` : sum;
}

function done(answer) {
  return [
    h("p", {}, sumOf("offsets.did", totalsOf(answer))),
    answer.operationId ? h("p", {}, t("offsets.undo_with"), " ", named(answer.operationId)) : null,
    problems(answer),
    queueTable(answer),
  ];
}

function problems(answer) {
  return answer.problems.map(({ brokerName, reason }) => h("p", { class: "problem" }, named(brokerName), ": ", sentence(reason)));
}

function queueTable({ queues }) {
  return [
    table(
      t("offsets.queues"),
      [
        { label: t("consumer_group"), cell: (row) => named(row.group) },
        { label: t("topic"), cell: (row) => named(row.topic) },
        { label: t("queue"), cell: (row) => [named(row.brokerName), ` / ${row.queueId}`] },
        {
          label: t("state"),
          cell: (row) => [
            badge(kindOfStatus(row.status), tOr(`offsets.status.${row.status}`, row.status)),
            row.why ? [" ", sentence(row.why)] : null,
          ],
        },
        { label: t("offsets.old_new"), cell: (row) => `${count(row.old)} → ${count(row.new)}` },
        { label: t("offsets.again"), cell: (row) => count(row.messagesAgain) },
        { label: t("offsets.skipped"), cell: (row) => count(row.messagesNever) },
      ],
      byUrgency(queues).slice(0, QUEUES_MAX),
      t("offsets.no_queues"),
    ),
    queues.length > QUEUES_MAX ? h("p", {}, t("offsets.more", { shown: QUEUES_MAX, total: queues.length })) : null,
  ];
}
