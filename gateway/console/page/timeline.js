// What happened, the newest first, as this gateway saw it.

import { attr, h, keyed, text } from "./dom.js";
import { time } from "./numbers.js";

const SHOWN = 200;

export function timelineView({ store }) {
  const list = h("ol", { class: "timeline" });
  const none = h("p", { class: "empty" }, "Nothing has happened yet.");
  const node = h("section", {}, h("h2", {}, "Timeline"), none, list);
  return {
    node,
    update() {
      const events = store.rows("events");
      const keys = Object.keys(events).sort().reverse().slice(0, SHOWN);
      attr(none, "hidden", keys.length > 0);
      keyed(list, keys, (key) => {
        const event = events[key];
        const link = place(event);
        return h("li", { class: event.bad ? "bad" : "" }, h("time", { datetime: new Date(event.at_ms).toISOString() }), 
          h("div", {}, link ? h("a", { href: link }, event.line) : event.line, event.detail ? h("span", { class: "soft" }, ` ${event.detail}`) : null));
      }, (each, key) => text(each.firstChild, time(events[key].at_ms)));
    },
  };
}

export function place({ kind, key }) {
  const at = key.indexOf("/");
  if (kind === "topic" || kind === "group") return `#/${kind}/${encodeURIComponent(key.slice(0, at))}/${encodeURIComponent(key.slice(at + 1))}`;
  if (kind === "application") return `#/migration/${encodeURIComponent(key.slice(0, at))}`;
  return { gateway: "#/fleet", link: "#/lock", unmirrored: "#/lock", migration: `#/migration/${encodeURIComponent(key)}` }[kind] || "";
}
