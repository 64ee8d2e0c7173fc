// The same as a line of the lockgate command, to copy.

import { h, say, text } from "./dom.js";

export function quoted(word) {
  return /^[A-Za-z0-9._:,=/@%+-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
}

export const line = (...words) => ["lockgate", ...words.filter((word) => word !== "" && word !== null && word !== undefined).map(quoted)].join(" ");

export function cliLine(said) {
  const code = h("code", {}, said);
  const button = h("button", { type: "button", class: "quiet", onclick: copy }, "Copy");
  async function copy() {
    try {
      await navigator.clipboard.writeText(code.textContent);
      say("Copied.");
      text(button, "Copied");
    } catch {
      getSelection().selectAllChildren(code); // without a clipboard, as over plain HTTP
      text(button, "Selected: press Ctrl+C");
    }
  }
  return {
    node: h("p", { class: "cli" }, h("span", { class: "soft" }, "The same by the command:"), code, button),
    update: (now) => text(code, now),
  };
}
