// What is left of a migration, as the gateway has resolved it: a line for each step, as a diff, and all of it in numbers.

import { h, keyed, text } from "./dom.js";
import { count, many } from "./numbers.js";

const SIGNS = {
  CREATE_MIRROR: ["+", "mirror topic"],
  DECLARE_GROUP: ["+", "mirror group"],
  PROMOTE_GROUP: ["~", "promote group"],
  PROMOTE_TOPICS: ["~", "promote topics"],
  PROMOTE_TOGETHER: ["~", "promote together"],
};
const SHOWN = 200;
const NAMED = 8;

export const some = (names, most = NAMED) => names.slice(0, most).join(", ") + (names.length > most ? ` and ${count(names.length - most)} more` : "");

const stepsOf = (data) => data.applications.flatMap((one) => one.steps.map((step) => ({ ...step, application: one.name })));

export const problemsOf = (data) => [...data.problems, ...data.applications.flatMap((one) => one.problems.map((each) => `${one.name}: ${each}`))];

// The diff; what was there before stays where it is.
export function diff(label) {
  const list = h("ul", { class: "diff", tabindex: 0, "aria-label": label });
  const sum = h("p", { class: "soft" });
  return {
    node: h("div", {}, list, sum),
    update(data) {
      const steps = stepsOf(data);
      const lines = new Map(steps.slice(0, SHOWN).map((step) => {
        const [sign, what] = SIGNS[step.kind] || ["~", step.kind];
        const line = `${step.application}: ${what} ${some([...step.topics, ...step.groups])}`;
        return [line, { sign, waits: step.waits_for && ` waits: ${step.waits_for}` }];
      }));
      for (const one of data.applications) {
        if (one.steps_beyond && lines.size < SHOWN) lines.set(`${one.name}: until ${one.until}; ${many(one.steps_beyond, "step")} more beyond that`, { sign: " ", waits: "" });
      }
      keyed(list, [...lines.keys()], (line) => h("li", { class: { "+": "new", "~": "moves" }[lines.get(line).sign] }, h("code", {}, lines.get(line).sign), h("span", {}, line, h("span", { class: "soft" }))),
        (node, line) => text(node.lastChild.lastChild, lines.get(line).waits));
      text(sum, steps.length === 0 ? "Nothing is left to be done." : steps.length > SHOWN ? `${count(steps.length)} steps are left; the first ${SHOWN} are shown.` : `${many(steps.length, "step is", "steps are")} left.`);
    },
  };
}

// [label, value], for a dialog.
export function inNumbers(data) {
  const steps = stepsOf(data);
  const names = (kinds, what) => steps.filter((step) => kinds.includes(step.kind)).reduce((total, step) => total + step[what].length, 0);
  const promotes = ["PROMOTE_TOPICS", "PROMOTE_TOGETHER"];
  return [
    ["Applications", count(data.applications.length)],
    ["Topics that are mirrored", count(names(["CREATE_MIRROR"], "topics"))],
    ["Groups that are declared", count(names(["DECLARE_GROUP"], "groups"))],
    ["Groups that change sides", count(names(["PROMOTE_GROUP", "PROMOTE_TOGETHER"], "groups"))],
    ["Topics that change sides", count(names(promotes, "topics"))],
    ["Steps that wait for nothing", `${count(steps.filter((step) => !step.waits_for).length)} of ${count(steps.length)}`],
  ];
}

// The file as YAML, as somebody may go on with it: a key a line, an application a paragraph.
export function asYaml(file) {
  const lines = Object.entries(file).filter(([key]) => key !== "applications").map(([key, value]) => `${key}: ${flow(value)}`);
  lines.push("applications:");
  for (const one of file.applications) lines.push(...Object.entries(one).map(([key, value], at) => `${at ? "  " : "- "}${key}: ${flow(value)}`));
  return `${lines.join("\n")}\n`;
}

// Words that YAML takes for something else stay in quotes, and so does whatever is not a plain word.
function flow(value) {
  if (Array.isArray(value)) return `[${value.map(flow).join(", ")}]`;
  if (value && typeof value === "object") return `{${Object.entries(value).map(([key, each]) => `${flow(key)}: ${flow(each)}`).join(", ")}}`;
  const plain = typeof value === "string" && /^[A-Za-z][A-Za-z0-9._-]*\*?$/.test(value) && !/^(y|n|yes|no|on|off|true|false|null)$/i.test(value);
  return plain ? value : JSON.stringify(value);
}
