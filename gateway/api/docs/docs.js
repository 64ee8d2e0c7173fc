// The API as a page: one folding row per operation, and a form to try it. Everything that comes from the document or an
// answer is put in as text, never as markup.
"use strict";

const KEY = "lockgate.token";
const byId = (id) => document.getElementById(id);

function make(tag, options = {}, ...inner) {
  const made = Object.assign(document.createElement(tag), options);
  made.append(...inner);
  return made;
}

async function ask(method, path, body) {
  const headers = { Authorization: `Bearer ${sessionStorage.getItem(KEY) || ""}` };
  if (body) headers["Content-Type"] = "application/json";
  return fetch(path, { method, headers, body: body || undefined, credentials: "omit", redirect: "error" });
}

function resolved(schema, components, deep = 0) {
  if (!schema || deep > 8) return null;
  if (schema.$ref) return resolved(components[schema.$ref.split("/").pop()], components, deep + 1);
  if (schema.examples) return schema.examples[0];
  if (schema.anyOf) return resolved(schema.anyOf.find((one) => one.type !== "null"), components, deep + 1);
  if (schema.default !== undefined) return schema.default;
  if (schema.type === "array") return [resolved(schema.items, components, deep + 1)];
  if (schema.type === "object") {
    const names = Object.entries(schema.properties || {});
    return Object.fromEntries(names.map(([name, one]) => [name, resolved(one, components, deep + 1)]));
  }
  if (schema.enum) return schema.enum[0];
  return { integer: 0, number: 0, boolean: false, string: "" }[schema.type] ?? null;
}

function operation(method, path, said, components) {
  const inputs = (said.parameters || []).map((one) => {
    const id = `${method} ${path} ${one.name}`;
    const input = make("input", { id, required: one.required });
    const label = make("label", { htmlFor: id }, one.name, " ", make("small", {}, one.in));
    return { one, input, row: make("div", { className: "field" }, label, input) };
  });
  const content = said.requestBody && said.requestBody.content["application/json"];
  const body = content && make("textarea", {
    ariaLabel: "Body", spellcheck: false, value: JSON.stringify(resolved(content.schema, components), null, 2),
  });
  const answer = make("pre", { hidden: true, tabIndex: 0 });
  const form = make("form", {}, ...inputs.map((each) => each.row), ...(body ? [body] : []),
    make("p", {}, make("button", { type: "submit" }, "Send")), answer);
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const query = new URLSearchParams();
    let target = path;
    for (const { one, input } of inputs) {
      if (one.in === "path") target = target.replace(`{${one.name}}`, encodeURIComponent(input.value));
      else if (input.value) query.append(one.name, input.value);
    }
    answer.hidden = false;
    answer.textContent = "…";
    try {
      const found = await ask(method.toUpperCase(), target + (query.size ? `?${query}` : ""), body && body.value);
      const text = await found.text();
      let shown = text;
      try { shown = JSON.stringify(JSON.parse(text), null, 2); } catch { /* not JSON: as it is */ }
      answer.textContent = `${found.status} ${found.statusText}\n${shown}`;
    } catch (error) {
      answer.textContent = `no answer: ${error.message}`;
    }
  });
  return make("details", {},
    make("summary", {}, make("span", { className: "method" }, method.toUpperCase()),
      make("span", { className: "path" }, path), make("span", { className: "what" }, said.summary || ""), make("span", { className: "role" }, said["x-lockgate-role"])),
    make("div", {}, ...(said.description ? [make("p", {}, said.description)] : []), form));
}

function show(api) {
  byId("version").textContent = api.info.version;
  const components = (api.components || {}).schemas || {};
  const groups = new Map();
  for (const [path, methods] of Object.entries(api.paths)) {
    for (const [method, said] of Object.entries(methods)) {
      const tag = (said.tags || ["other"])[0];
      if (!groups.has(tag)) groups.set(tag, make("section", {}, make("h2", {}, tag)));
      groups.get(tag).append(operation(method, path, said, components));
    }
  }
  byId("operations").replaceChildren(...groups.values());
}

async function enter() {
  const problem = byId("problem");
  problem.hidden = true;
  try {
    const found = await ask("GET", "/openapi.json");
    if (!found.ok) throw new Error((await found.json()).message);
    show(await found.json());
  } catch (error) {
    problem.textContent = error.message;
    problem.hidden = false;
    sessionStorage.removeItem(KEY);
  }
  const known = sessionStorage.getItem(KEY) !== null;
  byId("enter").hidden = known;
  byId("forget").hidden = !known;
}

byId("enter").addEventListener("submit", (event) => {
  event.preventDefault();
  sessionStorage.setItem(KEY, byId("token").value.trim());
  byId("token").value = "";
  enter();
});
byId("forget").addEventListener("click", () => {
  sessionStorage.removeItem(KEY);
  byId("operations").replaceChildren();
  byId("enter").hidden = false;
  byId("forget").hidden = true;
});
if (sessionStorage.getItem(KEY) !== null) enter();
