// Why the autoscaler did or did nothing: its verdicts, the last changes of them, and its policies.

import { badge, h, named, sentence, table, whole } from "../dom.js";
import { count, duration, moment, t, tOr } from "../messages.js";
import { addressOf, kindOfEffect, kindOfOutcome } from "../scaling_model.js";

/** Returns the tables of answers about decisions and policies. */
export function autoscalerTables(decisions, policies) {
  return [decisionTable(decisions), changeTable(decisions.changes), policyTable(policies)];
}

function decisionTable({ decisions, total, leftOut }) {
  const more = [
    total > decisions.length ? t("scaling.more", { shown: decisions.length, total }) : "",
    leftOut ? t("scaling.left_out", { count: leftOut }) : "",
  ].filter(Boolean);
  return [
    table(t("scaling.decisions"), decisionColumns(), decisions, t("scaling.no_decisions")),
    more.length ? h("p", {}, more.join(" ")) : null,
  ];
}

function changeTable(changes) {
  const when = { label: t("scaling.when"), cell: (row) => whole(moment(row.unixMs)) };
  const [topic, ...others] = decisionColumns();
  return changes.length ? table(t("scaling.changes"), [topic, when, ...others], changes, "") : null;
}

function decisionColumns() {
  return [
    { label: t("topic"), cell: (row) => named(row.topic) },
    {
      label: t("scaling.outcome"),
      cell: (row) => [
        badge(kindOfOutcome(row.outcome), tOr(`scaling.outcome.${row.outcome}`, row.outcome)),
        row.operationId ? [" ", h("a", { href: addressOf({ id: row.operationId }) }, t("scaling.operation"))] : null,
      ],
    },
    {
      label: t("scaling.queues"),
      cell: (row) => (row.target === null ? (row.queues ?? t("unknown")) : `${row.queues ?? "?"} → ${row.target}`),
    },
    { label: t("scaling.why"), cell: why },
    { label: t("scaling.numbers"), cell: numbers },
    {
      label: t("scaling.policy"),
      cell: (row) => [named(row.policy), " ", h("small", {}, tOr(`scaling.mode.${row.mode}`, row.mode))],
    },
  ];
}

function why({ reason, problem, findings }) {
  return [
    isToldBy(findings, reason) ? null : h("div", {}, sentence(reason)),
    problem ? h("div", { class: "problem" }, sentence(problem)) : null,
    h(
      "ul",
      {},
      findings.map((each) =>
        h(
          "li",
          {},
          badge(kindOfEffect(each.effect), tOr(`scaling.effect.${each.effect}`, each.effect)),
          " ",
          sentence(each.sentence),
        ),
      ),
    ),
  ];
}

// Most reasons are those of findings.
function isToldBy(findings, reason) {
  const sentences = findings.map((each) => each.sentence);
  return sentences.includes(reason) || sentences.join("; ") === reason;
}

function numbers({ putTps, lag, clients, sets }) {
  return t("scaling.seen", {
    rate: putTps === null ? "–" : count(Math.round(putTps)),
    lag: count(lag),
    clients: count(clients),
    sets,
  });
}

function policyTable({ source, policies, problem }) {
  return [
    problem ? h("p", { class: "problem" }, t("scaling.policy_problem"), " ", sentence(problem)) : null,
    table(
      t("scaling.policies"),
      [
        { label: t("topic"), cell: (row) => named(row.topic) },
        { label: t("scaling.mode"), cell: (row) => tOr(`scaling.mode.${row.mode}`, row.mode) },
        { label: t("scaling.bounds"), cell: (row) => `${row.min} – ${row.max}` },
        { label: t("scaling.step"), cell: (row) => `× ${row.step}` },
        { label: t("scaling.cooldown"), cell: (row) => duration(row.cooldownMs) },
        { label: t("scaling.window"), cell: (row) => duration(row.windowMs) },
      ],
      policies,
      t("scaling.no_policies"),
    ),
    policies.length ? h("p", {}, h("small", {}, source === "http" ? t("scaling.source.http") : t("scaling.source", { source }))) : null,
  ];
}
