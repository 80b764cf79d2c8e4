// The frame around every view: its address, languages, the session, and how old the picture is.

import { request } from "./api.js";
import { h, printable } from "./dom.js";
import { duration, language, languages, t, useLanguage } from "./messages.js";

// Each view has an address of its own; its module is loaded when it is opened first.
const VIEWS = {
  "#/": { title: "overview.title", load: () => import("./views/overview.js") },
  "#/topics": { title: "topics", load: () => import("./views/topics.js") },
  "#/topic/": { title: "topic.title", load: () => import("./views/topic.js"), isHidden: true, within: "#/topics" },
  "#/broker/": { title: "broker.title", load: () => import("./views/broker.js"), isHidden: true, within: "#/" },
  "#/elections": { title: "elections.title", load: () => import("./views/elections.js") },
  "#/elections/": { title: "elections.title", load: () => import("./views/elections.js"), isHidden: true, within: "#/elections" },
  "#/scaling": { title: "scaling.title", load: () => import("./views/scaling.js") },
  "#/scaling/": { title: "scaling.title", load: () => import("./views/scaling.js"), isHidden: true, within: "#/scaling" },
  "#/offsets": { title: "offsets.title", load: () => import("./views/offsets.js") },
  "#/offsets/": { title: "offsets.title", load: () => import("./views/offsets.js"), isHidden: true, within: "#/offsets" },
  "#/analyses": { title: "analyses.title", load: () => import("./views/analyses.js") },
  "#/sign-in": { title: "sign_in.title", load: () => import("./views/sign_in.js"), isHidden: true },
};
const HOME = "#/";
const SIGN_IN = "#/sign-in";

/** Returns where an address leads: the view, the names in its path, and its query. */
function destination(hash) {
  const [path, query = ""] = hash.split("?");
  if (path in VIEWS) return { address: path, names: [], query: new URLSearchParams(query) };
  const address = Object.keys(VIEWS).find((each) => each !== HOME && each.endsWith("/") && path.startsWith(each)) ?? HOME;
  const names = address === HOME ? [] : path.slice(address.length).split("/").map(decoded);
  return { address, names, query: new URLSearchParams(query) };
}

function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

class Page {
  constructor(session) {
    this.session = session;
    this.end = () => {};
    // Where a sign-in goes on.
    this.last = HOME;
  }

  /** Draws the frame and the view of the present address. */
  async draw() {
    this.end();
    this.end = () => {};
    const { address, names, query } = destination(this.session.mayRead ? location.hash : SIGN_IN);
    const view = VIEWS[address];
    /** What the address names, and its query. */
    this.names = names;
    this.query = query;
    if (address !== SIGN_IN) this.last = location.hash || HOME;
    document.title = `${[...names.slice(-2), t(view.title)].map(printable).join(" – ")} – RocketMQ ${location.host}`;
    this.age = h("span", { id: "age" });
    this.live = h("span", { id: "live", class: "badge good", title: t("live.explanation"), hidden: true }, t("live"));
    this.old = h("p", { id: "old", class: "problem", role: "alert", hidden: true });
    this.root = h("main", { id: "main", tabindex: "-1" });
    document.body.replaceChildren(
      h("a", { class: "skip", href: "#main", onclick: (event) => (event.preventDefault(), this.root.focus()) }, t("skip")),
      this.header(view.within ?? address),
      this.old,
      this.root,
    );
    const root = this.root;
    const { show } = await view.load().catch(() => {
      // The server has files of another release now.
      location.reload();
      return { show: () => () => {} };
    });
    // Another view may have been opened meanwhile.
    if (root === this.root) this.end = show(root, this);
  }

  header(address) {
    const links = Object.entries(VIEWS).filter(([, view]) => !view.isHidden);
    return h(
      "header",
      {},
      h("strong", {}, `RocketMQ ${t(`server.${this.session.server}`)} `, h("small", {}, location.host)),
      h(
        "nav",
        { "aria-label": t("views") },
        links.map(([hash, view]) => h("a", { href: hash, "aria-current": hash === address ? "page" : null }, t(view.title))),
      ),
      this.live,
      this.age,
      h(
        "select",
        { "aria-label": t("language"), onchange: (event) => this.choose(event.target.value) },
        Object.entries(languages()).map(([code, name]) => h("option", { value: code, lang: code, selected: code === language() }, name)),
      ),
      this.sessionButton(),
    );
  }

  sessionButton() {
    if (this.session.signedIn) {
      const rights = t(this.session.mayChange ? "rights.change" : "rights.read");
      return h("button", { type: "button", title: rights, onclick: () => this.signOut() }, t("sign_out"));
    }
    return this.session.signIn === "optional" ? h("a", { href: SIGN_IN }, t("sign_in.title")) : null;
  }

  async choose(code) {
    await useLanguage(code, true);
    await this.draw();
    // Drawn anew, with the rest of the frame.
    document.querySelector("header select").focus();
  }

  /** Goes on with a session that was opened. */
  async signedIn(session) {
    this.session = session;
    if (location.hash === SIGN_IN) location.hash = this.last;
    else await this.draw();
  }

  async signOut() {
    this.session = await request("session", { method: "DELETE" });
    await this.draw();
  }

  /** Returns whether the session goes on although a request was refused without one; shows the sign-in otherwise. */
  async mayStillRead(error) {
    this.checked = error;
    const session = await request("session").catch(() => this.session);
    if (session.mayRead) return true;
    this.session = session;
    await this.draw();
    return false;
  }

  /** Shows how old the picture of the view is, in ms; null before the first. */
  async fresh(error, ageMs, isPastDue) {
    const root = this.root;
    if (error?.status === 401 && error !== this.checked && !(await this.mayStillRead(error))) return;
    // Another view may have been opened meanwhile.
    if (root !== this.root) return;
    const isOld = isPastDue || (ageMs === null && error !== null);
    this.root.classList.toggle("old", isOld);
    this.age.textContent = ageMs === null ? "" : t("age", { time: duration(Math.floor(ageMs / 1000) * 1000) });
    this.old.hidden = !isOld;
    // Set once: a screen reader reads each change.
    if (isOld && !this.old.textContent) this.old.textContent = t("old", { problem: error?.message ?? t("no_answer") });
    if (!isOld) this.old.textContent = "";
  }
}

await useLanguage(language());
const page = new Page(await request("session"));
document.addEventListener("live", (event) => (page.live.hidden = !event.detail));
addEventListener("hashchange", async () => {
  await page.draw();
  // A view may have put it to where the user goes on.
  if (!page.root.contains(document.activeElement)) page.root.focus();
});
await page.draw();
