// Records of one partition, the source's beside the target's: asked for by a button, not looked at all the time. What is
// in records is shown to admins alone, and the gateway logs who was shown what.

import { allowed } from "./actions.js";
import { ask, name } from "./api.js";
import { cliLine, line as command } from "./cli.js";
import { attr, h, newId, text } from "./dom.js";
import { count, dated, many } from "./numbers.js";

const EACH = 10;

export function messagesView({ session }, link, topic) {
  const may = allowed(session, "admin");
  const partition = numberBox("Partition", "0");
  const offset = numberBox("From offset on the source", "");
  const show = h("button", { type: "submit", disabled: !may.ok, title: may.why || null }, "Show records");
  const line = h("p", { class: "soft", "aria-live": "polite" }, may.ok ? "Without an offset the last records of the source are shown." : may.why);
  const told = () => command("mirror", "messages", topic, "--link", link, "--partition", partition.value() || "0", ...(offset.value() ? ["--offset", offset.value()] : []));
  const cli = cliLine(told());
  const body = h("tbody");
  const found = h("div", { class: "messages-box", tabindex: "0", role: "group", "aria-label": `Records of ${topic}`, hidden: true },
    h("table", { class: "messages" }, h("thead", {}, h("tr", {}, ...["Source", "Target", "Equal"].map((each) => h("th", { scope: "col" }, each)))), body));
  const form = h("form", { class: "message-form" }, partition.node, offset.node, show);
  const stop = new AbortController();

  async function look() {
    attr(show, "disabled", true);
    text(line, "Both clusters are being asked.");
    const query = new URLSearchParams({ count: EACH, ...(offset.value() ? { offset: offset.value() } : {}) });
    cli.update(told());
    try {
      const said = await ask("GET", `/v3/links/${name(link)}/mirrors/${name(topic)}/partitions/${partition.value() || "0"}/messages?${query}`, undefined, stop.signal);
      const equal = said.data.filter((pair) => pair.is_equal).length;
      text(line, `${equal} of ${many(said.data.length, "record")} equal. ${range("Source", said.source_range)}; ${range("target", said.target_range)}.`);
      body.replaceChildren(...said.data.map(row));
      attr(found, "hidden", !said.data.length);
    } catch (error) {
      if (stop.signal.aborted) return;
      text(line, error.message);
      attr(found, "hidden", true);
    }
    attr(show, "disabled", false);
  }
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    if (!show.disabled) look();
  });

  return { node: h("section", { "aria-label": "Records on both clusters" }, h("h3", {}, "Records on both clusters"), form, line, cli.node, found), close: () => stop.abort() };
}

function numberBox(label, value) {
  const box = h("input", { type: "number", min: 0, id: newId("number"), value });
  return { node: h("span", {}, h("label", { for: box.id }, label), box), value: () => box.value.trim() };
}

const range = (side, { log_start: start, log_end: end }) => `${side}: offsets ${count(start)} to ${count(end)}`;

function row({ source, target, is_equal: equal }) {
  const both = source && target;
  const verdict = equal ? "yes" : both ? "NO" : "one side";
  return h("tr", {}, cell(source), cell(target), h("td", { class: equal ? "" : "bad" }, verdict));
}

function cell(record) {
  if (!record) return h("td", { class: "soft" }, "nothing here");
  const { offset, timestamp_ms: at, key, value, note } = record;
  const content = note ? h("span", { class: "soft" }, note) : h("code", {}, `${shown(key)} → ${shown(value)}`);
  return h("td", {}, h("span", { class: "soft" }, `${count(offset)} · ${dated(at)}`), h("br"), content);
}

function shown(content) {
  if (!content) return "null";
  const { text: said, encoding, size } = content;
  const length = encoding === "hex" ? said.length / 2 : new TextEncoder().encode(said).length;
  return `${encoding === "hex" ? "0x" : ""}${said}${length < size ? `… (${count(size)} bytes)` : ""}`;
}
