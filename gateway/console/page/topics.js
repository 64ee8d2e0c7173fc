// Mirror topics as a table, and one of them with its partitions.

import { actionBar, topicActions } from "./actions.js";
import { ask, name } from "./api.js";
import { named } from "./copy.js";
import { attr, h, keyed, text } from "./dom.js";
import { messagesView } from "./messages.js";
import { bytes, count, dated, many, milliseconds } from "./numbers.js";
import { partitionTable } from "./partitions.js";
import { table } from "./table.js";
import { trendCharts, trendLines } from "./trends.js";
import { undoOf } from "./undo.js";

const STATES = {
  ACTIVE: "mirrored", PAUSED: "paused", PENDING_STOPPED: "being promoted", STOPPED: "on the target", FAILED: "FAILED",
  SOURCE_UNAVAILABLE: "source away", LINK_FAILED: "link failed", CATCHING_UP: "copied by a job", PENDING_MIRROR: "being created",
};

const BACK = { ACTIVE: "mirrored back", PENDING_STOPPED: "failing back" };

export function stateOf(row) {
  const said = STATES[row.state] || row.state;
  return (row.direction === "REVERSE" && BACK[row.state]) || said;
}

const bad = (row) => (["FAILED", "LINK_FAILED", "SOURCE_UNAVAILABLE"].includes(row.state) ? "bad" : "");

export function topicsView({ store }) {
  const lines = trendLines("topic", () => view.update());
  const found = table({
    label: "Mirror topics",
    empty: "No topic is mirrored yet.",
    columns: [
      { key: "topic", label: "Topic", wide: "2fr", value: (row) => row.topic, href: (row) => `#/topic/${name(row.link)}/${name(row.topic)}` },
      { key: "link", label: "Link", value: (row) => row.link, low: 1 },
      { key: "state", label: "State", value: stateOf, mark: bad },
      { key: "partitions", label: "Partitions", number: true, value: (row) => count(row.partitions), order: (row) => row.partitions, low: 1 },
      { key: "lag", label: "Behind", number: true, value: (row) => (row.written_on === "target" && row.direction === "FORWARD" ? "–" : count(row.lag)), order: (row) => row.lag },
      { key: "lag_ms", label: "by time", number: true, value: (row) => (row.lag ? milliseconds(row.lag_ms) : "–"), order: (row) => row.lag_ms, low: 1 },
      { key: "trend", label: "Last hour", lines, value: (row) => `${row.link}/${row.topic}`, order: (row) => row.lag, low: 1 },
      { key: "rate", label: "Copied /s", number: true, value: (row) => bytes(row.bytes_per_s), order: (row) => row.bytes_per_s, low: 1 },
      { key: "bypassed", label: "Bypassing /min", number: true, value: (row) => count(row.bypassed), order: (row) => row.bypassed, low: 1 },
      { key: "undo", label: "Undo", wide: "2fr", value: (row) => undoOf(row) || "–", order: (row) => (row.undo === "open" ? row.undo_until_ms : 0), low: 1 },
    ],
  });
  const sums = h("p", { class: "soft" });
  const node = h("section", {}, h("h2", {}, "Mirror topics"), sums, found.node);
  const view = {
    node,
    close: lines.close,
    update() {
      lines.update();
      const rows = store.rows("topics");
      const behind = Object.values(rows).reduce((total, row) => total + (row.lag || 0), 0);
      text(sums, `${many(Object.keys(rows).length, "topic")}, ${many(behind, "record")} behind`);
      found.update(rows);
    },
  };
  return view;
}

// Who is left on the source, in lines, of a mirror topic as it is described. That nobody is takes an answer of the source.
function leftBehind({ clients_not_migrated: found, records_after_cutover: late }) {
  if (!found) return ["Nobody is looked for in this state."];
  const written = Object.values(late || {}).reduce((sum, each) => sum + each, 0);
  const lines = (found.readers || []).map((one) => `${one.client_id} (${one.host}) of group ${one.group} reads on the source.`);
  if (late === null) lines.push("Whether records came to the source after the cutover is not measured since the present leader leads.");
  if (written) lines.unshift(`${many(written, "record")} came to the source after the cutover.`);
  if (found.bypassed_last_minute) lines.unshift(`${many(found.bypassed_last_minute, "record")} came beside the gateway in the last minute.`);
  if (!found.readers) lines.push(`Who reads on the source is not known: ${found.unknown}`);
  return lines.length ? lines : ["Everybody has moved: no group reads on the source, and nothing came beside the gateway in the last minute."];
}

export function topicView(context, link, topic) {
  const { store } = context;
  const key = `${link}/${topic}`;
  const bar = actionBar(context, () => topicActions(store, store.row("topics", key)));
  const facts = h("dl", { class: "facts wide" });
  const line = h("p", { class: "bad" });
  const who = h("ul", { class: "lines" });
  const tell = (lines) => keyed(who, lines, (each) => h("li", {}, each));
  const whoHead = h("h3", {}, "Who has not moved yet");
  const partitions = partitionTable({ link, topic, label: `Partitions of ${topic}` });
  const trends = trendCharts({ of: "topic", link, name: topic });
  const messages = messagesView(context, link, topic);
  const node = h("section", {}, h("p", {}, h("a", { href: "#/topics" }, "All topics")), h("div", { class: "card-head" }, ...named(topic, "topic"), bar.node),
    line, facts, trends.node, whoHead, who, h("h3", {}, "Partitions"), partitions.node, messages.node);
  let asked = 0;
  let closed = false;

  // Asks the source, so seldom.
  async function askWho() {
    asked = Date.now();
    let said;
    try {
      said = leftBehind(await ask("GET", `/v3/links/${name(link)}/mirrors/${name(topic)}`));
    } catch (error) {
      said = [error.message];
    }
    if (!closed) tell(said);
  }
  tell(["The source is being asked."]);

  return {
    node,
    close() {
      closed = true;
      partitions.close();
      trends.close();
      messages.close();
    },
    update() {
      const row = store.row("topics", key);
      bar.update();
      for (const each of [whoHead, who, trends.node, messages.node]) attr(each, "hidden", !row);
      if (!row) {
        text(line, "It is no mirror topic (any more).");
        attr(line, "hidden", false);
        return;
      }
      text(line, row.message || (row.error ? row.error : ""));
      attr(line, "hidden", !line.textContent);
      const pairs = [
        ["State", `${stateOf(row)} since ${dated(row.since_ms)}`], ["Written on", `the ${row.written_on}`],
        ["Behind", row.lag === null ? "not known" : `${many(row.lag, "record")}${row.lag ? `, ${milliseconds(row.lag_ms)}` : ""}`],
        ["Offsets", row.translated ? "translated" : "equal on both clusters"],
        ["Source topic", row.source_topic], ["Copied", `${bytes(row.bytes_per_s)} /s`],
      ];
      if (row.undo) pairs.push(["Undo", undoOf(row)]);
      if (row.waits_for) pairs.push(["The source waits for", row.waits_for]);
      keyed(facts, pairs.map(([label]) => label), (label) => h("div", {}, h("dt", {}, label), h("dd", {})), (each, label) => text(each.lastChild, pairs.find(([one]) => one === label)[1]));
      if (Date.now() - asked > 15000) askWho();
      partitions.update();
      trends.update();
    },
  };
}
