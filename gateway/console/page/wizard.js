// Create a link, with checks as one types; and choose what it mirrors.

import { allowed } from "./actions.js";
import { Refused, ask, name } from "./api.js";
import { cliLine, line } from "./cli.js";
import { attr, h, keyed, say, text } from "./dom.js";
import { count, many } from "./numbers.js";

const WAIT_MS = 450;

export function linkView(context, link = "") {
  return link ? topicsOf(context, link) : newLink(context);
}

function newLink({ session }) {
  const fields = {
    link_name: field("Name of the link", "link-name", { required: true, placeholder: "west" }),
    "bootstrap.servers": field("Brokers of the source", "bootstrap", { required: true, placeholder: "host:9092,host:9092" }),
    "security.protocol": choice("Security protocol", "protocol", ["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]),
    "sasl.mechanism": choice("SASL mechanism", "mechanism", ["SCRAM-SHA-512", "SCRAM-SHA-256", "PLAIN", "OAUTHBEARER"]),
    "sasl.username": field("User", "user", {}),
    "sasl.password": field("Password", "password", { type: "password", autocomplete: "off" }),
  };
  const more = h("textarea", { id: "more", rows: 3, spellcheck: false, placeholder: "ssl.ca.location=/etc/lockgate/ca.crt" });
  const checks = h("ul", { class: "checks", "aria-live": "polite" });
  const create = h("button", { type: "submit", class: "primary", disabled: true }, "Create the link");
  const answer = h("p", { role: "alert", class: "bad", hidden: true });
  const cli = cliLine("");
  const form = h("form", { class: "card wizard", autocomplete: "off" }, ...Object.values(fields).map((each) => each.node),
    h("p", {}, h("label", { for: "more" }, "More client properties and link options, one key=value a line"), more), h("h3", {}, "Checks"), checks, cli.node, answer, h("p", { class: "buttons" }, create));
  const node = h("section", {}, h("h2", {}, "Create a link"), h("p", { class: "soft" }, "A link names the source cluster. Nothing is changed there."), form);
  const may = allowed(session, "admin");
  let timer = 0;
  let running = null;

  function configs() {
    const found = new Map();
    const sasl = fields["security.protocol"].value().startsWith("SASL");
    for (const [key, each] of Object.entries(fields)) {
      if (key === "link_name" || !each.value() || (key.startsWith("sasl.") && !sasl)) continue;
      if (key === "security.protocol" && each.value() === "PLAINTEXT") continue;
      found.set(key, each.value());
    }
    for (const row of more.value.split("\n")) {
      const [key, ...rest] = row.split("=");
      if (key.trim()) found.set(key.trim(), rest.join("=").trim());
    }
    return found;
  }

  function body() {
    return { link_name: fields.link_name.value(), configs: [...configs()].map(([key, value]) => ({ name: key, value })) };
  }

  function command() {
    const said = [...configs()].filter(([key]) => key !== "bootstrap.servers").flatMap(([key, value]) => ["--config", `${key}=${key.includes("password") || key.includes("secret") ? "…" : value}`]);
    return line("link", "create", fields.link_name.value() || "NAME", "--bootstrap", fields["bootstrap.servers"].value() || "HOST:PORT", ...said);
  }

  function typed() {
    const sasl = fields["security.protocol"].value().startsWith("SASL");
    for (const key of ["sasl.mechanism", "sasl.username", "sasl.password"]) attr(fields[key].node, "hidden", !sasl);
    cli.update(command());
    attr(create, "disabled", true);
    clearTimeout(timer);
    running?.abort();
    const missing = ["link_name", "bootstrap.servers"].filter((key) => !fields[key].value());
    show([["Name", fields.link_name.value() ? "…" : "say how it is called", ""], ["Source", fields["bootstrap.servers"].value() ? "…" : "say where its brokers are", ""]]);
    if (!missing.length) timer = setTimeout(check, WAIT_MS);
  }

  async function check() {
    running = new AbortController();
    const mine = running;
    show([["Gateway", "asking the source…", ""]]);
    try {
      const said = await ask("POST", "/v3/links?validate_only=true", body(), mine.signal);
      show([["Name", `${said.link_name} is free`, "ok"], ["Source", `cluster ${said.source_cluster_id} answers`, "ok"], ["Target", `cluster ${said.destination_cluster_id} is another one`, "ok"]]);
      attr(create, "disabled", !may.ok);
      if (!may.ok) show([["Role", may.why, "bad"]]);
    } catch (error) {
      if (error instanceof Refused && !mine.signal.aborted) show([["Refused", error.message, "bad"]]);
    }
  }

  function show(found) {
    keyed(checks, found.map(([label]) => label), () => h("li", {}, h("strong", {}), " ", h("span", {})), (each, label) => {
      const [, said, mark] = found.find(([one]) => one === label);
      attr(each, "class", mark);
      text(each.firstChild, label);
      text(each.lastChild, said);
    });
  }

  form.addEventListener("input", typed);
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    attr(create, "disabled", true);
    attr(answer, "hidden", true);
    try {
      const said = await ask("POST", "/v3/links", body());
      say(`Link ${said.link_name} is created.`);
      location.hash = `#/link/${name(said.link_name)}`;
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      text(answer, error.message);
      attr(answer, "hidden", false);
      attr(create, "disabled", false);
    }
  });
  typed();
  return { node, update() {}, close: () => { clearTimeout(timer); running?.abort(); } };
}

function field(label, id, props) {
  const input = h("input", { type: "text", id, autocomplete: "off", spellcheck: false, ...props });
  return { node: h("p", {}, h("label", { for: id }, label), input), value: () => input.value.trim() };
}

function choice(label, id, words) {
  const select = h("select", { id }, ...words.map((word) => h("option", {}, word)));
  return { node: h("p", {}, h("label", { for: id }, label), select), value: () => select.value };
}

// -- which topics ----------------------------------------------------------------------------------------------

function topicsOf({ store, session }, link) {
  const list = h("ul", { class: "choose" });
  const note = h("p", { class: "soft" }, "Asking the source for its topics…");
  const plan = h("ul", { class: "checks", "aria-live": "polite" });
  const cli = cliLine("");
  const create = h("button", { type: "button", class: "primary", disabled: true, onclick: begin }, "Mirror them");
  const every = h("button", { type: "button", class: "quiet", onclick: () => choose() }, "Choose all");
  const node = h("section", {}, h("p", {}, h("a", { href: "#/lock" }, "The lock")), h("h2", {}, `Topics of link ${link}`), note,
    h("div", { class: "card" }, h("p", {}, every), list, h("h3", {}, "What would be done"), plan, cli.node, h("p", { class: "buttons" }, create)));
  const may = allowed(session, "operator");
  const boxes = new Map();
  let closed = false;
  let turn = 0;

  const chosen = () => [...boxes].filter(([, box]) => box.checked).map(([topic]) => topic);
  const path = `/v3/links/${name(link)}`;

  function choose() {
    for (const box of boxes.values()) box.checked = true;
    consider();
  }

  async function look() {
    try {
      const found = (await ask("GET", `${path}/candidates`)).data.filter((one) => !one.source_topic_name.startsWith("__"));  // the cluster's own
      if (closed) return;
      text(note, found.length ? `${many(found.length, "topic")} of the source that the link does not mirror.` : "The link mirrors every topic of the source.");
      boxes.clear();
      keyed(list, found.map((one) => one.source_topic_name), (topic) => {
        const one = found.find((each) => each.source_topic_name === topic);
        const box = h("input", { type: "checkbox", id: `choose-${topic}`, onchange: consider });
        return h("li", {}, box, h("label", { for: box.id }, one.mirror_topic_name), h("span", { class: "soft" }, ` ${one.reason_detail}`));
      }, (each, topic) => boxes.set(found.find((one) => one.source_topic_name === topic).source_topic_name, each.firstChild));
      consider();
    } catch (error) {
      if (!closed) text(note, error.message);
    }
  }

  // Each one chosen is tried without creating anything.
  async function consider() {
    const mine = ++turn;
    const topics = chosen();
    cli.update(line("mirror", "create", ...(topics.length ? topics : ["TOPIC"]), "--link", link));
    attr(create, "disabled", true);
    show([[`chosen`, many(topics.length, "topic"), ""]]);
    if (!topics.length) return;
    const said = [];
    for (const topic of topics.slice(0, 50)) {
      try {
        const found = await ask("POST", `${path}/mirrors?validate_only=true`, { source_topic_name: topic });
        said.push([topic, `${many(found.num_partitions, "partition")}, replication factor ${found.replication_factor}, offsets ${found.mode === "translate" ? "translated" : "equal"}`, "ok"]);
      } catch (error) {
        if (!(error instanceof Refused)) throw error;
        said.push([topic, error.message, "bad"]);
      }
      if (closed || mine !== turn) return;
    }
    if (topics.length > 50) said.push(["more", `${count(topics.length - 50)} are tried when they are created`, ""]);
    if (!may.ok) said.push(["role", may.why, "bad"]);
    show(said);
    attr(create, "disabled", !may.ok || said.some(([, , mark]) => mark === "bad"));
  }

  function show(found) {
    keyed(plan, found.map(([label]) => label), () => h("li", {}, h("strong", {}), " ", h("span", {})), (each, label) => {
      const [, said, mark] = found.find(([one]) => one === label);
      attr(each, "class", mark);
      text(each.firstChild, label);
      text(each.lastChild, said);
    });
  }

  async function begin() {
    attr(create, "disabled", true);
    const found = [];
    for (const topic of chosen()) {
      try {
        await ask("POST", `${path}/mirrors`, { source_topic_name: topic });
        found.push([topic, "is mirrored", "ok"]);
      } catch (error) {
        if (!(error instanceof Refused)) throw error;
        found.push([topic, error.message, "bad"]);
      }
      show(found);
    }
    say(`${many(found.filter(([, , mark]) => mark === "ok").length, "topic")} are mirrored.`);
    if (found.every(([, , mark]) => mark === "ok")) location.hash = "#/lock";
    else look();
  }

  look();
  return { node, update() {}, close: () => { closed = true; } };
}
