// What a button is about to do, in numbers, before it does it. What is dangerous asks for the name besides.

import { Refused } from "./api.js";
import { cliLine } from "./cli.js";
import { attr, h, newId, say, text } from "./dom.js";

const PROBLEMS = 20;

// action: {label, title, danger, name, role, cli, plan() -> {facts: [[label, text]], blockers: [line], lines: [line]},
// run(options) -> line, options: [{key, label, value}]}. A plan may have `problems`: nothing is refused for them. `name` may be a function of the options.
export function confirmAction(action, allowed) {
  const title = newId("dialog");
  const body = h("div", { class: "dialog-body", "aria-live": "polite" }, h("p", { class: "soft" }, "Asking the gateway what it would do…"));
  const answer = h("p", { role: "alert", class: "bad", hidden: true });
  const wanted = h("code", {});
  const input = h("input", { type: "text", autocomplete: "off", spellcheck: "false", id: newId("name") });
  const named = h("p", { class: "named", hidden: !action.danger }, h("label", { for: input.id }, "Type ", wanted, " to go on"), input);
  const options = (action.options || []).map((each) => ({ ...each, ...(each.type === "names" ? names(each) : option(each)) }));
  for (const each of options) each.node.addEventListener("change", () => consider());
  const cli = cliLine("");
  const go = h("button", { type: "submit", class: action.danger ? "danger" : "primary", disabled: true }, action.label.replace(/…$/, ""));
  const cancel = h("button", { type: "button", onclick: () => dialog.close() }, "Cancel");
  const form = h("form", { method: "dialog" }, h("h2", { id: title }, action.title), body, ...options.map((each) => each.node), named, cli.node, answer, h("p", { class: "buttons" }, cancel, go));
  const dialog = h("dialog", { "aria-labelledby": title }, form);
  let planned = null;
  let busy = false;
  let turn = 0; // an answer to what was chosen before says nothing any more

  function chosen() {
    const found = Object.fromEntries(options.map((each) => [each.key, each.read()]));
    for (const each of options) {
      if (!each.unless) continue;
      attr(each.node, "disabled", found[each.unless]);
      if (found[each.unless]) found[each.key] = [];
    }
    return found;
  }
  const asksFor = () => (typeof action.name === "function" ? action.name(chosen()) : action.name || "");

  function ready() {
    const typed = !action.danger || input.value === asksFor();
    attr(go, "disabled", !planned || planned.blocked || !typed || busy || !allowed.ok);
    attr(go, "title", allowed.ok ? null : allowed.why);
  }

  async function consider() {
    const mine = ++turn;
    planned = null;
    text(wanted, asksFor());
    ready();
    cli.update(action.cli(chosen()));
    try {
      const plan = await action.plan(chosen());
      if (mine !== turn) return;
      planned = { blocked: Boolean(plan.blockers && plan.blockers.length) };
      body.replaceChildren(...told(plan));
      if (!allowed.ok) body.append(h("p", { class: "bad" }, allowed.why));
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      if (mine !== turn) return;
      planned = { blocked: true };
      body.replaceChildren(h("p", { class: "bad" }, `It would be refused: ${error.message}`));
    }
    ready();
  }

  input.addEventListener("input", ready);
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    if (go.disabled) return;
    busy = true;
    ready();
    text(go, "…");
    attr(answer, "hidden", true);
    try {
      const done = await action.run(chosen());
      if (done && done.stay) {
        body.replaceChildren(...told(done));
        attr(go, "hidden", true);
        text(cancel, "Close");
        attr(named, "hidden", true);
        options.forEach((each) => attr(each.node, "hidden", true));
      } else {
        say(done || "Done.");
        dialog.close();
      }
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      text(answer, error.message);
      attr(answer, "hidden", false);
    }
    busy = false;
    text(go, action.label);
    ready();
  });
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
  consider();
  return dialog;
}

// A box to tick, or a number.
function option(each) {
  const number = each.type === "number";
  const box = h("input", { type: each.type || "checkbox", id: newId("option"), ...(number ? { value: each.value, min: 0 } : {}) });
  return { node: h("p", { class: "option" }, box, h("label", { for: box.id }, each.label)), read: () => (number ? Number(box.value) : box.checked) };
}

// Some of many names, each with its box.
function names(each) {
  const boxes = each.names.map((one) => h("input", { type: "checkbox", id: newId("option"), value: one }));
  const list = h("ul", { class: "choose" }, ...boxes.map((box) => h("li", {}, box, h("label", { for: box.id }, box.value))));
  return { node: h("fieldset", { class: "option" }, h("legend", {}, each.label), list), read: () => boxes.filter((box) => box.checked).map((box) => box.value) };
}

function told({ facts = [], lines = [], problems = [], blockers = [], ready = null }) {
  const found = [];
  if (ready) found.push(readiness(ready));
  if (facts.length) found.push(h("dl", { class: "facts wide" }, ...facts.map(([label, said]) => h("div", {}, h("dt", {}, label), h("dd", {}, String(said))))));
  if (lines.length) found.push(h("ul", { class: "lines" }, ...lines.map((one) => h("li", {}, one))));
  if (problems.length) found.push(h("p", { class: "bad" }, "What only a person can mend, before it goes on there:"), h("ul", { class: "lines bad" }, ...problems.slice(0, PROBLEMS).map((one) => h("li", {}, one))));
  if (blockers.length) found.push(h("p", { class: "bad" }, "It would be refused:"), h("ul", { class: "lines bad" }, ...blockers.map((one) => h("li", {}, one))));
  return found.length ? found : [h("p", {}, "Nothing is in the way.")];
}

// The readiness list: what is missing, what it costs, and the remedy.
function readiness(judged) {
  const all = judged.applications.flatMap((one) => one.findings);
  const head = h("p", { class: "score" }, h("strong", {}, `Readiness ${judged.score} of 100`), all.length ? "" : ": nothing is missing.");
  const items = all.map((one) => h("li", { class: one.weight === "BLOCKS" ? "bad" : "" }, h("strong", {}, `−${one.points} `), one.reason, h("br"), h("span", { class: "soft" }, one.remedy)));
  return h("section", { "aria-label": "Readiness" }, head, h("ul", { class: "findings" }, ...items));
}
