// Each election as a line of time, with its candidates and its reason; switchovers; and the roles that hosts are told now.

import { answersOf, items, pathOf, request } from "../api.js";
import { badge, h, named, patch, sentence, table, whole } from "../dom.js";
import { electionAt, elections, kindOf, kindOfRole, lineOf, ofSets, switchoverOf, switchovers } from "../elections_model.js";
import { follow } from "../feed.js";
import { count, moment, shortTime, t, tOr } from "../messages.js";
import { filterField } from "../parts/filter.js";
import { onNew } from "../parts/pictures.js";
import { timeLine } from "../parts/time_line.js";

// Of each controller.
const ELECTIONS_MAX = 100;
const SWITCHOVERS_MAX = 20;
// What a broker reports that has none.
const NO_PRIORITY = 2 ** 31 - 1;
// Each has one colour in all lines.
const PHASES = ["suspect", "judge", "fence", "commit"];

/** Shows the view until the returned function is called: all elections, those of a set, or one with its candidates. */
export function show(root, page) {
  const [brokerName = "", unixMs = null] = page.names;
  const content = h("div", { id: "elections", "aria-busy": "true" }, h("p", {}, t("loading")));
  let value = null;
  let wanted = brokerName;
  const filter = filterField(t("elections.filter"), wanted, "#/elections", (text) => {
    wanted = text;
    draw();
  });
  root.replaceChildren(
    ...(unixMs === null ? [h("h1", {}, t("elections.title")), h("div", { class: "tools" }, filter), content] : [content]),
  );

  function draw() {
    if (value === null) return;
    const shown = unixMs === null ? list(value, wanted) : detail(value, brokerName, unixMs);
    patch(content, h("div", { id: "elections", "aria-busy": "false" }, shown));
  }

  return follow(
    load,
    onNew(page, (latest) => {
      value = latest;
      draw();
    }),
  );
}

async function load() {
  const answers = await answersOf("controller", async (peer) => {
    const [group, held, planned] = await Promise.all([
      request(pathOf(peer, "controllers")),
      request(pathOf(peer, `elections?limit=${ELECTIONS_MAX}`)),
      request(pathOf(peer, `switchovers?limit=${SWITCHOVERS_MAX}`)),
    ]);
    return { role: group.role, elections: held.elections, switchovers: planned.switchovers };
  });
  const leader = answers.find((each) => each.value?.role === "leader")?.peer;
  const [roles, callbacks] = leader
    ? await Promise.all([items(leader, "roles", "brokerSets"), request(pathOf(leader, "role-callbacks?limit=100"))])
    : [{ items: [] }, null];
  return { answers, elections: elections(answers), switchovers: switchovers(answers), roles: roles.items, callbacks };
}

function list(value, wanted) {
  const shown = ofSets(value.elections, wanted);
  return [
    silent(value.answers),
    shown.length
      ? h("ol", { class: "cards", "aria-label": t("elections.title"), "data-key": "elections" }, shown.map(card))
      : h("p", {}, t(value.answers.length ? "elections.none" : "controllers.none")),
    switchoverCards(ofSets(value.switchovers, wanted)),
    callbackTable(value.callbacks),
    roleTable(ofSets(value.roles, wanted)),
  ];
}

function silent(answers) {
  const without = answers.filter((each) => each.value === null);
  if (!without.length) return null;
  return h("p", { class: "problem" }, t("elections.silent", { servers: without.map((each) => each.peer.address).join(", ") }));
}

const addressOf = (election) => `#/elections/${encodeURIComponent(election.brokerName)}/${election.unixMs}`;

function card(election) {
  return h(
    "li",
    { class: "card", "data-key": JSON.stringify([election.heldBy, election.brokerName, election.unixMs]) },
    h("h2", {}, h("a", { href: addressOf(election) }, named(election.brokerName), " · ", moment(election.unixMs))),
    outcome(election),
    h("p", {}, sentence(election.cause)),
    line(election),
  );
}

function outcome(election) {
  return h(
    "p",
    {},
    badge(kindOf(election), tOr(`elections.result.${election.result}`, election.result)),
    " ",
    badge("plain", tOr(`elections.trigger.${election.trigger}`, election.trigger)),
    " ",
    t("elections.change", {
      before: election.oldMaster ?? t("elections.nobody"),
      after: election.newMaster ?? t("elections.nobody"),
      epoch: election.masterEpoch,
    }),
    election.unclean ? [" ", badge("fair", t("elections.unclean"))] : null,
    election.times > 1
      ? h("small", {}, ` ${t("elections.times", { count: election.times, time: moment(election.lastUnixMs) })}`)
      : null,
  );
}

function line(election) {
  const { segments, marks, isLoss } = lineOf(election);
  const label = t(isLoss ? "elections.line.loss" : "elections.line.request");
  return timeLine(
    label,
    segments.map(({ phase, ms }) => ({ name: t(`elections.phase.${phase}`), ms, colour: PHASES.indexOf(phase) })),
    marks.map(({ brokerId, result, atMs }) => ({
      name: t("elections.notified", { id: brokerId, result: tOr(`elections.notified.${result}`, result) }),
      atMs,
    })),
  );
}

function detail(value, brokerName, unixMs) {
  const back = h("p", {}, h("a", { href: "#/elections" }, t("elections.all")));
  const election = electionAt(value.elections, brokerName, unixMs);
  if (!election) return [h("h1", {}, named(brokerName)), h("p", {}, t("elections.unknown")), silent(value.answers), back];
  const switchover = switchoverOf(election, value.switchovers);
  return [
    h("h1", {}, t("elections.of"), " ", named(election.brokerName), " · ", moment(election.unixMs)),
    outcome(election),
    facts(election),
    line(election),
    switchover ? switchoverCards([switchover]) : null,
    force(election),
    candidateTable(election.candidates),
    notifiedTable(election.notified),
    back,
  ];
}

function facts(election) {
  const rows = [
    [t("elections.cause"), sentence(election.cause)],
    [t("elections.reason"), sentence(election.reason)],
    ...(election.advice ? [[t("elections.advice"), sentence(election.advice)]] : []),
    [t("cluster"), named(election.cluster)],
    [t("elections.held_by"), named(election.heldBy)],
    [t("master_epoch"), election.masterEpoch],
    [t("elections.sync_epoch"), election.syncStateSetEpoch],
    [t("elections.total"), shortTime(lineOf(election).totalMs)],
    [
      t("elections.stake"),
      election.bytesAtStake === null ? t("unknown") : t("elections.bytes", { count: count(election.bytesAtStake) }),
    ],
  ];
  return h(
    "dl",
    { class: "facts" },
    rows.map(([name, text]) => [h("dt", {}, name), h("dd", {}, text)]),
  );
}

function force({ force: command }) {
  return command
    ? h(
        "section",
        { class: "card" },
        h("h2", {}, t("elections.force")),
        h("p", {}, t("elections.force_text")),
        h("code", {}, command),
      )
    : null;
}

function candidateTable(candidates) {
  return table(
    t("elections.candidates"),
    [
      { label: t("broker_id"), cell: (row) => row.brokerId },
      { label: t("address"), cell: (row) => named(row.address) },
      { label: t("elections.verdict"), cell: (row) => sentence(row.verdict) },
      { label: "SyncStateSet", cell: (row) => (row.inSync ? badge("good", t("yes")) : badge("fair", t("no"))) },
      { label: t("epoch"), cell: (row) => row.epoch ?? "–" },
      { label: t("elections.max_offset"), cell: (row) => count(row.maxOffset) },
      { label: t("elections.priority"), cell: (row) => priority(row.electionPriority) },
    ],
    candidates,
    t("elections.no_candidates"),
  );
}

const priority = (value) => (value === null || value === NO_PRIORITY ? "–" : value);

function notifiedTable(notified) {
  return table(
    t("elections.notifications"),
    [
      { label: t("broker_id"), cell: (row) => row.brokerId },
      {
        label: t("state"),
        cell: (row) => badge(row.result === "ok" ? "good" : "fair", tOr(`elections.notified.${row.result}`, row.result)),
      },
      { label: t("elections.after"), cell: (row) => shortTime(row.afterMs) },
      { label: t("elections.tries"), cell: (row) => row.tries },
    ],
    notified,
    t("elections.nobody_notified"),
  );
}

const SWITCHOVER_KINDS = { DONE: "good", FAILED: "bad", ROLLED_BACK: "fair", INTERRUPTED: "fair" };

function switchoverCards(found) {
  if (!found.length) return null;
  const one = (each) =>
    h(
      "li",
      { class: "card", "data-key": each.id },
      h("h3", {}, named(each.brokerName), " · ", moment(each.createdUnixMs)),
      h(
        "p",
        {},
        badge(SWITCHOVER_KINDS[each.phase] ?? "plain", each.phase),
        " ",
        t("elections.change", { before: each.oldMaster, after: each.newMaster, epoch: each.newEpoch ?? t("unknown") }),
        each.heldMs === null ? null : [" · ", t("elections.held", { time: shortTime(each.heldMs) })],
      ),
      each.problem ? h("p", { class: "problem" }, sentence(each.problem)) : null,
      each.warnings.map((warning) => h("p", {}, sentence(warning))),
      timeLine(
        t("elections.switchover"),
        each.steps.map(({ phase, lastedMs }) => ({ name: phase, ms: lastedMs })),
      ),
    );
  return [
    h("h2", {}, t("elections.switchovers")),
    h("ol", { class: "cards", "aria-label": t("elections.switchovers"), "data-key": "switchovers" }, found.map(one)),
  ];
}

function callbackTable(callbacks) {
  if (!callbacks?.undelivered.length) return null;
  return table(
    t("elections.callbacks"),
    [
      { label: t("broker_set"), cell: (row) => named(row.brokerName) },
      { label: t("master_epoch"), cell: (row) => row.masterEpoch },
      { label: t("elections.since"), cell: (row) => whole(moment(row.sinceUnixMs)) },
      { label: t("elections.failures"), cell: (row) => row.failures },
      { label: t("details"), cell: (row) => sentence(row.error) },
    ],
    callbacks.undelivered,
    "",
  );
}

function roleTable(sets) {
  return table(
    t("elections.roles"),
    [
      { label: t("broker_set"), cell: (row) => named(row.brokerName) },
      { label: t("elections.master"), cell: (row) => [row.masterBrokerId ?? "–", " ", named(row.masterAddress ?? "")] },
      { label: t("master_epoch"), cell: (row) => row.masterEpoch },
      { label: t("elections.confirmed"), cell: (row) => (row.confirmed ? badge("good", t("yes")) : badge("fair", t("no"))) },
      {
        label: t("elections.role_check"),
        cell: (row) =>
          h(
            "ul",
            {},
            row.roles.map((each) => h("li", {}, roleLine(each))),
          ),
      },
    ],
    sets,
    t("elections.no_roles"),
  );
}

function roleLine({ brokerId, address, verdict, doubt }) {
  return [
    badge(kindOfRole(verdict), tOr(`elections.role.${verdict}`, verdict)),
    ` ${brokerId} `,
    named(address),
    doubt ? h("small", {}, " ", sentence(doubt)) : null,
  ];
}
