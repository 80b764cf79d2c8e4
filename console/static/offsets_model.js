// What the view of offsets shows, from what an offset manager answered; no request and no element here.

/** Causes that nobody wanted: docs/offsets.md, the mirror. */
const UNWANTED = new Set(["role_change", "restart", "disk_replaced"]);

/** Statuses of a queue that is written, and those after which somebody has to look. */
const WRITTEN = new Set(["ready", "restored", "unchanged"]);
const LEFT = new Set(["backward", "moved_on", "not_restorable", "no_queue"]);

/** Returns the manager that leads among the answers of all; the first that answers where none does. */
export function serving(answers) {
  return answers.find((each) => each.value?.role === "leading") ?? answers.find((each) => each.value !== null) ?? null;
}

/** Returns the colour of a cause of a regression. */
export const kindOfCause = (cause) =>
  UNWANTED.has(cause) ? "bad" : ["rewind", "deleted", "guard_or_rewind"].includes(cause) ? "fair" : "plain";

/** Returns the colour of what becomes of a queue. */
export const kindOfStatus = (status) => (WRITTEN.has(status) ? "good" : LEFT.has(status) ? "plain" : "fair");

/** Returns the colour of how a run of the guard has ended. */
export const kindOfRun = (result) => ({ complete: "good", ended: "plain" })[result] ?? "bad";

/** Returns the regressions of groups and topics with a text in their names. */
export function matching(regressions, text) {
  const wanted = text.toLowerCase();
  return regressions.filter((each) =>
    [each.group, each.topic, each.brokerName].some((name) => name.toLowerCase().includes(wanted)),
  );
}

/**
 * Returns the scope and the moment of a restore that puts a regression right: the former master's offsets where the master has
 * changed or started again, else those of the last reading before.
 */
export function restoreOf({ cluster, group, topic, brokerName, cause, before }) {
  return { cluster, group, topic, brokerName, moment: UNWANTED.has(cause) ? "former" : before.readUnixMs, allowBack: false };
}

/**
 * Returns the body of a restore from the values of its form. What is blank is not narrowed; the moment is `former`, or a local
 * date and time, which `unixMs` (of a regression, to the millisecond) takes the place of where it was not changed.
 */
export function restoreBody(values) {
  const scope = Object.entries({
    cluster: values.cluster,
    group: values.group,
    topic: values.topic,
    brokerName: values.brokerName,
  });
  const named = scope.map(([name, text]) => [name, text.trim()]).filter(([, text]) => text);
  const isChanged = values.time !== values.suggestedTime;
  const moment =
    values.how === "former" ? "former" : isChanged ? new Date(values.time).getTime() : Number(values.suggestedUnixMs);
  return {
    ...Object.fromEntries(named),
    writer: values.writer,
    moment,
    allowBack: values.allowBack,
    allowUnproved: values.allowUnproved,
    pulls: values.pulls,
  };
}

/** Returns a moment, Unix ms, as an input of date and time has it: local time, to the second. */
export function localTime(unixMs) {
  const date = new Date(unixMs);
  return new Date(unixMs - date.getTimezoneOffset() * 60_000).toISOString().slice(0, 19);
}

/**
 * Returns what a restore or an undo does in all: how many queues are written, messages read again and not read where they are
 * known, and `unknown`, the number of written queues of which they are not.
 */
export function totalsOf({ queues }) {
  const written = queues.filter((each) => each.status === "ready" || each.status === "restored");
  const sum = (name) => written.reduce((total, each) => total + (each[name] ?? 0), 0);
  return {
    written: written.length,
    left: queues.length - written.length,
    again: sum("messagesAgain"),
    skipped: sum("messagesSkipped"),
    unknown: written.filter((each) => each.messagesAgain === null || each.messagesSkipped === null).length,
  };
}

/** Returns queues with those first that need somebody: in a result of thousands they would not be seen. */
export function byUrgency(queues) {
  const rank = { fair: 0, good: 1, plain: 2 };
  return [...queues].sort((one, other) => rank[kindOfStatus(one.status)] - rank[kindOfStatus(other.status)]);
}

/** Returns the lag of each topic: {topic, lag, unknown, queues}, the largest first; `lag` is null if that of no queue is known. */
export function lagByTopic(queues) {
  const topics = new Map();
  for (const each of queues) {
    const row = topics.get(each.topic) ?? { topic: each.topic, lag: null, unknown: 0, queues: 0 };
    row.queues += 1;
    if (each.lag === "unknown") row.unknown += 1;
    else row.lag = (row.lag ?? 0) + each.lag;
    topics.set(each.topic, row);
  }
  return [...topics.values()].sort((one, other) => (other.lag ?? -1) - (one.lag ?? -1));
}
