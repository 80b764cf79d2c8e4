// The words of the page: English and Chinese, chosen by the user or by the browser.

const LANGUAGES = { en: "English", zh: "中文" };
const STORED = "rmq-console-language";

// Each as long as it is shorter than so many ms.
const UNITS = [
  [1000, "second", 120_000],
  [60_000, "minute", 120 * 60_000],
  [3_600_000, "hour", 48 * 3_600_000],
  [24 * 3_600_000, "day", Infinity],
];

let words = {};

/** Returns the languages by their codes. */
export const languages = () => LANGUAGES;

/** Returns the code of the language in use. */
export function language() {
  const stored = localStorage.getItem(STORED);
  if (stored in LANGUAGES) return stored;
  return navigator.languages.some((each) => each.toLowerCase().startsWith("zh")) ? "zh" : "en";
}

/** Loads the words of a language and keeps the choice. */
export async function useLanguage(code, isChoice = false) {
  if (isChoice) localStorage.setItem(STORED, code);
  const answer = await fetch(new URL(`messages.${code}.json`, import.meta.url));
  words = await answer.json();
  document.documentElement.lang = code;
}

/** Returns a message; {name} in it becomes the value of that name. */
export function t(key, values = {}) {
  const message = words[key];
  if (message === undefined) throw new Error(`No message ${key}`);
  return message.replace(/\{(\w+)\}/g, (_, name) => String(values[name]));
}

/** Returns the message of a value of a server, and the value itself where a later release has one without a message. */
export function tOr(key, value) {
  return key in words ? t(key) : value;
}

/** Returns the name of the time zone of the user. */
export const zone = () => new Intl.DateTimeFormat().resolvedOptions().timeZone;

// Year first: who reads 11/12/26 may take it for December or for November.
const MOMENT = { year: "numeric", hourCycle: "h23", timeZoneName: "short" };
for (const part of ["month", "day", "hour", "minute", "second"]) MOMENT[part] = "2-digit";

/** Returns a moment, Unix ms, as `2026-11-21 20:00:00 UTC`, in the zone of the user. */
export function moment(unixMs) {
  if (unixMs === null || unixMs === undefined) return "–";
  const parts = new Intl.DateTimeFormat("en", MOMENT).formatToParts(unixMs);
  const { year, month, day, hour, minute, second, timeZoneName } = Object.fromEntries(parts.map(({ type, value }) => [type, value]));
  return `${year}-${month}-${day} ${hour}:${minute}:${second} ${timeZoneName}`;
}

/** Returns a number with its digits in groups; – for null. */
export function count(value) {
  return value === null || value === undefined ? "–" : new Intl.NumberFormat(document.documentElement.lang).format(value);
}

/** Returns a duration of which parts of a second matter. */
export function shortTime(ms) {
  if (ms < 1000 || ms >= 120_000) return duration(ms);
  const style = { style: "unit", unit: "second", unitDisplay: "short", maximumFractionDigits: 1 };
  return new Intl.NumberFormat(document.documentElement.lang, style).format(ms / 1000);
}

/** Returns a duration in the shortest usual form. */
export function duration(ms) {
  if (ms === null || ms === undefined) return "–";
  const [divisor, unit] = ms > 0 && ms < 1000 ? [1, "millisecond"] : UNITS.find(([, , most]) => ms < most);
  const style = { style: "unit", unit, unitDisplay: "short", maximumFractionDigits: 0 };
  return new Intl.NumberFormat(document.documentElement.lang, style).format(ms / divisor);
}
