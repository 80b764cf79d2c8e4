// How far a group is behind in each queue, read from brokers when the user wants it: each reading loads all of them.

import { answersOf, pathOf, request } from "../api.js";
import { badge, h, named, sentence, table } from "../dom.js";
import { count, moment, t, tOr } from "../messages.js";
import { lagByTopic, serving } from "../offsets_model.js";
import { field } from "../parts/fields.js";
import { problemOfRead } from "../parts/problems.js";
import { s } from "../parts/svg.js";
import { lagSummary } from "../readers_model.js";

// Longer than a manager works on it.
const ANSWER_MS = 30_000;
// The name that RocketMQ gives to a cluster of which nobody has chosen another.
const DEFAULT_CLUSTER = "DefaultCluster";

/** Returns the address of the lag of a group of a cluster. */
export const lagAddress = (cluster, group) => `#/offsets/lag/${[cluster, group].map(encodeURIComponent).join("/")}`;

/** Returns the form that opens the lag of a group. */
export function lagForm(cluster = DEFAULT_CLUSTER) {
  const text = (name, value) => h("input", { name, value, required: true, maxlength: 255, spellcheck: "false" });
  const [ofCluster, ofGroup] = [text("cluster", cluster), text("group", "")];
  const open = (event) => {
    event.preventDefault();
    location.hash = lagAddress(ofCluster.value.trim(), ofGroup.value.trim());
  };
  return h(
    "form",
    { class: "inline", onsubmit: open },
    field(t("cluster"), ofCluster),
    field(t("offsets.lag_of"), ofGroup),
    h("button", { type: "submit" }, t("offsets.show_lag")),
  );
}

/** Shows the lag of a group, `names` are its cluster and itself; it is read once, and again when the user wants it. */
export function showLag(root, page, names) {
  // Addresses of earlier releases have no cluster.
  const [cluster, group] = names.length > 1 ? names : [DEFAULT_CLUSTER, ...names];
  const status = h("p", { role: "status" });
  const content = h("div", { id: "lag" });
  const button = h("button", { type: "button", onclick: read }, t("offsets.read_again"));
  root.replaceChildren(
    h("h1", {}, t("offsets.lag_title"), " ", named(group), " ", h("small", {}, named(cluster))),
    h("div", { class: "tools" }, button, lagForm(cluster)),
    status,
    content,
    h("p", {}, h("a", { href: "#/offsets" }, t("offsets.all"))),
  );
  let isEnded = false;

  async function read() {
    button.disabled = true;
    status.textContent = t("offsets.reading");
    content.replaceChildren();
    const { sum, shown } = await contentOf(cluster, group, page);
    if (isEnded) return;
    status.textContent = sum;
    content.replaceChildren(...shown);
    button.disabled = false;
  }

  read();
  return () => {
    isEnded = true;
  };
}

async function contentOf(cluster, group, page) {
  let address = t("offset_managers");
  try {
    const manager = serving(await answersOf("offsets", (peer) => request(pathOf(peer, "manager"))));
    if (manager === null) return { sum: t("offsets.none"), shown: [] };
    address = manager.peer.address;
    const query = new URLSearchParams({ cluster, group });
    const lag = await request(pathOf(manager.peer, `offsets/lag?${query}`), { answerMs: ANSWER_MS });
    // It grows old, and says itself when it was read.
    page.fresh(null, null, false);
    return { sum: sumOf(lag), shown: lagSections(lag) };
  } catch (failure) {
    if (failure.status === undefined) throw failure;
    if (failure.status === 401) page.fresh(failure, null, false);
    return { sum: "", shown: [h("p", { class: "problem", role: "alert" }, problemOfRead(failure, address))] };
  }
}

function sumOf(lag) {
  const { known, unknown } = lagSummary(lag);
  return t("offsets.lag_sum", { lag: known === null ? t("unknown") : count(known), unknown, time: moment(Date.now()) });
}

function lagSections({ queues, unavailable }) {
  const topics = lagByTopic(queues);
  const longest = Math.max(1, ...topics.map((each) => each.lag ?? 0));
  return [
    ...unavailable.map((each) => h("p", { class: "problem" }, named(each.brokerName), ": ", sentence(each.reason))),
    table(
      t("topics"),
      [
        { label: t("topic"), cell: (row) => named(row.topic) },
        { label: t("offsets.lag"), cell: (row) => (row.lag === null ? t("unknown") : [count(row.lag), bar(row.lag / longest)]) },
        { label: t("offsets.unknown_queues"), cell: (row) => row.unknown },
        { label: t("offsets.queues"), cell: (row) => row.queues },
      ],
      topics,
      t("offsets.no_lag"),
    ),
    table(
      t("offsets.queues"),
      [
        { label: t("topic"), cell: (row) => named(row.topic) },
        { label: t("queue"), cell: (row) => [named(row.brokerName), ` / ${row.queueId}`] },
        {
          label: t("offsets.lag"),
          cell: (row) => (row.lag === "unknown" ? [badge("fair", t("unknown")), " ", sentence(row.reason)] : count(row.lag)),
        },
        {
          label: t("offsets.committed"),
          cell: (row) => [
            count(row.committedOffset),
            row.committedIn ? h("small", {}, ` ${tOr(`offsets.in.${row.committedIn}`, row.committedIn)}`) : null,
          ],
        },
        { label: t("offsets.end"), cell: (row) => count(row.maxOffset) },
      ],
      queues,
      t("offsets.no_lag"),
    ),
  ];
}

// The number beside it says the same.
function bar(share) {
  return s(
    "svg",
    { class: "bar", width: "100%", height: 8, "aria-hidden": "true" },
    s("rect", { class: "phase-0", x: 0, y: 0, height: 8, width: `${(share * 100).toFixed(1)}%` }),
  );
}
