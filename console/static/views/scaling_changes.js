// What operators do about resizes: each shows what it will do, and is done once they agree.

import { change, pathOf, request } from "../api.js";
import { h, named, sentence, table } from "../dom.js";
import { count, duration, t, tOr } from "../messages.js";
import { nameField, openChange } from "../parts/change.js";
import { checkBox, field } from "../parts/fields.js";
import { WAITS, countsOf, requestOf } from "../scaling_model.js";

const REMARK_MAX = 500;
const TOPIC_MAX = 127;

/** Plans a resize, shows the plan and starts it. */
export function openResize(page, leader) {
  openChange(page, {
    title: t("scaling.resize_title"),
    server: leader.address,
    fields: resizeFields(),
    confirmLabel: t("scaling.start"),
    preview: async (values) => {
      const plan = await change(leader, "scaling/plan", requestOf(values));
      return { content: planned(plan), isPossible: !plan.problems.length };
    },
    perform: async (values) => started(await change(leader, "scaling/operations", requestOf(values))),
  });
}

function resizeFields() {
  const ordered = ["", "pause", "gate"].map((each) => h("option", { value: each }, t(`scaling.ordered.${each || "none"}`)));
  return [
    field(t("topic"), h("input", { name: "topic", required: true, maxlength: TOPIC_MAX, spellcheck: "false" })),
    field(t("scaling.wanted_queues"), h("input", { name: "queues", type: "number", min: 1, required: true })),
    field(t("scaling.ordered"), h("select", { name: "ordered" }, ordered)),
    checkBox(t("scaling.equalise"), "equalise"),
    checkBox(t("scaling.accept_late"), "acceptLate"),
    field(t("scaling.reason"), h("input", { name: "reason", maxlength: REMARK_MAX })),
    nameField(),
    h(
      "details",
      {},
      h("summary", {}, t("scaling.waits")),
      WAITS.map((name) => field(name.slice(0, -2), h("input", { name, type: "number", min: 0, step: "any", placeholder: "s" }))),
    ),
  ];
}

/** Starts a resize that the autoscaler has proposed; its plan is shown as that of any other. */
export function openApproval(page, leader, proposal) {
  openChange(page, {
    title: t("scaling.approve_of", { topic: proposal.topic }),
    server: leader.address,
    confirmLabel: t("scaling.approve"),
    preview: async () => {
      const plan = await change(leader, "scaling/plan", { topic: proposal.topic, queues: proposal.target });
      return { content: [h("p", {}, sentence(proposal.reason)), planned(plan)], isPossible: !plan.problems.length };
    },
    perform: async () =>
      started(await change(leader, `scaling/proposals/${encodeURIComponent(proposal.id)}/approve`, { reason: "" })),
  });
}

/** Gives up a proposal. */
export function openDismissal(page, leader, proposal) {
  openChange(page, {
    title: t("scaling.dismiss_of", { topic: proposal.topic }),
    server: leader.address,
    fields: [field(t("scaling.reason"), h("input", { name: "reason", maxlength: REMARK_MAX }))],
    confirmLabel: t("scaling.dismiss"),
    preview: async () => ({
      content: h("p", {}, t("scaling.dismiss_text", { before: proposal.before, target: proposal.target })),
      isPossible: true,
    }),
    perform: async ({ reason }) => {
      await change(leader, `scaling/proposals/${encodeURIComponent(proposal.id)}/dismiss`, { reason });
      return h("p", {}, t("scaling.dismissed"));
    },
  });
}

/** Aborts or resumes a resize, or waives a group that holds it up. */
export function openCommand(page, leader, operation, name) {
  const path = `scaling/operations/${encodeURIComponent(operation.id)}`;
  openChange(page, {
    title: t(`scaling.${name}_of`, { topic: operation.topic }),
    server: leader.address,
    fields:
      name === "waive"
        ? [field(t("consumer_group"), h("input", { name: "group", required: true, maxlength: 255, spellcheck: "false" }))]
        : [field(t("scaling.reason"), h("input", { name: "reason", maxlength: REMARK_MAX }))],
    confirmLabel: t(`scaling.${name}_now`),
    preview: async (values) => {
      // As it is now: it has gone on since the view was drawn.
      const present = await request(pathOf(leader, path));
      return { content: effectOf(present, name, values), isPossible: present.phase === operation.phase || name !== "resume" };
    },
    perform: async ({ group, reason }) =>
      started(await change(leader, `${path}/${name}`, name === "waive" ? { group } : { reason })),
  });
}

function effectOf(operation, name, { group }) {
  return [
    h("p", {}, named(operation.topic), ` ${countsOf(operation)} · ${operation.phase}`),
    h(
      "p",
      {},
      name === "waive"
        ? t("scaling.waive_text", { group })
        : name === "abort"
          ? abortText(operation)
          : t("scaling.resume_text", { phase: operation.resumePhase ?? operation.phase }),
    ),
    operation.problem ? h("p", {}, sentence(operation.problem)) : null,
  ];
}

// docs/protocol/queue-scaling.md 10.
function abortText({ kind, phase, steps }) {
  if (phase === "PLANNED" || phase === "PRECHECK") return t("scaling.abort_text.nothing");
  if (phase === "CONFLICT") return t("scaling.abort_text.conflict");
  const isWritten = phase === "WRITE_UP" || phase === "VERIFY" || steps.some((each) => each.phase === "WRITE_UP");
  if (kind === "grow") return t(isWritten ? "scaling.abort_text.written" : "scaling.abort_text.grow");
  return t(kind === "shrink" ? "scaling.abort_text.shrink" : "scaling.abort_text.ordered");
}

function started(operation) {
  return [
    h("p", {}, t("scaling.done_now", { phase: operation.phase })),
    h("p", {}, h("a", { href: `#/scaling/${encodeURIComponent(operation.id)}`, onclick: closeDialog }, t("scaling.follow"))),
  ];
}

const closeDialog = (event) => event.target.closest("dialog").close();

/** Returns a plan: hindrances first, then what changes where, and how long it takes at least. */
function planned(plan) {
  return [
    plan.problems.length
      ? h("section", {}, h("h3", {}, t("scaling.problems")), h("ul", { class: "problem" }, plan.problems.map(item)))
      : null,
    plan.warnings.length ? h("section", {}, h("h3", {}, t("scaling.warnings")), h("ul", {}, plan.warnings.map(item))) : null,
    plan.kind
      ? h("p", {}, tOr(`scaling.kind.${plan.kind}`, plan.kind), " · ", t("scaling.at_least", { time: duration(plan.atLeastMs) }))
      : null,
    plan.sets.length ? setTable(plan.sets) : null,
    plan.steps.length ? stepTable(plan.steps) : null,
    plan.groups.length ? groupTable(plan.groups) : null,
  ];
}

const item = (text) => h("li", {}, sentence(text));

function setTable(sets) {
  return table(
    t("broker_sets"),
    [
      { label: t("broker_set"), cell: (row) => named(row.brokerName) },
      { label: t("scaling.before"), cell: (row) => t("scaling.read_write", { read: row.read, write: row.write }) },
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
      { label: t("details"), cell: (row) => sentence(row.text) },
      { label: t("scaling.least"), cell: (row) => (row.atLeastMs ? duration(row.atLeastMs) : "–") },
    ],
    steps,
    "",
  );
}

function groupTable(groups) {
  return table(
    t("scaling.groups"),
    [
      { label: t("consumer_group"), cell: (row) => named(row.group) },
      { label: t("scaling.kind"), cell: (row) => row.kind },
      { label: t("scaling.clients"), cell: (row) => row.clients },
      { label: t("scaling.unread"), cell: (row) => (row.lag === null ? t("unknown") : count(row.lag)) },
      { label: t("details"), cell: (row) => sentence(row.note) },
    ],
    groups,
    "",
  );
}
