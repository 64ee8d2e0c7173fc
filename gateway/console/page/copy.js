// Buttons that copy what somebody would else type off the screen.

import { h, say, text } from "./dom.js";

// `read`: what is copied. `what`: for screen readers; `node`: what is selected where there is no clipboard.
export function copyButton(read, what, node = null) {
  const button = h("button", { type: "button", class: "quiet copy", "aria-label": `Copy ${what}`, onclick: copy }, "Copy");
  async function copy() {
    try {
      await navigator.clipboard.writeText(read());
      say(`Copied ${what}.`);
      text(button, "Copied");
      setTimeout(() => text(button, "Copy"), 2000);
    } catch {
      if (node) getSelection().selectAllChildren(node); // without a clipboard, as over plain HTTP
      text(button, node ? "Selected: press Ctrl+C" : "No clipboard here");
    }
  }
  return button;
}

// A heading of an object with its name to copy.
export function named(value, what) {
  const said = h("span", {}, value);
  return [h("h2", {}, said), copyButton(() => value, `the name of this ${what}`, said)];
}
