// One broker: its registrations at NameServers, its role, its share of the load, and its life.

import { badge, h, named, patch, table } from "../dom.js";
import { follow } from "../feed.js";
import { duration, count, t, tOr } from "../messages.js";
import { brokerAddress } from "../parts/addresses.js";
import { answerOf, answersOf, peersByKind } from "../parts/name_servers.js";
import { utc } from "../parts/times.js";
import { registrations, replicaOf, share } from "../broker_model.js";
import { awaySets } from "../overview_model.js";
import { showLife } from "./broker_life.js";

/** Shows the view of the broker in the address until the returned function is called. */
export function show(root, page) {
  const [cluster, name, id] = page.names;
  const broker = { cluster, name, id: Number(id) };
  const live = h("div", { id: "broker", "aria-busy": "true" }, h("p", {}, t("loading")));
  const life = h("section", { id: "life" });
  root.replaceChildren(h("h1", {}, t("broker.title"), " ", named(`${name}:${id}`), " ", h("small", {}, named(cluster))), live, life);
  const showedLife = showLife(life, broker, page.query);
  let drawn = null;
  const end = follow(
    () => load(broker),
    ({ value, error, ageMs, isOld }) => {
      page.fresh(error, value === null ? null : ageMs, isOld);
      if (value === null || value === drawn) return;
      drawn = value;
      patch(live, sections(broker, value));
      showedLife.update([...value.nameServers, ...value.controllers]);
    },
  );
  return () => {
    end();
    showedLife.end();
  };
}

async function load({ cluster, name }) {
  const of = await peersByKind();
  const [nameServers, controllers] = [of("namesrv"), of("controller")];
  const path = encodeURIComponent(name);
  const answers = await answersOf(nameServers, `brokers?limit=1000&brokerName=${path}`);
  const source = answers.find((each) => each.value?.items.length);
  const clusters = source ? await answerOf(source.peer, "clusters?limit=1000") : null;
  const set = source ? await answerOf(source.peer, `brokers/${path}`) : null;
  // Of all sets that begin with it, the set itself is the first.
  const stored = await answersOf(controllers, `broker-sets?limit=1&prefix=${path}`);
  const away = source ? [] : await answersOf(nameServers, "broker-sets/away?limit=1000");
  return {
    away: awaySets(away.map(({ value }) => ({ away: value?.items }))).find((each) => each.brokerName === name) ?? null,
    nameServers,
    controllers,
    answers,
    set: set?.value ?? null,
    cluster: clusters?.value?.items.find((each) => each.cluster === cluster) ?? null,
    storedSet: newest(stored, name),
  };
}

/** Returns the set as the controller knows it that has seen most of it: followers may be behind. */
function newest(answers, name) {
  const found = answers.flatMap(({ value }) => value?.brokerSets ?? []).filter((each) => each.brokerName === name);
  return found.sort((one, other) => other.masterEpoch - one.masterEpoch || other.syncStateSetEpoch - one.syncStateSetEpoch)[0] ?? null;
}

function sections(broker, value) {
  const rows = registrations(value.answers, broker.cluster, broker.id);
  const known = rows.find((each) => each.broker)?.broker ?? null;
  return h(
    "div",
    { id: "broker", "aria-busy": "false" },
    known === null && h("p", { class: "problem", role: "alert" }, absence(rows, value.away)),
    facts(broker, value, known),
    registrationTable(rows),
    value.set && otherBrokers(value.set, broker),
  );
}

function absence(rows, away) {
  if (away) return away.awaySinceUnixMs === null ? t("broker.starting") : t("broker.away", { time: utc(away.awaySinceUnixMs) });
  return t(rows.some((each) => each.state === "absent") ? "broker.absent" : "name_servers.unreachable");
}

function facts(broker, { set, cluster, storedSet, controllers }, known) {
  const replica = replicaOf(storedSet, known?.address);
  const rows = [
    known && [t("role"), roleBadge(known)],
    known && [t("address"), named(known.address)],
    known && [t("broker.version"), known.version],
    ...loadFacts(set, cluster, known),
    ...(storedSet ? storedFacts(storedSet, replica) : [[t("controllers"), t(controllers.length ? "broker.not_stored" : "broker.no_controller")]]),
  ];
  return h("section", {}, h("h2", {}, t("broker.facts")), h("dl", { class: "facts" }, rows.filter(Boolean).map(([term, text]) => [h("dt", {}, term), h("dd", {}, text)])));
}

function loadFacts(set, cluster, known) {
  if (!set || !known) return [];
  const serves = known.role === "master" || known.actingMaster;
  const of = (queues, all) => {
    const percent = share(queues, all);
    return percent === null ? count(queues) : t("broker.share", { queues: count(queues), percent: count(percent) });
  };
  return [
    [t("topics"), count(set.topics)],
    [t("write_queues"), serves ? of(set.writeQueues, cluster?.writeQueues ?? 0) : t("broker.slave_share", { queues: count(set.writeQueues) })],
    [t("read_queues"), of(set.readQueues, cluster?.readQueues ?? 0)],
    [t("broker.tps"), t("broker.tps_unknown")],
  ];
}

function storedFacts(storedSet, replica) {
  return [
    [t("master_epoch"), count(storedSet.masterEpoch)],
    ["SyncStateSet", storedSet.syncStateSet.join(", ")],
    replica && [t("broker.in_sync"), badge(replica.inSync ? "good" : "fair", t(replica.inSync ? "yes" : "no"))],
    replica && replica.maxOffset !== null && [t("broker.max_offset"), count(replica.maxOffset)],
    replica && replica.lastContactUnixMs !== null && [t("broker.last_contact"), utc(replica.lastContactUnixMs)],
  ];
}

function roleBadge(broker) {
  const role = broker.actingMaster ? "acting_master" : broker.role;
  return badge(role === "master" ? "good" : role === "slave" ? "plain" : "fair", tOr(`role.${role}`, role));
}

const STATES = { registered: "good", absent: "bad", unreachable: "bad" };

function registrationTable(rows) {
  return table(
    t("broker.registrations"),
    [
      { label: t("address"), cell: (row) => [named(row.peer.address), row.peer.isSelf ? h("small", {}, ` ${t("this_server")}`) : null] },
      { label: t("state"), cell: (row) => badge(STATES[row.state], t(`life.${row.state}`)) },
      { label: t("broker.heartbeat"), cell: (row) => (row.broker ? t("broker.ago", { time: duration(row.broker.lastHeartbeatAgeMs) }) : "–") },
      { label: t("broker.timeout"), cell: (row) => (row.broker ? duration(row.broker.heartbeatTimeoutMs) : "–") },
      { label: t("broker.data_version"), cell: (row) => (row.broker ? versionText(row.broker.dataVersion) : "–") },
      { label: t("details"), cell: (row) => row.problem },
    ],
    rows,
    t("name_servers.none"),
  );
}

function versionText({ counter, timestamp, stateVersion }) {
  return [`${count(counter)} `, h("small", {}, `${timestamp > 0 ? utc(timestamp) : "–"} · stateVersion ${stateVersion ?? 0}`)];
}

function otherBrokers(set, broker) {
  const others = set.brokers.filter((each) => each.brokerId !== broker.id);
  return table(
    t("broker.others"),
    [
      { label: "id", cell: (row) => h("a", { href: brokerAddress(row.cluster, row.brokerName, row.brokerId) }, String(row.brokerId)) },
      { label: t("role"), cell: roleBadge },
      { label: t("address"), cell: (row) => named(row.address) },
      { label: t("broker.heartbeat"), cell: (row) => t("broker.ago", { time: duration(row.lastHeartbeatAgeMs) }) },
    ],
    others,
    t("broker.alone"),
  );
}
