// What the view of analyses shows of a result: which rows and columns are drawn, and which are listed; no request and no element.

// Things in one figure, and rows in the table below it.
export const FIGURE_MAX = 20;
export const ROWS_MAX = 200;

// Of each analysis: its rows that are drawn (`kind`), what names them, and either one `value` with its unit, `parts` that follow
// each other, or a `start` and an `end`.
const BROKER = ["broker_name", "broker_id"];
const FIGURES = {
  availability: { names: BROKER, value: "unplanned_s", unit: "s" },
  heartbeat_gaps: { names: BROKER, value: "p99_ms", unit: "ms" },
  flapping: { names: BROKER, value: "peak", unit: "" },
  detection_delay: { names: ["source", "reason", "cluster"], value: "p95_ms", unit: "ms" },
  timeout_recommendation: { names: BROKER, value: "recommended_timeout_s", unit: "s" },
  divergence: { names: BROKER, start: "start_time", end: "end_time" },
  route_churn: { names: ["topic"], value: "changes", unit: "" },
  queue_balance: { kind: "broker", names: ["broker_name"], value: "queues", unit: "" },
  queue_scaling: { kind: "topic", names: ["topic"], value: "queues_proposed", unit: "" },
  failover_timeline: { kind: "failover", names: ["failover_id"], parts: ["detect_s", "start_s", "elect_s", "register_s", "spread_s"], unit: "s" },
  restart_storms: { names: ["cluster", "cause"], start: "start", end: "end" },
  capacity: { names: ["source", "resource"], value: "days_left", unit: "d" },
  anomalies: { names: [...BROKER, "metric"], start: "start", end: "end" },
  correlated_failures: { names: ["broker_a", "broker_b"], value: "jaccard", unit: "" },
  resizes: { kind: "operation", names: ["topic"], start: "created", end: "ended" },
  read_again: { kind: "group", names: ["group", "topic"], value: "messages_again", unit: "" },
};

// They are the same in all rows of a table.
const OF_THE_RUN = ["run_id", "window_start", "window_end", "kind"];
const NAMES = ["broker_name", "broker_id", "topic", "group", "failover_id", "phase"];

/** Returns the figure of a result: {form: "bars" | "lanes" | "parts", unit, items}, null if none is drawn or no row has a value. */
export function figureOf(name, rows, windowEnd) {
  const figure = FIGURES[name];
  if (!figure) return null;
  const drawn = rows.filter((row) => !figure.kind || row.kind === figure.kind);
  const items = drawn.map((row) => itemOf(figure, row, windowEnd)).filter((item) => item !== null);
  if (!items.length) return null;
  const form = figure.value ? "bars" : figure.parts ? "parts" : "lanes";
  // Rows come with those first that matter most; of values, the largest do.
  if (form === "bars") items.sort((one, other) => other.value - one.value);
  return { form, unit: figure.unit ?? "", parts: figure.parts ?? [], items: items.slice(0, FIGURE_MAX), total: items.length };
}

function itemOf(figure, row, windowEnd) {
  const label = figure.names.map((each) => row[each]).filter((each) => each !== null && each !== undefined).join(" ");
  if (figure.value) return typeof row[figure.value] === "number" ? { label, value: row[figure.value] } : null;
  if (figure.parts) {
    const known = figure.parts.filter((each) => typeof row[each] === "number");
    const values = figure.parts.map((each) => (known.includes(each) ? Math.max(0, row[each]) : 0));
    const value = values.reduce((sum, each) => sum + each, 0);
    // Of a sum without some of its parts only the least is known.
    return known.length ? { label, value, values, isLeast: known.length < values.length } : null;
  }
  const start = Date.parse(row[figure.start]);
  // What has not ended lasts until the end of the window.
  const end = Date.parse(row[figure.end] ?? windowEnd);
  return Number.isNaN(start) || Number.isNaN(end) ? null : { label, start, end };
}

/** Returns the rows of each kind, [kind, rows], in the order in which they come; of results without kinds one with null. */
export function kindsOf(rows) {
  const kinds = new Map();
  for (const row of rows) {
    const kind = row.kind ?? null;
    if (!kinds.has(kind)) kinds.set(kind, []);
    kinds.get(kind).push(row);
  }
  return [...kinds];
}

/** Returns the columns of a table: those in which any of the rows has a value, names before others. */
export function columnsOf(columns, rows) {
  const used = columns.filter(({ name }) => !OF_THE_RUN.includes(name) && rows.some((row) => hasValue(row[name])));
  const isName = ({ name }) => NAMES.includes(name);
  return [...used.filter(isName), ...used.filter((each) => !isName(each))];
}

function hasValue(value) {
  return value !== null && value !== undefined && !(Array.isArray(value) && !value.length);
}

/** Returns the clusters that rows name, in their order. */
export function clustersOf(rows) {
  return [...new Set(rows.map((row) => row.cluster).filter(Boolean))].sort();
}

/** Returns a time of an address or a field (UTC, to the minute) as requests take it; "" for none and for what is no time. */
export function requestTime(text) {
  const ms = text ? Date.parse(text.endsWith("Z") ? text : `${text}Z`) : NaN;
  return Number.isNaN(ms) ? "" : new Date(ms).toISOString();
}
