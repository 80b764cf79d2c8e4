// Clusters, broker sets with the roles of their brokers, NameServers and whether they agree, controllers and who leads.

import { answerOf, items, pathOf, request } from "../api.js";
import { badge, h, named, patch, sentence, table, whole } from "../dom.js";
import { follow } from "../feed.js";
import { count, duration, t, tOr } from "../messages.js";
import { brokerAddress } from "../parts/addresses.js";
import { utc } from "../parts/times.js";
import { awaySets, brokerSets, controllers, leadership, nameServers } from "../overview_model.js";

// Names of brokers that are listed where NameServers differ.
const DIFFERENCES_MAX = 5;

/** Shows the view until the returned function is called. */
export function show(root, page) {
  const content = h("div", { id: "overview", "aria-busy": "true" }, h("h1", {}, t("overview.title")), h("p", {}, t("loading")));
  root.replaceChildren(content);
  let drawn = null;
  return follow(load, ({ value, error, ageMs, isOld }) => {
    page.fresh(error, value === null ? null : ageMs, isOld);
    if (value === null || value === drawn) return;
    drawn = value;
    patch(content, h("div", { id: "overview", "aria-busy": "false" }, h("h1", {}, t("overview.title")), sections(value)));
  });
}

async function load() {
  const peers = (await request("peers")).items;
  const of = (kind) => peers.filter((peer) => peer.kind === kind);
  const [nameServerAnswers, controllerAnswers] = await Promise.all([
    Promise.all(of("namesrv").map(brokersOf)),
    Promise.all(of("controller").map(groupOf)),
  ]);
  const source = nameServerAnswers.find((each) => each.brokers);
  const controller = controllerAnswers.find((each) => each.group?.role === "leader") ?? controllerAnswers.find((each) => each.group);
  const [clusters, storedSets] = await Promise.all([
    source ? items(source.peer, "clusters") : { items: [] },
    controller ? items(controller.peer, "broker-sets", "brokerSets") : { items: null },
  ]);
  const away = awaySets(nameServerAnswers);
  return { peers, nameServerAnswers, controllerAnswers, source, away, clusters: clusters.items, storedSets: storedSets.items };
}

async function brokersOf(peer) {
  const { value, problem } = await answerOf(peer, async () => (await items(peer, "brokers")).items);
  const away = value && (await answerOf(peer, async () => (await items(peer, "broker-sets/away")).items));
  // One of an older release remembers no sets.
  return { peer, brokers: value, away: away?.value ?? [], problem };
}

async function groupOf(peer) {
  const { value, problem } = await answerOf(peer, () => request(pathOf(peer, "controllers")));
  return { peer, group: value, problem };
}

function sections(value) {
  const sets = brokerSets(value.source?.brokers ?? null, value.storedSets, value.away);
  const none = t(value.source ? "clusters.none" : "name_servers.unreachable");
  return [
    clusterTable(value.clusters, none),
    setTable(sets, value.storedSets !== null, none),
    nameServerTable(nameServers(value.nameServerAnswers), value.source),
    controllerTable(controllers(value.controllerAnswers)),
    offsetTable(value.peers.filter((peer) => peer.kind === "offsets")),
  ];
}

function clusterTable(clusters, none) {
  return table(
    t("clusters.title"),
    [
      { label: t("cluster"), cell: (row) => named(row.cluster) },
      { label: t("broker_sets"), cell: (row) => count(row.brokerSets) },
      {
        label: t("clusters.without_master"),
        cell: (row) => (row.brokerSetsWithoutMaster ? badge("bad", count(row.brokerSetsWithoutMaster)) : "0"),
      },
      { label: t("clusters.away"), cell: (row) => (row.awayBrokerSets ? badge("bad", count(row.awayBrokerSets)) : "0") },
      { label: t("masters"), cell: (row) => count(row.masters) },
      { label: t("slaves"), cell: (row) => count(row.slaves) },
      { label: t("topics"), cell: (row) => count(row.topics.normal) },
      { label: t("write_queues"), cell: (row) => count(row.writeQueues) },
    ],
    clusters,
    none,
  );
}

const SET_STATES = { master: "good", under_replicated: "fair", acting_master: "fair", no_master: "bad", not_led: "bad", absent: "bad", away: "bad", starting: "fair" };

function setTable(sets, hasController, none) {
  const columns = [
    { label: t("broker_set"), cell: (row) => named(row.name) },
    { label: t("cluster"), cell: (row) => named(row.cluster) },
    { label: t("state"), cell: (row) => [badge(SET_STATES[row.state], t(`set.${row.state}`)), stateDetail(row)] },
    { label: t("brokers"), cell: (row) => h("ul", {}, [...row.brokers.map((each) => h("li", {}, brokerLine(each))), ...lastAddresses(row)]) },
  ];
  if (hasController) {
    columns.push({ label: t("master_epoch"), cell: (row) => row.stored?.masterEpoch ?? "–" });
    columns.push({ label: "SyncStateSet", cell: (row) => (row.stored ? whole(inSync(row.stored)) : "–") });
  }
  return table(t("broker_sets"), columns, sets, none);
}

/** Since when a set is away; why a set without master has none. */
function stateDetail({ state, away, stored }) {
  if (state === "starting") return h("small", {}, ` ${t("set.not_yet")}`);
  if (away) return h("small", {}, ` ${t(away.wasUnregistered ? "set.stopped_since" : "set.lost_since", { time: utc(away.awaySinceUnixMs) })}`);
  const isLed = !["no_master", "not_led", "absent"].includes(state);
  return isLed || !stored?.lastElectionReason ? null : h("small", {}, " ", sentence(stored.lastElectionReason));
}

function lastAddresses({ away }) {
  return Object.entries(away?.brokerAddrs ?? {}).map(([id, address]) => h("li", {}, `${id} `, named(address)));
}

// Ids of the controller: a NameServer lists each master as 0.
function inSync({ syncStateSet, masterBrokerId }) {
  return syncStateSet.map((id) => (id === masterBrokerId ? `${id} (${t("role.master")})` : id)).join(", ");
}

function brokerLine(broker) {
  const role = broker.actingMaster ? "acting_master" : broker.role;
  return [
    badge(role === "master" ? "good" : role === "slave" ? "plain" : "fair", tOr(`role.${role}`, role)),
    ` ${broker.brokerId} `,
    h("a", { href: brokerAddress(broker.cluster, broker.brokerName, broker.brokerId) }, named(broker.address)),
    h("small", {}, ` ${broker.version} · ${t("heartbeat_ago", { time: duration(broker.lastHeartbeatAgeMs) })}`),
    broker.lacksTopics && [" ", badge("fair", t("broker.lacks_topics"))],
    broker.lostTopics > 0 && [" ", badge("bad", t("broker.lost_topics", { count: count(broker.lostTopics) }))],
  ];
}

const NAMESRV_STATES = { agrees: "good", differs: "fair", unreachable: "bad" };

function nameServerTable(rows, source) {
  return table(
    t("name_servers"),
    [
      { label: t("address"), cell: (row) => [named(row.peer.address), ownMark(row.peer)] },
      { label: t("state"), cell: (row) => badge(NAMESRV_STATES[row.state], t(`namesrv.${row.state}`)) },
      { label: t("brokers"), cell: (row) => count(row.brokers) },
      { label: t("details"), cell: (row) => [row.problem, row.peer === source?.peer ? t("namesrv.shown") : differences(row)] },
    ],
    rows,
    t("name_servers.none"),
  );
}

function differences({ missing, added }) {
  const part = (key, names) => {
    if (!names.length) return null;
    const more = names.length > DIFFERENCES_MAX ? ` ${t("and_more", { count: names.length - DIFFERENCES_MAX })}` : "";
    return h("div", {}, t(key), " ", named(names.slice(0, DIFFERENCES_MAX).join(", ")), more);
  };
  return [part("namesrv.missing", missing), part("namesrv.added", added)];
}

const CONTROLLER_STATES = { leader: "good", follower: "plain", member: "plain", candidate: "fair", unreachable: "bad" };

function controllerTable(rows) {
  const problem = leadership(rows);
  return [
    table(
      t("controllers"),
      [
        { label: t("address"), cell: (row) => named(row.address) },
        { label: t("role"), cell: (row) => badge(CONTROLLER_STATES[row.role] ?? "plain", tOr(`controller.${row.role}`, row.role)) },
        { label: "id", cell: (row) => named(row.id || "–") },
        { label: t("group"), cell: (row) => named(row.group || "–") },
        { label: t("details"), cell: (row) => row.problem },
      ],
      rows,
      t("controllers.none"),
    ),
    problem && h("p", { class: "problem", role: "alert" }, t(problem)),
  ];
}

function offsetTable(peers) {
  if (!peers.length) return null;
  return table(
    t("offset_managers"),
    [
      { label: t("address"), cell: (row) => named(row.address) },
      { label: t("state"), cell: (row) => badge(row.reachable ? "good" : "bad", t(row.reachable ? "reachable" : "unreachable")) },
      { label: t("details"), cell: (row) => row.problem },
    ],
    peers,
    "",
  );
}

function ownMark(peer) {
  return peer.isSelf ? h("small", {}, ` ${t("this_server")}`) : null;
}
