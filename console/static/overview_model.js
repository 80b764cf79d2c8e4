// What the overview shows, from what servers answered; no request and no element here.

/**
 * Returns one row for each NameServer. It agrees if it lists the same brokers as the one whose picture is shown, which is the
 * first that answered; `missing` and `added` are brokers that it lacks or lists beside those.
 */
export function nameServers(answers) {
  const shown = answers.find((each) => each.brokers);
  const expected = shown && new Set(shown.brokers.map(brokerKey));
  return answers.map(({ peer, brokers, problem }) => {
    if (!brokers) return { peer, problem, state: "unreachable", brokers: null, missing: [], added: [] };
    const present = new Set(brokers.map(brokerKey));
    const missing = [...expected].filter((key) => !present.has(key)).map(brokerText);
    const added = [...present].filter((key) => !expected.has(key)).map(brokerText);
    const state = missing.length || added.length ? "differs" : "agrees";
    return { peer, problem: "", state, brokers: brokers.length, missing, added };
  });
}

/**
 * Returns one row for each controller: those of consolePeers, and members of their groups that are none of them. `role` is what
 * a controller answers of itself, and what the others answer of it where it does not answer.
 */
export function controllers(answers) {
  const rows = answers.map(({ peer, group, problem }) => ({
    address: peer.address,
    id: group?.members.find((each) => each.isSelf)?.id ?? "",
    group: group?.group ?? "",
    role: group?.role ?? "unreachable",
    leader: group ? group.leaderId : null,
    problem,
  }));
  const known = new Set(rows.map((row) => row.id));
  for (const { group } of answers) {
    for (const member of group?.members ?? []) {
      if (known.has(member.id)) continue;
      known.add(member.id);
      const role = member.isLeader ? "leader" : "member";
      rows.push({ address: member.address, id: member.id, group: group.group, role, leader: group.leaderId, problem: "" });
    }
  }
  return rows;
}

/** Returns the problem of the controllers as a key of a message, null if there is none or no controller is known. */
export function leadership(rows) {
  const answering = rows.filter((row) => ["leader", "follower", "candidate"].includes(row.role));
  if (!answering.length) return null;
  const leaders = new Set(answering.map((row) => row.leader));
  if (leaders.size > 1) return "controllers.disagree";
  return leaders.has(null) ? "controllers.no_leader" : null;
}

/** Returns the sets that a NameServer remembers and none lists now, each as the NameServer tells it that lost it last. */
export function awaySets(answers) {
  const listed = new Set(answers.flatMap(({ brokers }) => brokers ?? []).map((each) => each.brokerName));
  const found = new Map();
  for (const each of answers.flatMap(({ away }) => away ?? [])) {
    const known = found.get(each.brokerName);
    const isLater = !known || known.awaySinceUnixMs < each.awaySinceUnixMs;
    if (isLater && !listed.has(each.brokerName)) found.set(each.brokerName, each);
  }
  return [...found.values()];
}

/**
 * Returns one row for each broker set: its brokers as the NameServer lists them (null: none answers), and what the controller
 * knows of it (null without a controller, or for a set that it does not have). Sets that only the controller knows, and those
 * away, have no brokers.
 */
export function brokerSets(brokers, storedSets, away = []) {
  const sets = new Map();
  const rowOf = ({ brokerName, cluster }) => {
    if (!sets.has(brokerName)) sets.set(brokerName, { name: brokerName, cluster, brokers: [], stored: null, away: null });
    return sets.get(brokerName);
  };
  for (const broker of brokers ?? []) rowOf(broker).brokers.push(broker);
  for (const stored of storedSets ?? []) rowOf(stored).stored = stored;
  for (const each of away) rowOf(each).away = each;
  const rows = [...sets.values()].map((row) => ({ ...row, state: brokers === null ? storedState(row) : stateOf(row) }));
  const order = new Intl.Collator("en", { numeric: true });
  return rows.sort((one, other) => order.compare(one.cluster, other.cluster) || order.compare(one.name, other.name));
}

function stateOf({ brokers, stored, away }) {
  if (!brokers.length) return away ? (away.awaySinceUnixMs === null ? "starting" : "away") : "absent";
  if (brokers.some((each) => each.actingMaster)) return "acting_master";
  if (!brokers.some((each) => each.role === "master")) return "no_master";
  // NameServers list a broker that failed until its heartbeats expire.
  return storedState({ stored });
}

function storedState({ stored }) {
  if (stored?.state === "no_master") return "not_led";
  return stored?.state === "under_replicated" ? "under_replicated" : "master";
}

const brokerKey = (broker) => JSON.stringify([broker.cluster, broker.brokerName, broker.brokerId, broker.address]);

function brokerText(key) {
  const [, name, id, address] = JSON.parse(key);
  return `${name}:${id} ${address}`;
}
