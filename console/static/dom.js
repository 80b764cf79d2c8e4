// Elements from values. Whatever comes from a server becomes text: nothing here takes markup.

// Control characters, and marks that change the direction or are not seen, could make one name look like another.
const HIDDEN = /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}]/gu;

/** Returns a text with what cannot be seen written as \uNNNN, or \UNNNNNNNN. */
export function printable(text) {
  return String(text).replace(HIDDEN, (each) => {
    const code = each.codePointAt(0);
    return code <= 0xffff ? `\\u${code.toString(16).padStart(4, "0")}` : `\\U${code.toString(16).padStart(8, "0")}`;
  });
}

/**
 * Returns an element. Attributes that are false or null are left out, true ones have no value, and those whose names begin
 * with "on" are listeners. Children are nodes, texts and lists of them.
 */
export function h(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  element.listeners = {};
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) {
      element.listeners[name] = value;
      element[name.toLowerCase()] = value;
    } else if (value !== false && value !== null && value !== undefined) {
      element.setAttribute(name, value === true ? "" : value);
    }
  }
  for (const child of children.flat(Infinity)) {
    if (child !== null && child !== undefined && child !== false) {
      element.append(child instanceof Node ? child : printable(child));
    }
  }
  return element;
}

/** Returns a name in an element of its own: letters that are written from right to left move nothing beside it. */
export function named(text) {
  return h("bdi", {}, text);
}

/** Returns a text that stays on one line where there is room for it, such as a time. */
export function whole(text) {
  return h("span", { class: "whole" }, text);
}

/** Returns a sentence of a server, which is English in any language of the page; null if it is blank. */
export function sentence(text) {
  if (!text) return null;
  return h("span", { lang: "en", class: "sentence" }, text);
}

/**
 * Changes a tree into another one in place, so that focus, selection and scroll positions stay. Children with a `data-key` stay
 * what they are when others come, go or change places: a button that has the focus never becomes that of another row.
 */
export function patch(old, wanted) {
  const focused = document.activeElement;
  change(old, wanted);
  // Browsers take the focus from what is moved.
  if (focused !== document.activeElement && old.contains(focused)) focused.focus({ preventScroll: true });
}

function change(old, wanted) {
  if (old.nodeType !== wanted.nodeType || old.nodeName !== wanted.nodeName) {
    old.replaceWith(wanted);
    return;
  }
  if (old.nodeType === Node.TEXT_NODE) {
    if (old.data !== wanted.data) old.data = wanted.data;
    return;
  }
  for (const { name } of [...old.attributes]) {
    // The user opens and closes details.
    if (!wanted.hasAttribute(name) && name !== "open") old.removeAttribute(name);
  }
  for (const { name, value } of wanted.attributes) if (old.getAttribute(name) !== value) old.setAttribute(name, value);
  for (const name of Object.keys(wanted.listeners ?? {})) old[name.toLowerCase()] = wanted.listeners[name];
  changeChildren(old, [...wanted.childNodes]);
}

const keyOf = (node) => node.dataset?.key;

function changeChildren(parent, wanted) {
  const keys = new Set(wanted.map(keyOf));
  for (const child of [...parent.childNodes]) if (keyOf(child) !== undefined && !keys.has(keyOf(child))) child.remove();
  const keyed = new Map([...parent.childNodes].filter(keyOf).map((child) => [keyOf(child), child]));
  // Whatever stands before it is done.
  let next = parent.firstChild;
  for (const child of wanted) {
    const found = keyOf(child) === undefined ? unkeyed(next) : keyed.get(keyOf(child));
    if (!found) {
      parent.insertBefore(child, next);
      continue;
    }
    keyed.delete(keyOf(child));
    if (found === next) next = next.nextSibling;
    else parent.insertBefore(found, next);
    change(found, child);
  }
  while (next) {
    const following = next.nextSibling;
    next.remove();
    next = following;
  }
}

const unkeyed = (node) => (node && keyOf(node) === undefined ? node : null);

/**
 * Returns a table. A column is {label, cell}; `cell` makes the content of a row's cell; the first cell names the row. `nameOf`
 * names it where the first cell does not alone.
 */
export function table(caption, columns, rows, none, nameOf = null) {
  const head = h("tr", {}, columns.map(({ label }) => h("th", { scope: "col" }, label)));
  const cells = (row) =>
    columns.map(({ label, cell }, index) =>
      h(index ? "td" : "th", index ? { "data-label": label } : { scope: "row", "data-label": label }, h("div", {}, cell(row))),
    );
  const times = new Map();
  const line = (row) => {
    const made = h("tr", {}, cells(row));
    const name = nameOf === null ? made.firstChild.textContent : nameOf(row);
    const before = times.get(name) ?? 0;
    times.set(name, before + 1);
    made.dataset.key = JSON.stringify([name, before]);
    return made;
  };
  return h(
    "div",
    { class: "table", tabindex: "0", role: "region", "aria-label": caption, "data-key": caption },
    h(
      "table",
      {},
      h("caption", {}, caption),
      h("thead", {}, head),
      h("tbody", {}, rows.length ? rows.map(line) : h("tr", {}, h("td", { colspan: columns.length }, none))),
    ),
  );
}

/** Returns a picture that scrolls sideways where it is wider than the page; keys scroll it too. */
export function scrolling(label, drawn) {
  return h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": label }, drawn);
}

/** Returns a word with a colour; the word alone says what it means. */
export function badge(kind, text) {
  return h("span", { class: `badge ${kind}` }, text);
}
