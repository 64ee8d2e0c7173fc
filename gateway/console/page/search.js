// One search over everything that the feed has told: links, topics, groups, migrations, applications, gateways, clients.

import { name } from "./api.js";
import { attr, h, keyed, say, text } from "./dom.js";
import { many } from "./numbers.js";

const SHOWN = 12;

// {kind, label, href, about}, of one kind after the other.
function* everything(store) {
  for (const row of Object.values(store.rows("links"))) yield { kind: "link", label: row.link, href: `#/link/${name(row.link)}`, about: row.bootstrap };
  for (const row of Object.values(store.rows("topics"))) yield { kind: "topic", label: row.topic, href: `#/topic/${name(row.link)}/${name(row.topic)}`, about: `link ${row.link}` };
  for (const row of Object.values(store.rows("groups"))) yield { kind: "group", label: row.group, href: `#/group/${name(row.link)}/${name(row.group)}`, about: `link ${row.link}` };
  const migrations = new Set();
  for (const row of Object.values(store.rows("applications"))) {
    if (!row.migration) continue;
    migrations.add(row.migration);
    yield { kind: "application", label: row.name, href: `#/migration/${name(row.migration)}`, about: `migration ${row.migration}` };
  }
  for (const migration of migrations) yield { kind: "migration", label: migration, href: `#/migration/${name(migration)}`, about: "" };
  for (const row of Object.values(store.rows("gateways"))) yield { kind: "gateway", label: row.name, href: "#/fleet", about: row.state };
  for (const row of Object.values(store.rows("groups"))) {
    for (const [client, host, on] of row.clients || []) {
      yield { kind: "client", label: client, href: `#/group/${name(row.link)}/${name(row.group)}`, about: `${on === "gate" ? "at the gate" : "on the source"}, group ${row.group}, ${host}` };
    }
  }
}

// The best first: those that are called so, that begin so, that have it anywhere; all words must be in name, kind or about.
export function matching(all, asked) {
  const words = asked.trim().toLowerCase().split(/\s+/).filter(Boolean);
  if (!words.length) return [];
  const ranked = [];
  for (const one of all) {
    const label = one.label.toLowerCase();
    const whole = `${label} ${one.kind} ${one.about.toLowerCase()}`;
    if (!words.every((word) => whole.includes(word))) continue;
    const rank = label === words[0] ? 0 : label.startsWith(words[0]) ? 1 : label.includes(words[0]) ? 2 : 3;
    ranked.push([rank, one]);
  }
  return ranked.sort(([a, one], [b, other]) => a - b || one.label.localeCompare(other.label, undefined, { numeric: true })).map(([, one]) => one);
}

// The field of the head. `/` focuses it from anywhere where nothing is typed.
export function search(store, field, list) {
  let found = [];
  let at = -1;

  function look() {
    const all = matching(everything(store), field.value);
    found = all.slice(0, SHOWN);
    at = found.length ? 0 : -1;
    draw();
    if (field.value.trim()) say(all.length > SHOWN ? `${many(all.length, "match", "matches")}, ${SHOWN} are shown` : many(all.length, "match", "matches"));
  }

  function draw() {
    const asked = field.value.trim() !== "";
    attr(list, "hidden", !asked || !found.length);
    attr(field, "aria-expanded", String(asked && found.length > 0));
    attr(field, "aria-activedescendant", at >= 0 ? `found-${at}` : null);
    keyed(list, found.map((_, each) => String(each)), (key) => h("li", { role: "option", id: `found-${key}`, onpointerdown: (event) => { event.preventDefault(); go(Number(key)); } }, h("span", { class: "found-kind" }), h("strong", {}), h("span", { class: "soft" })),
      (node, key) => {
        const one = found[Number(key)];
        attr(node, "aria-selected", String(Number(key) === at));
        text(node.children[0], one.kind);
        text(node.children[1], one.label);
        text(node.children[2], one.about);
      });
  }

  function close() {
    field.value = "";
    found = [];
    at = -1;
    draw();
  }

  function go(which) {
    const one = found[which];
    close();
    field.blur();
    if (one) location.hash = one.href;
  }

  field.addEventListener("input", look);
  field.addEventListener("blur", close);
  field.addEventListener("keydown", (event) => {
    if (event.key === "Escape") {
      close();
      field.blur();
    } else if (event.key === "Enter") {
      event.preventDefault();
      if (at >= 0) go(at);
    } else if ((event.key === "ArrowDown" || event.key === "ArrowUp") && found.length) {
      event.preventDefault();
      at = (at + (event.key === "ArrowDown" ? 1 : found.length - 1)) % found.length;
      draw();
    }
  });
  document.addEventListener("keydown", (event) => {
    if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey || field.closest("[hidden]")) return;
    if (document.querySelector("dialog[open]") || event.target.closest("input, textarea, select, [contenteditable]")) return;
    event.preventDefault();
    field.focus();
  });
}
