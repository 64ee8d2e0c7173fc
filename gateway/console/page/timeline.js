// What happened, the newest first, as this gateway saw it.

import { attr, h, keyed, newId, text } from "./dom.js";
import { dated } from "./numbers.js";

const SHOWN = 200;

const KINDS = [["", "everything"], ["application", "migrations and applications"], ["topic", "topics"], ["group", "groups"], ["link", "links"], ["gateway", "gateways"]];

export function timelineView({ store }) {
  const list = h("ol", { class: "timeline" });
  const none = h("p", { class: "empty" });
  const kind = h("select", { id: newId("kind") }, ...KINDS.map(([value, label]) => h("option", { value }, label)));
  const named = h("input", { type: "search", id: newId("named"), placeholder: "application, topic, group, person" });
  const filters = h("p", { class: "filters" }, h("label", { for: kind.id }, "Show "), kind, " ", h("label", { for: named.id }, "with "), named);
  const node = h("section", {}, h("h2", {}, "Timeline"), filters, none, list);
  const wanted = (event) => {
    const asked = named.value.trim().toLowerCase();
    return (!kind.value || event.kind === kind.value) && (!asked || `${event.line} ${event.detail} ${event.key}`.toLowerCase().includes(asked));
  };

  function update() {
    const events = store.rows("events");
    const keys = Object.keys(events).filter((key) => wanted(events[key])).sort().reverse().slice(0, SHOWN);
    text(none, Object.keys(events).length ? "Nothing of that has happened." : "Nothing has happened yet.");
    attr(none, "hidden", keys.length > 0);
    keyed(list, keys, (key) => {
      const event = events[key];
      const link = place(event);
      return h("li", { class: event.bad ? "bad" : "" }, h("time", { datetime: new Date(event.at_ms).toISOString() }),
        h("div", {}, link ? h("a", { href: link }, event.line) : event.line, event.detail ? h("span", { class: "soft" }, ` ${event.detail}`) : null));
    }, (each, key) => text(each.firstChild, dated(events[key].at_ms)));
  }
  kind.addEventListener("change", update);
  named.addEventListener("input", update);
  return { node, update };
}

export function place({ kind, key }) {
  const at = key.indexOf("/");
  if (kind === "topic" || kind === "group") return `#/${kind}/${encodeURIComponent(key.slice(0, at))}/${encodeURIComponent(key.slice(at + 1))}`;
  if (kind === "application") return `#/migration/${encodeURIComponent(key.slice(0, at))}`;
  return { gateway: "#/fleet", link: "#/lock", unmirrored: "#/lock", migration: `#/migration/${encodeURIComponent(key)}` }[kind] || "";
}
