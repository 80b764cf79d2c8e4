// Times of day, always UTC: servers, logs and rmq history have them so.

const MINUTE_MS = 60_000;

/** Lengths of time that a user may look back, in ms, by the keys of their messages. */
export const SPANS = {
  "span.hour": 60 * MINUTE_MS,
  "span.six_hours": 360 * MINUTE_MS,
  "span.day": 24 * 60 * MINUTE_MS,
  "span.week": 7 * 24 * 60 * MINUTE_MS,
  "span.month": 31 * 24 * 60 * MINUTE_MS,
};

/** Returns a time as `2026-11-21 20:00:00 UTC`; a number that is no time, which a broker may have sent, as it is. */
export function utc(unixMs) {
  const time = new Date(unixMs);
  if (Number.isNaN(time.getTime())) return String(unixMs);
  return `${time.toISOString().slice(0, 19).replace("T", " ")} UTC`;
}

/** Returns a time as addresses and inputs of a page have it, `2026-11-21T20:00:00`. */
export function inputTime(unixMs) {
  return new Date(unixMs).toISOString().slice(0, 19);
}

/** Returns the Unix ms of such a text; null if it is none. */
export function unixMs(text) {
  const found = /^\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d(\.\d+)?)?Z?$/.test(text ?? "") ? Date.parse(`${text.replace("Z", "")}Z`) : NaN;
  return Number.isFinite(found) ? found : null;
}
