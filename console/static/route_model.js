// Routes as they are shown and compared; no request and no element here.

const READABLE = 4;
const WRITABLE = 2;

/** Returns one row for each broker set of a route, by name: its queues, permission and brokers. */
export function routeRows(route) {
  const brokers = new Map((route?.brokerDatas ?? []).map((data) => [data.brokerName, data]));
  const rows = (route?.queueDatas ?? []).map((queues) => {
    const data = brokers.get(queues.brokerName);
    return {
      name: queues.brokerName,
      cluster: data?.cluster ?? "",
      read: queues.readQueueNums,
      write: queues.writeQueueNums,
      perm: queues.perm,
      zone: data?.zoneName ?? "",
      addresses: Object.entries(data?.brokerAddrs ?? {}).map(([id, address]) => ({ id: Number(id), address })),
      canActAsMaster: data?.enableActingMaster ?? false,
    };
  });
  return rows.sort((one, other) => (one.name < other.name ? -1 : 1));
}

/** Returns what a client may do with one queue: `read_write`, `read`, `write`, `none`, or `absent` where it is not. */
export function queueState(row, id) {
  if (!row || id >= Math.max(row.read, row.write)) return "absent";
  const mayRead = id < row.read && (row.perm & READABLE) !== 0;
  const mayWrite = id < row.write && (row.perm & WRITABLE) !== 0;
  return mayRead ? (mayWrite ? "read_write" : "read") : mayWrite ? "write" : "none";
}

/** Returns a permission as RocketMQ's tools write it: `RW-`. */
export function permText(perm) {
  return `${perm & READABLE ? "R" : "-"}${perm & WRITABLE ? "W" : "-"}${perm & 1 ? "X" : "-"}`;
}

/**
 * Returns the broker sets of two routes, by name: `{name, former, present, change}` with rows of `routeRows`, one null where
 * only the other route has it; `change` is `added`, `removed`, `changed` or `same`.
 */
export function pairedRows(former, present) {
  const pairs = new Map(routeRows(former).map((row) => [row.name, { name: row.name, former: row, present: null }]));
  for (const row of routeRows(present)) pairs.set(row.name, { name: row.name, former: null, ...pairs.get(row.name), present: row });
  return [...pairs.values()]
    .sort((one, other) => (one.name < other.name ? -1 : 1))
    .map((pair) => ({ ...pair, change: changeOf(pair) }));
}

function changeOf({ former, present }) {
  if (former === null) return "added";
  if (present === null) return "removed";
  return JSON.stringify(former) === JSON.stringify(present) ? "same" : "changed";
}

/** Returns how a queue differs: `added`, `removed`, `changed` or `same`. */
export function queueChange(pair, id) {
  const [before, after] = [queueState(pair.former, id), queueState(pair.present, id)];
  if (before === after) return "same";
  if (before === "absent") return "added";
  return after === "absent" ? "removed" : "changed";
}

/** Returns the differences of two routes: `{change, what, name, before, after}`; `what` is the key of a message. */
export function differences(former, present) {
  const found = [];
  const note = (what, name, before, after) => {
    if (before === after) return;
    const change = before === "" ? "added" : after === "" ? "removed" : "changed";
    found.push({ change, what, name, before, after });
  };
  for (const { name, former: one, present: other } of pairedRows(former, present)) {
    note("diff.read_queues", name, count(one?.read), count(other?.read));
    note("diff.write_queues", name, count(one?.write), count(other?.write));
    note("diff.perm", name, one ? permText(one.perm) : "", other ? permText(other.perm) : "");
    note("diff.zone", name, one?.zone ?? "", other?.zone ?? "");
    const [before, after] = [addressesById(one), addressesById(other)];
    for (const id of new Set([...before.keys(), ...after.keys()])) {
      note("diff.broker", `${name}:${id}`, before.get(id) ?? "", after.get(id) ?? "");
    }
  }
  note("diff.order", "", former?.orderTopicConf ?? "", present?.orderTopicConf ?? "");
  const mapping = (route) => (route?.topicQueueMappingByBroker ? JSON.stringify(sorted(route.topicQueueMappingByBroker)) : "");
  note("diff.mapping", "", mapping(former), mapping(present));
  return found;
}

const count = (number) => (number === undefined ? "" : String(number));
const addressesById = (row) => new Map((row?.addresses ?? []).map(({ id, address }) => [id, address]));

function sorted(value) {
  if (Array.isArray(value)) return value.map(sorted);
  if (value === null || typeof value !== "object") return value;
  return Object.fromEntries(Object.keys(value).sort().map((key) => [key, sorted(value[key])]));
}

/**
 * Returns one row for each NameServer: `agrees`, `differs` with the differences, `absent` (it has no route), `unreachable`.
 * They are compared with the first that has a route.
 */
export function agreement(answers) {
  const shown = answers.find((each) => each.value);
  return answers.map(({ peer, value, problem, isAbsent }) => {
    if (isAbsent) return { peer, problem: "", state: "absent", differences: [] };
    if (!value) return { peer, problem, state: "unreachable", differences: [] };
    const found = differences(shown.value, value);
    return { peer, problem: "", state: found.length ? "differs" : "agrees", differences: found };
  });
}

/** Returns the routes of the past that several servers have, by NameServer; the one without a doubt counts. */
export function pastRoutes(answers) {
  const found = new Map();
  for (const { value } of answers) {
    for (const item of value?.items ?? []) {
      const known = found.get(item.nsId);
      if (!known || (known.doubt && !item.doubt)) found.set(item.nsId, item);
    }
  }
  return [...found.values()].sort((one, other) => (one.nsId < other.nsId ? -1 : 1));
}

/** Returns the moments of changes that several servers have, each once, in the order of time. */
export function changeMoments(answers) {
  const found = new Set(answers.flatMap(({ value }) => (value?.items ?? []).map((each) => each.unixMs)));
  return [...found].sort((one, other) => one - other);
}
