// Every change: what it will do is shown first, and it is done once the user agrees.

import { request } from "../api.js";
import { h } from "../dom.js";
import { t } from "../messages.js";
import { field } from "./fields.js";
import { problemOfChange, problemOfRead } from "./problems.js";

const NAME = "rmq-console-name";

/** Returns the name under which the user changes something; blank before the first change. */
export const storedName = () => localStorage.getItem(NAME) ?? "";

/** Returns the field of the name of the user, which servers write down with each change. */
export function nameField() {
  return field(
    t("change.name"),
    h("input", { name: "writer", required: true, maxlength: 100, value: storedName(), autocomplete: "name" }),
  );
}

/**
 * Opens a dialog about a change at `server` (its address).
 *
 * `fields` are asked for first, if there are any. `preview(values)` resolves to {content, isPossible}: what will be done.
 * `perform(values)` does it, and resolves to what was done. Both get the values of the fields by their names.
 * Without the right to change anything the dialog says how to get it.
 */
export function openChange(page, change) {
  new ChangeDialog(page, change).open();
}

class ChangeDialog {
  constructor(page, change) {
    this.page = page;
    // Another one once this has ended.
    this.session = page.session;
    this.change = change;
    this.problem = h("p", { class: "problem", role: "alert" });
    this.body = h("div", { class: "change" });
    // What a screen reader reads of each step: not whole tables.
    this.status = h("p", { class: "hidden", role: "status" });
    this.buttons = h("div", { class: "buttons" });
    this.dialog = h(
      "dialog",
      { "aria-labelledby": "change-title" },
      h("h2", { id: "change-title" }, change.title),
      this.status,
      this.body,
      this.problem,
      this.buttons,
    );
    this.isBusy = false;
    this.isPerforming = false;
    // Its result would not be seen.
    this.dialog.addEventListener("cancel", (event) => this.isPerforming && event.preventDefault());
    this.dialog.addEventListener("close", () => this.closed());
  }

  closed() {
    this.dialog.remove();
    if (this.session !== this.page.session) this.page.draw();
  }

  open() {
    // Outside of what a view redraws.
    document.body.append(this.dialog);
    this.dialog.showModal();
    if (!this.page.session.mayChange) this.showSignIn();
    else if (this.change.fields?.length) this.showFields();
    else this.showPreview({});
  }

  showSignIn() {
    const isOff = this.page.session.signIn === "off";
    this.body.replaceChildren(h("p", {}, t(isOff ? "change.off" : "change.sign_in")));
    this.show(
      isOff ? null : h("a", { href: "#/sign-in", class: "button", onclick: () => this.dialog.close() }, t("sign_in.title")),
    );
  }

  showFields() {
    const form = h(
      "form",
      { id: "change-form", onsubmit: (event) => (event.preventDefault(), this.showPreview(valuesOf(form))) },
      this.change.fields,
    );
    this.body.replaceChildren(form);
    // As the button of the form it takes Enter in any of its fields.
    this.show(h("button", { type: "submit", form: "change-form" }, t("change.preview")));
    form.querySelector("input, select")?.focus();
  }

  async showPreview(values) {
    if (values.writer) localStorage.setItem(NAME, values.writer);
    this.problem.textContent = "";
    await this.busy(
      t("change.previewing"),
      async () => {
        const { content, isPossible } = await this.change.preview(values);
        this.draw(content);
        const confirm = h(
          "button",
          { type: "button", class: "primary", onclick: () => this.perform(values) },
          this.change.confirmLabel,
        );
        this.show(isPossible ? confirm : null);
      },
      problemOfRead,
    );
  }

  async perform(values) {
    this.isPerforming = true;
    try {
      await this.busy(
        t("change.performing"),
        async () => {
          this.draw(await this.change.perform(values));
          this.show(null);
        },
        problemOfChange,
      );
    } finally {
      this.isPerforming = false;
    }
  }

  draw(content) {
    this.body.replaceChildren(h("div", {}, content));
    this.status.textContent = this.body.querySelector("p")?.textContent ?? "";
  }

  async busy(text, work, problemOf) {
    if (this.isBusy) return;
    this.isBusy = true;
    // What it will do stays in sight while it is done, and its fields cannot be sent a second time.
    this.body.inert = true;
    this.status.textContent = text;
    this.buttons.replaceChildren(h("span", { "aria-hidden": "true" }, text));
    try {
      await work();
    } catch (failure) {
      await this.failed(failure, problemOf);
    } finally {
      this.isBusy = false;
      this.body.inert = false;
    }
  }

  async failed(failure, problemOf) {
    this.status.textContent = "";
    const isOfRequest = failure.status !== undefined;
    // A fault of the page leaves it open, as a missing answer does, what was done.
    const known = isOfRequest ? failure : { status: 0, message: failure.message };
    this.problem.textContent = await this.sentenceOf(known, problemOf);
    this.show(null);
    if (!isOfRequest) throw failure;
  }

  async sentenceOf(failure, problemOf) {
    if (failure.status === 401) {
      // Either the session has ended, or the other server has another token.
      const session = await request("session").catch(() => this.page.session);
      this.page.session = session;
      if (!session.mayChange) return t("change.ended");
    }
    return problemOf(failure, this.change.server);
  }

  show(action) {
    const close = h(
      "button",
      { type: "button", onclick: () => this.dialog.close() },
      t(action ? "change.cancel" : "change.close"),
    );
    this.buttons.replaceChildren(close, ...(action ? [action] : []));
    // Not the button that changes something: Enter pressed twice would do it unseen.
    close.focus();
  }
}

function valuesOf(form) {
  const values = Object.fromEntries(new FormData(form));
  for (const box of form.querySelectorAll("input[type=checkbox]")) values[box.name] = box.checked;
  return values;
}
