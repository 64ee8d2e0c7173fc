// Elements that stay: a node is made once for its key, and only what says something else is written to it. Everything
// that comes from the gateway is put in as text, never as markup.

const SVG = "http://www.w3.org/2000/svg";

export function h(tag, props = {}, ...children) {
  const node = document.createElement(tag);
  return filled(node, props, children);
}

export function svg(tag, props = {}, ...children) {
  const node = document.createElementNS(SVG, tag);
  return filled(node, props, children);
}

function filled(node, props, children) {
  for (const [name, value] of Object.entries(props)) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else attr(node, name, value);
  }
  node.append(...children.filter((child) => child !== null && child !== undefined && child !== false));
  return node;
}

// null, undefined and false take the attribute away.
export function attr(node, name, value) {
  if (value === null || value === undefined || value === false) {
    if (node.hasAttribute(name)) node.removeAttribute(name);
  } else {
    const said = value === true ? "" : String(value);
    if (node.getAttribute(name) !== said) node.setAttribute(name, said);
  }
}

export function text(node, value) {
  const said = String(value);
  if (node.textContent !== said) node.textContent = said;
}

// Children of `parent` by key, in this order. Nodes that are in their place already are not touched.
export function keyed(parent, keys, make, update) {
  const nodes = parent.keyedNodes || (parent.keyedNodes = new Map());
  const wanted = new Set(keys);
  for (const [key, node] of nodes) {
    if (!wanted.has(key)) {
      node.remove();
      nodes.delete(key);
    }
  }
  let place = parent.firstChild;
  for (const key of keys) {
    let node = nodes.get(key);
    if (!node) {
      node = make(key);
      nodes.set(key, node);
    }
    if (node === place) place = place.nextSibling;
    else parent.insertBefore(node, place);
    if (update) update(node, key);
  }
}

let ids = 0;
export const newId = (word) => `${word}-${++ids}`;

// Told to screen readers once, politely.
export function say(line) {
  text(document.getElementById("said"), line);
}
