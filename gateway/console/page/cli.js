// The same as a line of the lockgate command, to copy.

import { copyButton } from "./copy.js";
import { h, text } from "./dom.js";

export function quoted(word) {
  return /^[A-Za-z0-9._:,=/@%+-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
}

export const line = (...words) => ["lockgate", ...words.filter((word) => word !== "" && word !== null && word !== undefined).map(quoted)].join(" ");

export function cliLine(said) {
  const code = h("code", {}, said);
  const button = copyButton(() => code.textContent, "the command", code);
  return {
    node: h("p", { class: "cli" }, h("span", { class: "soft" }, "The same by the command:"), code, button),
    update: (now) => text(code, now),
  };
}
