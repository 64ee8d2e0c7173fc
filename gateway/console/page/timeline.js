// What happened, the newest first, as this gateway saw it: an action is a sentence that unfolds.

import { attr, h, keyed, newId, text } from "./dom.js";
import { count, dated, many } from "./numbers.js";
import { story } from "./story.js";

const SHOWN = 200;
const KINDS = [["", "everything"], ["application", "migrations and applications"], ["topic", "topics"], ["group", "groups"], ["link", "links"], ["gateway", "gateways"]];

export function timelineView({ store }) {
  const list = h("ol", { class: "timeline" });
  const none = h("p", { class: "empty" });
  const kind = h("select", { id: newId("kind") }, ...KINDS.map(([value, label]) => h("option", { value }, label)));
  const application = h("select", { id: newId("application") }, h("option", { value: "" }, "all"));
  const topic = h("input", { type: "search", id: newId("topic"), placeholder: "part of a name" });
  const named = h("input", { type: "search", id: newId("named"), placeholder: "group, person, any word" });
  const sums = h("span", { class: "soft", role: "status" });
  const filters = h("p", { class: "filters bar" }, h("label", { for: kind.id }, "Show"), kind, h("label", { for: application.id }, "of application"), application,
    h("label", { for: topic.id }, "topic"), topic, h("label", { for: named.id }, "with"), named, sums);
  const node = h("section", {}, h("h2", {}, "Timeline"), h("p", { class: "soft" }, "The last 500 changes of state that this gateway has seen, and what migrations noted; the newest first."), filters, none, list);

  // Of an application is what names it, and what happened to its topics and groups.
  function ofApplication(event) {
    if (!application.value) return true;
    const row = store.row("applications", application.value);
    if (!row) return false;
    if (event.kind === "application") return event.key === application.value;
    const own = { topic: row.topic_names, group: row.group_names }[event.kind] || [];
    return event.link === row.link && event.names.some((name) => own.includes(name));
  }

  function ofTopic(event) {
    const asked = topic.value.trim().toLowerCase();
    if (!asked) return true;
    const topics = event.kind === "topic" || event.kind === "application" ? event.names : [];
    return topics.some((name) => name.toLowerCase().includes(asked));
  }

  function wanted(event) {
    const asked = named.value.trim().toLowerCase();
    const worded = !asked || `${event.line} ${event.detail} ${event.key} ${event.names.join(" ")}`.toLowerCase().includes(asked);
    return (!kind.value || event.kind === kind.value) && worded && ofTopic(event) && ofApplication(event);
  }

  function choices() {
    const rows = store.rows("applications");
    const keys = Object.keys(rows).sort();
    keyed(application, ["", ...keys], (key) => h("option", { value: key }), (each, key) => text(each, key ? (rows[key].migration ? `${rows[key].name} (migration ${rows[key].migration})` : `link ${rows[key].link}, no migration`) : "all"));
  }

  function update() {
    choices();
    const events = store.rows("events");
    const actions = story(Object.keys(events).sort().map((key) => [key, events[key]]));
    const found = actions.filter((one) => wanted(one.event) || one.parts.some(wanted));
    const shown = found.slice(0, SHOWN);
    text(sums, found.length > SHOWN ? `the newest ${count(SHOWN)} of ${many(found.length, "action")}` : many(found.length, "action"));
    text(none, actions.length ? "Nothing of that has happened." : "Nothing has happened yet.");
    attr(none, "hidden", shown.length > 0);
    const byKey = new Map(shown.map((one) => [one.key, one]));
    keyed(list, [...byKey.keys()], () => actionLine(), (each, key) => fillAction(each, byKey.get(key)));
  }
  for (const each of [kind, application]) each.addEventListener("change", update);
  for (const each of [topic, named]) each.addEventListener("input", update);
  return { node, update };
}

// An action: when, a sentence, how often or how long, where to look; what it came of, folded.
export function actionLine() {
  return h("li", {}, h("time", {}), h("div", {}, h("span", { class: "line-said" }), " ", h("span", { class: "soft" }), " ", h("a", {}),
    h("details", {}, h("summary", {}), h("ol", { class: "parts" }))));
}

export function fillAction(node, { event, line, parts }) {
  attr(node, "class", event.bad ? "bad" : "");
  const [when, said] = node.children;
  attr(when, "datetime", new Date(event.at_ms).toISOString());
  text(when, dated(event.at_ms));
  const [sentence, detail, link, folded] = said.children;
  text(sentence, line);
  text(detail, event.detail);
  const href = event.key ? place(event) : "";
  attr(link, "hidden", !href);
  attr(link, "href", href || null);
  text(link, `Open ${event.kind === "application" ? "the migration" : event.kind === "topic" || event.kind === "group" ? event.names[0] : `the ${event.kind}`}`);
  attr(folded, "hidden", parts.length === 0);
  text(folded.firstChild, many(parts.length, "step"));
  keyed(folded.lastChild, parts.map((_, at) => String(at)), () => h("li", {}), (each, at) => {
    const part = parts[Number(at)];
    text(each, `${dated(part.at_ms)}: ${[part.line, part.detail].filter(Boolean).join("; ")}`);
  });
}

export function place({ kind, key }) {
  const at = key.indexOf("/");
  if (kind === "topic" || kind === "group") return `#/${kind}/${encodeURIComponent(key.slice(0, at))}/${encodeURIComponent(key.slice(at + 1))}`;
  if (kind === "application") return `#/migration/${encodeURIComponent(key.slice(0, at))}`;
  return { gateway: "#/fleet", link: "#/lock", unmirrored: "#/lock", migration: `#/migration/${encodeURIComponent(key)}` }[kind] || "";
}
