// Mirror groups, and one of them with its members on both sides.

import { actionBar, groupActions } from "./actions.js";
import { ask, name } from "./api.js";
import { named } from "./copy.js";
import { attr, h, keyed, text } from "./dom.js";
import { gateLine } from "./lock.js";
import { count, dated, many, seconds } from "./numbers.js";
import { table } from "./table.js";
import { trendCharts, trendLines } from "./trends.js";

const STATES = { ACTIVE: "gate closed", PENDING_PROMOTED: "being promoted", PROMOTED: "gate open", FAILED: "FAILED" };

export function groupsView({ store }) {
  const lines = trendLines("group", () => view.update());
  const found = table({
    label: "Mirror groups",
    empty: "No group is seen yet. A group becomes a mirror group when its first member comes to the gateway.",
    columns: [
      { key: "group", label: "Group", wide: "2fr", value: (row) => row.group, href: (row) => `#/group/${name(row.link)}/${name(row.group)}` },
      { key: "state", label: "Gate", value: (row) => STATES[row.state] || row.state, mark: (row) => (row.state === "FAILED" ? "bad" : "") },
      { key: "members", label: "On the source", number: true, value: (row) => count(row.state === "PROMOTED" ? row.members_after_promote : row.members), order: (row) => row.members },
      { key: "waiting", label: "At the gate", number: true, value: (row) => count(row.waiting), order: (row) => row.waiting },
      { key: "longest", label: "Longest wait", number: true, value: (row) => (row.waiting ? seconds(row.longest_wait_s) : "–"), order: (row) => row.longest_wait_s, low: 1 },
      { key: "source_lag", label: "Lag on source", number: true, value: (row) => count(row.source_lag), order: (row) => row.source_lag, low: 1 },
      { key: "target_lag", label: "Lag on target", number: true, value: (row) => count(row.target_lag), order: (row) => row.target_lag, low: 1 },
      { key: "trend", label: "Lag, last hour", lines, value: (row) => `${row.link}/${row.group}`, order: (row) => (row.state === "PROMOTED" ? row.target_lag : row.source_lag), low: 1 },
    ],
  });
  const node = h("section", {}, h("h2", {}, "Mirror groups"), found.node);
  const view = {
    node,
    close: lines.close,
    update() {
      lines.update();
      found.update(store.rows("groups"));
    },
  };
  return view;
}

export function groupView(context, link, group) {
  const { store } = context;
  const key = `${link}/${group}`;
  const bar = actionBar(context, () => groupActions(store.row("groups", key)));
  const line = h("p", {});
  const facts = h("dl", { class: "facts wide" });
  const left = h("ul", { class: "lines" });
  const here = h("ul", { class: "lines" });
  const note = h("p", { class: "soft" });
  const trends = trendCharts({ of: "group", link, name: group });
  const offsets = table({
    label: `Offsets of ${group}`, empty: "It has committed nothing.", height: 8,
    columns: [
      { key: "topic", label: "Topic", wide: "2fr", value: (row) => row.topic },
      { key: "partition", label: "Partition", number: true, value: (row) => row.partition, order: (row) => row.partition },
      { key: "source", label: "Source", number: true, value: (row) => count(row.source_offset), order: (row) => row.source_offset },
      { key: "target", label: "Target", number: true, value: (row) => count(row.target_offset), order: (row) => row.target_offset },
    ],
  });
  const node = h("section", {}, h("p", {}, h("a", { href: "#/groups" }, "All groups")), h("div", { class: "card-head" }, ...named(group, "group"), bar.node), line, facts,
    h("div", { class: "sides" }, h("section", { class: "card" }, h("h3", {}, "On the source"), left), h("section", { class: "card" }, h("h3", {}, "At the gateway and on the target"), here)),
    note, trends.node, h("h3", {}, "Offsets"), offsets.node);
  let asked = 0;
  let closed = false;

  async function look() {
    asked = Date.now();
    let said;
    try {
      said = await ask("GET", `/v3/links/${name(link)}/groups/${name(group)}`);
    } catch (error) {
      if (!closed) text(note, error.message);
      return;
    }
    if (closed) return;
    text(note, [said.waits_for && `Not promoted yet: ${said.waits_for}`, said.note, said.unknown].filter(Boolean).join(" · "));
    const members = said.members === null ? ["The source does not tell."] : said.members.map((one) => `${one.client_id} at ${one.host}: ${one.topics.join(", ") || "no partition"}${one.waits ? "; its process waits at the gateway already" : ""}`);
    fill(left, members, "Nobody.");
    const waiting = said.waiting.map((one) => `${one.client_id} at ${one.host} waits for ${seconds(one.waiting_s)}`);
    const joined = (said.target_members || []).map((one) => `${one.client_id} at ${one.host}: ${one.topics.join(", ") || "no partition"}`);
    fill(here, [...waiting, ...joined], "Nobody.");
    offsets.update(new Map(said.offsets.map((one) => [`${one.topic}/${one.partition}`, one])));
  }

  function fill(list, lines, none) {
    const shown = lines.length ? lines : [none];
    keyed(list, shown.map((_, at) => String(at)), () => h("li", {}), (each, at) => text(each, shown[Number(at)]));
  }

  return {
    node,
    close() {
      closed = true;
      trends.close();
    },
    update() {
      const row = store.row("groups", key);
      bar.update();
      if (!row) {
        text(line, "It is no mirror group (any more).");
        return;
      }
      text(line, `Gate ${gateLine(row)}.`);
      attr(line, "class", row.state === "FAILED" ? "bad" : "");
      const pairs = [["State", `${STATES[row.state] || row.state} since ${dated(row.since_ms)}`], ["Type", row.type.toLowerCase()],
        ["Lag on the source", many(row.source_lag, "record")], ["Lag on the target", many(row.target_lag, "record")]];
      keyed(facts, pairs.map(([label]) => label), (label) => h("div", {}, h("dt", {}, label), h("dd", {})), (each, label) => text(each.lastChild, pairs.find(([one]) => one === label)[1]));
      trends.update();
      if (Date.now() - asked > 3000) look();
    },
  };
}
