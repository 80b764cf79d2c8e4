// Elements of pictures. Colours come from the style sheet by class: the Content-Security-Policy lets no style in.

import { printable } from "../dom.js";

const NAMESPACE = "http://www.w3.org/2000/svg";

/** Returns an SVG element; attributes that are null are left out, children are nodes, texts and lists of them. */
export function s(tag, attributes = {}, ...children) {
  const element = document.createElementNS(NAMESPACE, tag);
  for (const [name, value] of Object.entries(attributes)) if (value !== null) element.setAttribute(name, value);
  for (const child of children.flat(Infinity)) {
    if (child !== null && child !== undefined) element.append(child instanceof Node ? child : printable(child));
  }
  return element;
}

/** Returns a picture with its text alternative; what it shows is also in a table beside it. */
export function picture(width, height, alternative, ...children) {
  const size = { width, height, viewBox: `0 0 ${width} ${height}` };
  return s("svg", { ...size, role: "img", "aria-label": printable(alternative), class: "picture" }, children);
}

/** Returns the first characters of a text that would be too wide. */
export function cut(text, charactersMax) {
  const characters = [...printable(text)];
  return characters.length > charactersMax ? `${characters.slice(0, charactersMax - 1).join("")}…` : characters.join("");
}
