// One application on a big screen: its steps, its clients by name, the pause as it happens, and the undo clock.

import { attr, h, keyed, text } from "./dom.js";
import { count, dated, many, milliseconds, seconds } from "./numbers.js";
import { STEPS, fillSteps, newSteps } from "./steps.js";
import { undoOfApplication } from "./undo.js";

const CLIENTS = 40;

export function cutoverView({ store }, key) {
  const heading = h("h2", {});
  const lead = h("p", { class: "lead", "aria-live": "polite" });
  const steps = newSteps();
  const pause = h("p", { class: "figure" });
  const undo = h("p", { class: "figure" });
  const about = h("p", { class: "soft" });
  const clients = h("ul", { class: "clients" });
  const more = h("p", { class: "soft" });
  const screen = h("button", { type: "button", class: "quiet", onclick: () => (document.fullscreenElement ? document.exitFullscreen() : node.requestFullscreen()) }, "Full screen");
  const node = h("section", { class: "cutover" }, h("p", {}, h("a", { href: "#/lock" }, "The lock")), h("div", { class: "card-head" }, heading, screen), lead, steps,
    h("div", { class: "sides" },
      h("section", { class: "card" }, h("h3", {}, "Pause of writes"), pause),
      h("section", { class: "card" }, h("h3", {}, "Undo"), undo, about)),
    h("section", { class: "card" }, h("h3", {}, "Clients"), clients, more));
  const timer = setInterval(() => update(), 250); // clocks run between two looks

  function update() {
    const row = store.row("applications", key);
    if (!row) {
      text(lead, "There is no such application (any more).");
      return;
    }
    text(heading, row.name);
    text(lead, leadOf(row));
    fillSteps(steps, row);
    const topics = row.topic_names.map((name) => store.row("topics", `${row.link}/${name}`)).filter(Boolean);
    text(pause, pauseOf(topics, Date.now()));
    attr(pause, "class", `figure ${topics.some((one) => one.state === "PENDING_STOPPED") ? "under-way" : ""}`);
    text(undo, clockOf(row, Date.now()));
    text(about, undoOfApplication(row));
    const groups = row.group_names.map((name) => store.row("groups", `${row.link}/${name}`)).filter(Boolean);
    const all = groups.flatMap((one) => one.clients.map(([client, host, on]) => ({ client, host, on, group: one.group })));
    const shown = new Map(all.slice(0, CLIENTS).map((one) => [JSON.stringify(one), one]));
    keyed(clients, [...shown.keys()], (each) => h("li", { class: shown.get(each).on }, h("strong", {}, shown.get(each).client), ` ${shown.get(each).on === "gate" ? "waits at the gate" : "is on the source"}`, h("span", { class: "soft" }, ` group ${shown.get(each).group}, ${shown.get(each).host}`)));
    text(more, all.length > CLIENTS ? `${many(all.length - CLIENTS, "client")} more` : all.length ? "" : "No member is seen on the source or at a gate.");
  }

  return { node, update, close: () => clearInterval(timer) };
}

// What comes next, in one sentence.
export function leadOf(row) {
  if (row.problem) return row.problem;
  const [open] = STEPS.filter(([, done, of]) => row[done] < row[of]);
  if (!open) return row.topics ? "All topics are written on the target." : "It has no topic.";
  const [label, done, of] = open;
  return `${label}: ${count(row[done])} of ${many(row[of], of.replace(/s$/, ""))}`;
}

export function pauseOf(topics, now) {
  const promoting = topics.filter((one) => one.state === "PENDING_STOPPED");
  if (promoting.length) return `${many(promoting.length, "topic is", "topics are")} being promoted for ${seconds(Math.max(0, now - Math.min(...promoting.map((one) => one.since_ms))) / 1000)}`;
  const past = topics.map((one) => one.pause_ms).filter((each) => each !== null);
  return past.length ? `${milliseconds(Math.max(...past))}, the longest of the last ones` : "none so far";
}

// Hours, minutes and seconds that are left.
export function clockOf(row, now) {
  if (!row.undo_open) return row.promoted ? "not open" : "nothing is promoted yet";
  if (!row.undo_until_ms) return "open without an end";
  const left = Math.max(0, Math.floor((row.undo_until_ms - now) / 1000));
  const two = (value) => String(value).padStart(2, "0");
  return `${Math.floor(left / 3600)}:${two(Math.floor(left / 60) % 60)}:${two(left % 60)} left, until ${dated(row.undo_until_ms)}`;
}
