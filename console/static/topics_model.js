// The list of topics, filtered; no request and no element here.

/** Kinds of topics, as the NameServer names them. */
export const KINDS = ["normal", "system", "retry", "dlq"];

/** Returns topics whose names contain a text, whatever its case, and that are of a kind; blank for any. */
export function filtered(topics, text, kind) {
  const wanted = text.toLowerCase();
  return topics.filter((each) => (!kind || each.kind === kind) && (!wanted || each.topic.toLowerCase().includes(wanted)));
}

/** Returns one page of a list: `{items, page, pages}`; a page that there is not becomes the last one. */
export function pageOf(list, page, size) {
  const pages = Math.max(1, Math.ceil(list.length / size));
  const shown = Math.min(Math.max(page, 1), pages);
  return { items: list.slice((shown - 1) * size, shown * size), page: shown, pages };
}
