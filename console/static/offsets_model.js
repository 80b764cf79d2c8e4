// What the view of offsets shows, from what an offset manager answered; no request and no element here.

/** Causes of jumps that nobody wanted. */
const UNWANTED = new Set(["failover", "restart", "lost"]);

/** Colours of statuses of a queue in a restore, and of its outcomes in a repair. */
const STATUSES = {
  done: "good",
  pushed: "good",
  "set back": "good",
  "would change": "good",
  "right already": "plain",
  "not proved": "fair",
  failed: "bad",
};

/** Returns the manager that leads among the answers of all; the first that answers where none does. */
export function serving(answers) {
  return answers.find(({ value }) => value?.role === "leading") ?? answers.find(({ value }) => value !== null) ?? null;
}

/** Returns the colour of a cause of a jump. */
export const kindOfCause = (cause) => (UNWANTED.has(cause) ? "bad" : "fair");

/** Returns the colour of what becomes of a queue. */
export const kindOfStatus = (status) => STATUSES[status] ?? "fair";

/** Returns what a run of a repair waits for: `open` for an operator, `left` if something could not be decided, else `done`. */
export function stateOfRun({ counts, problem }) {
  if (counts["would change"]) return "open";
  return problem || counts["not proved"] || counts.failed ? "left" : "done";
}

/** Returns the colour of a run of a repair. */
export const kindOfRun = (run) => ({ open: "bad", left: "fair", done: "good" })[stateOfRun(run)];

/** Returns the jumps of groups and topics with a text in their names. */
export function matching(jumps, text) {
  const wanted = text.toLowerCase();
  return jumps.filter(({ group, topic, brokerName }) => [group, topic, brokerName].some((name) => name.toLowerCase().includes(wanted)));
}

/**
 * Returns the scope and the moment of a restore that puts a jump right: the former master's offsets where the master has changed
 * or started again, else those of the reading before. What jumped forward has to go back.
 */
export function restoreOf({ cluster, group, topic, brokerName, cause, unixMs, intervalMs, messagesSkipped }) {
  const moment = UNWANTED.has(cause) ? "former" : unixMs - intervalMs;
  return { cluster, group, topic, brokerName, moment, allowBack: messagesSkipped > 0, overResets: !UNWANTED.has(cause) };
}

/**
 * Returns the body of a restore from the values of its form. What is blank is not narrowed; the moment is `former`, or a local
 * date and time, which `unixMs` (of a jump, to the millisecond) takes the place of where it was not changed.
 */
export function restoreBody(values) {
  const scope = Object.entries({
    cluster: values.cluster,
    group: values.group,
    topic: values.topic,
    brokerName: values.brokerName,
  });
  const named = scope.map(([name, text]) => [name, text.trim()]).filter(([, text]) => text);
  // A browser leaves the seconds out of a full minute.
  const time = Date.parse(values.time);
  const isChanged = time !== Date.parse(values.suggestedTime);
  const moment = values.how === "former" ? "former" : isChanged ? time : Number(values.suggestedUnixMs);
  return {
    ...Object.fromEntries(named),
    writer: values.writer,
    moment,
    allowBack: values.allowBack,
    allowUnproved: values.allowUnproved,
    overResets: values.overResets,
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
  const written = queues.filter(({ status }) => status === "would change" || status === "done");
  const sum = (name) => written.reduce((total, queue) => total + (queue[name] ?? 0), 0);
  return {
    written: written.length,
    left: queues.length - written.length,
    again: sum("messagesAgain"),
    skipped: sum("messagesNever"),
    unknown: written.filter((queue) => queue.messagesAgain === null || queue.messagesNever === null).length,
  };
}

/** Returns queues with those first that need somebody: in a result of thousands they would not be seen. */
export function byUrgency(queues) {
  const rank = { bad: 0, fair: 1, good: 2, plain: 3 };
  return [...queues].sort((one, other) => rank[kindOfStatus(one.status)] - rank[kindOfStatus(other.status)]);
}

/** Returns the lag of each topic: {topic, lag, unknown, queues}, the largest first; `lag` is null if that of no queue is known. */
export function lagByTopic(queues) {
  const topics = new Map();
  for (const { topic, lag } of queues) {
    const row = topics.get(topic) ?? { topic, lag: null, unknown: 0, queues: 0 };
    row.queues += 1;
    if (lag === "unknown") row.unknown += 1;
    else row.lag = (row.lag ?? 0) + lag;
    topics.set(topic, row);
  }
  return [...topics.values()].sort((one, other) => (other.lag ?? -1) - (one.lag ?? -1));
}
