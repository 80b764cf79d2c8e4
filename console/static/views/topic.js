// One topic: its queues over broker sets, whether NameServers agree, who reads it, and what its route was before.

import { h, named, patch, scrolling, table } from "../dom.js";
import { follow } from "../feed.js";
import { count, t } from "../messages.js";
import { awaySets } from "../overview_model.js";
import { brokerAddress } from "../parts/addresses.js";
import { answersOf, answersWhereListed, peersByKind } from "../parts/name_servers.js";
import { agreementTable } from "../parts/route_differences.js";
import { legend, routePicture } from "../parts/route_picture.js";
import { agreement, pairedRows, permText, routeRows } from "../route_model.js";
import { showPast } from "./topic_past.js";
import { showReaders } from "./topic_readers.js";

// Sets that are away, named where no broker has the topic.
const SETS_MAX = 5;

/** Shows the view of the topic in the address until the returned function is called. */
export function show(root, page) {
  // A name with a slash that is not encoded is one name all the same.
  const topic = page.names.join("/");
  const live = h("div", { id: "route", "aria-busy": "true" }, h("p", {}, t("loading")));
  const readers = h("section", { id: "readers" });
  const past = h("section", { id: "past" });
  root.replaceChildren(h("h1", {}, t("topic.title"), " ", named(topic)), live, readers, past);
  const showedReaders = showReaders(readers, topic);
  const showedPast = showPast(past, topic, page.query.get("at"));
  let drawn = null;
  const end = follow(
    () => load(topic),
    ({ value, error, ageMs, isOld }) => {
      page.fresh(error, value === null ? null : ageMs, isOld);
      if (value === null || value === drawn) return;
      drawn = value;
      patch(live, sections(topic, value, live.clientWidth));
      showedReaders.update(value.offsetManagers, clustersOf(value.route));
      showedPast.update(value.nameServers, presentOf(value));
    },
    { topics: [topic] },
  );
  return () => {
    end();
    showedReaders.end();
    showedPast.end();
  };
}

async function load(topic) {
  const of = await peersByKind();
  const nameServers = of("namesrv");
  const name = encodeURIComponent(topic);
  // Of all topics that begin with it, the topic itself is the first.
  const list = `topics?limit=1&prefix=${name}`;
  const answers = await answersWhereListed(nameServers, list, (item) => item.topic === topic, `topics/${name}/route`);
  const shown = answers.find((each) => each.value);
  const away = shown ? [] : await answersOf(nameServers, "broker-sets/away?limit=1000");
  const awayNames = awaySets(away.map(({ value }) => ({ away: value?.items }))).map((each) => each.brokerName);
  return { nameServers, answers, awayNames, offsetManagers: of("offsets"), route: shown?.value ?? null, source: shown?.peer ?? null };
}

/** Returns the present route and whether it is known that it is this one, or that there is none: not where nobody answers. */
const presentOf = ({ route, answers }) => ({ route, isKnown: route !== null || answers.some((each) => each.isAbsent) });

const clustersOf = (route) => [...new Set(routeRows(route).map((row) => row.cluster))];

function sections(topic, { answers, awayNames, route, source }, width) {
  const rows = routeRows(route);
  return h(
    "div",
    { id: "route", "aria-busy": "false" },
    route === null && h("p", { class: "problem", role: "alert" }, absence(topic, answers, awayNames)),
    rows.length > 0 && queuesPicture(rows, route, width),
    rows.length > 0 && queuesTable(rows),
    agreementTable(agreement(answers), source),
  );
}

function absence(topic, answers, awayNames) {
  if (!answers.some((each) => each.isAbsent)) return t("name_servers.unreachable");
  return awayNames.length ? t("topic.unknown", { topic, sets: awayNames.slice(0, SETS_MAX).join(", ") }) : t("topic.absent", { topic });
}

function queuesPicture(rows, route, width) {
  const alternative = t("topic.picture", { sets: rows.length, queues: rows.reduce((sum, row) => sum + Math.max(row.read, row.write), 0) });
  return h(
    "figure",
    {},
    h("figcaption", {}, h("h2", {}, t("topic.queues")), h("ul", { class: "legend" }, legend(false).map((each) => h("li", {}, each)))),
    scrolling(t("topic.queues"), routePicture(pairedRows(route, route), width - 40, alternative)),
  );
}

function queuesTable(rows) {
  return table(
    t("topic.queues_by_set"),
    [
      { label: t("broker_set"), cell: (row) => named(row.name) },
      { label: t("cluster"), cell: (row) => named(row.cluster) },
      { label: t("read_queues"), cell: (row) => count(row.read) },
      { label: t("write_queues"), cell: (row) => count(row.write) },
      { label: t("perm"), cell: (row) => [h("code", {}, permText(row.perm)), ` ${row.perm}`] },
      { label: t("brokers"), cell: (row) => h("ul", {}, row.addresses.map((each) => h("li", {}, brokerLink(row, each)))) },
    ],
    rows,
    "",
  );
}

function brokerLink(row, { id, address }) {
  return [`${id} `, h("a", { href: brokerAddress(row.cluster, row.name, id) }, named(address))];
}
