// Apply a migration file: pasted, chosen, or drafted by discovery; read by the gateway as one types, held against the
// world, and applied when somebody has seen what would be done.

import { allowed } from "./actions.js";
import { Refused, ask, name } from "./api.js";
import { cliLine, line } from "./cli.js";
import { confirmAction } from "./dialog.js";
import { attr, h, keyed, text } from "./dom.js";
import { applyAction, dryRun } from "./migration_actions.js";
import { count, many } from "./numbers.js";
import { asYaml, diff, problemsOf } from "./plan.js";

const WAIT_MS = 500;
const MOST = 1_048_576; // bytes, as the gateway's own bound
const EXAMPLE = "migration: west\nlink: west\napplications:\n- name: billing\n  topics: [orders, invoices-*]\n  groups: [billing]\n";

export function migrationFileView(context, migration = "") {
  const { store, session } = context;
  const may = allowed(session, "operator");
  const chooser = h("input", { type: "file", id: "file-choose", accept: ".yaml,.yml,.json,text/*", onchange: choose });
  const link = h("select", { id: "file-link" });
  const draft = h("button", { type: "button", class: "quiet", onclick: drafted }, "Draft it");
  const drafts = h("p", { class: "bar" }, h("label", { for: "file-link" }, "Or what is found on the source of "), link, draft);
  const note = h("p", { class: "soft", role: "status" });
  const area = h("textarea", { id: "file-text", rows: 16, spellcheck: false, autocomplete: "off", placeholder: EXAMPLE, wrap: "off", "aria-describedby": "file-checks" });
  const checks = h("ul", { class: "checks", id: "file-checks", "aria-live": "polite" });
  const plan = diff("What would be done");
  const planned = h("section", { "aria-label": "Dry run", hidden: true }, h("h3", {}, "What would be done"), plan.node);
  const cli = cliLine("");
  const apply = h("button", { type: "submit", class: "danger", disabled: true }, "Apply…");
  const form = h("form", { class: "card wizard file", autocomplete: "off" }, h("p", { class: "bar" }, h("label", { for: "file-choose" }, "Choose a file "), chooser), drafts, note,
    h("p", {}, h("label", { for: "file-text" }, "The migration file (YAML)"), area), h("h3", {}, "Checks"), checks, planned, cli.node, h("p", { class: "buttons" }, apply));
  const node = h("section", {}, h("p", {}, h("a", { href: "#/migrations" }, "All migrations")), h("h2", {}, migration ? `File of migration ${migration}` : "Apply a migration file"),
    h("p", { class: "soft" }, "It describes the desired state. Nothing is done before you have seen what is missing, and applied it."), form);
  let called = ""; // the chosen file's name
  let file = null; // as the gateway has read it, when nothing is wrong
  let timer = 0;
  let running = null;
  let closed = false;

  const command = () => called || `${(file && file.migration) || migration || "migration"}.yaml`;

  function put(words, from) {
    area.value = words;
    text(note, from);
    typed();
  }

  async function choose() {
    const [chosen] = chooser.files;
    if (!chosen) return;
    called = chosen.name;
    if (chosen.size > MOST) return refuse(`${chosen.name}: a migration file has ${count(MOST)} bytes at most; this one has ${count(chosen.size)}`);
    try {
      put(new TextDecoder("utf-8", { fatal: true }).decode(await chosen.arrayBuffer()), `${chosen.name}, ${many(chosen.size, "byte")}`);
    } catch {
      refuse(`${chosen.name}: it is no text in UTF-8`);
    }
  }

  async function drafted() {
    const from = link.value;
    text(note, `Asking the source of link ${from} what belongs together…`);
    attr(draft, "disabled", true);
    try {
      const found = await ask("GET", `/v3/links/${name(from)}/migration-discovery`);
      if (closed) return;
      called = "";
      if (found.file) put(found.file, `A draft of what was found on the source of link ${from}: read it, and change it.`);
      else text(note, `The source of link ${from} has no topic and no group: there is nothing to draft.`);
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      text(note, error.message);
    }
    attr(draft, "disabled", false);
  }

  function stop() {
    clearTimeout(timer);
    running?.abort();
    file = null;
    attr(apply, "disabled", true);
    attr(planned, "hidden", true);
    cli.update(line("migration", "apply", command(), "--dry-run"));
  }

  function refuse(words) {
    stop();
    show([["File", words, "bad"]]);
  }

  function typed() {
    stop();
    if (!migration) session.draft = area.value;
    if (!area.value.trim()) return show([["File", "paste it, or choose one", ""]]);
    const size = new Blob([area.value]).size;
    if (size > MOST) return refuse(`a migration file has ${count(MOST)} bytes at most; this one has ${count(size)}`);
    show([["File", "…", ""]]);
    timer = setTimeout(check, WAIT_MS);
  }

  async function check() {
    running = new AbortController();
    const { signal } = running;
    const found = [];
    try {
      const said = await ask("POST", "/v3/migrations:check", { text: area.value }, signal);
      if (signal.aborted) return;
      if (!said.file) return wrong(said);
      file = said.file;
      found.push(["File", inWords(file), "ok"]);
      if (migration && file.migration !== migration) found.push(["Name", `this is a file of migration ${file.migration}, not of ${migration}: it would be another one`, ""]);
      cli.update(line("migration", "apply", command(), "--dry-run"));
      if (!may.ok) return show([...found, ["Role", may.why, "bad"]]);
      show([...found, ["Dry run", "asking the gateway…", ""]]);
      const left = await dryRun(file, signal);
      if (signal.aborted) return;
      const problems = problemsOf(left);
      plan.update(left);
      attr(planned, "hidden", false);
      show([...found, ["Dry run", `link ${left.link_name}; ${many(problems.length, "problem")}`, "ok"], ...problems.slice(0, 20).map((one, at) => [`Problem ${at + 1}`, one, "bad"])]);
      attr(apply, "disabled", false);
    } catch (error) {
      if (error.name === "AbortError" || signal.aborted) return;
      if (!(error instanceof Refused)) throw error;
      show([...found, ["Refused", error.message, "bad"]]);
    }
  }

  function wrong({ problems, more_problems: more }) {
    const lines = problems.map((one, at) => [one.line === null ? `Problem ${at + 1}` : `Line ${one.line}`, one.message, "bad", one.line]);
    show(more ? [...lines, ["More", `${count(more)} besides`, "bad"]] : lines);
  }

  // [label, words, mark, line]: where there is a line, the label goes there.
  function show(found) {
    const rows = new Map(found.map((one, at) => [`${at} ${one[0]} ${one[3] ? "line" : ""}`, one]));
    keyed(checks, [...rows.keys()], (key) => {
      const [label, , , at] = rows.get(key);
      return h("li", {}, at ? h("button", { type: "button", class: "line", onclick: () => goTo(at) }, label) : h("strong", {}, label), " ", h("span", {}));
    }, (each, key) => {
      const [, words, mark] = rows.get(key);
      attr(each, "class", mark);
      text(each.lastChild, words);
    });
  }

  function goTo(at) {
    const lines = area.value.split("\n");
    const begin = lines.slice(0, at - 1).reduce((sum, one) => sum + one.length + 1, 0);
    area.focus();
    area.setSelectionRange(begin, begin + (lines[at - 1] || "").length);
    area.scrollTop = Math.max(0, (at - 4) * parseFloat(getComputedStyle(area).lineHeight));
  }

  async function theirs() {
    try {
      const said = await ask("GET", `/v3/migrations/${name(migration)}`);
      if (!closed && !area.value) put(asYaml(said.file), "As it was applied last.");
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      if (!closed) text(note, error.message);
    }
  }

  area.addEventListener("input", typed);
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    if (apply.disabled || !file) return;
    const before = Object.values(store.rows("applications")).find((one) => one.migration === file.migration);
    const action = applyAction(file, before, command());
    const run = async () => {
      const done = await action.run();
      session.draft = "";
      return done;
    };
    confirmAction({ ...action, run }, may);
  });
  attr(apply, "title", may.ok ? null : may.why);
  if (migration) theirs();
  else area.value = session.draft || "";
  typed();
  return {
    node,
    update() {
      const links = Object.values(store.rows("links")).map((one) => one.link);
      keyed(link, links, (each) => h("option", {}, each));
      attr(drafts, "hidden", links.length === 0);
    },
    close() {
      closed = true;
      stop();
    },
  };
}

function inWords(file) {
  const names = (what) => file.applications.reduce((total, one) => total + (one[what] || []).length, 0);
  return `migration ${file.migration}: ${many(file.applications.length, "application")}, ${many(names("topics"), "name")} of topics, ${count(names("groups"))} of groups`;
}
