// The gateway, asked with the tab's token: requests, and the feed (SSE over fetch, since EventSource sends no token).

const KEY = "lockgate.token";

export class Refused extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

export const token = {
  get: () => sessionStorage.getItem(KEY) || "",
  set: (value) => sessionStorage.setItem(KEY, value),
  forget: () => sessionStorage.removeItem(KEY),
};

function headers(body) {
  const said = {};
  if (token.get()) said.Authorization = `Bearer ${token.get()}`;
  if (body !== undefined) said["Content-Type"] = "application/json";
  return said;
}

// The decoded answer; null of an empty one. Throws Refused with the gateway's own line.
export async function ask(method, path, body, signal) {
  let found;
  try {
    found = await fetch(path, {
      method,
      headers: headers(body),
      body: body === undefined ? undefined : JSON.stringify(body),
      credentials: "omit",
      redirect: "error",
      signal,
    });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Refused(0, `the gateway does not answer (${error.message})`);
  }
  const content = await found.text();
  let said = null;
  try {
    said = content ? JSON.parse(content) : null;
  } catch {
    said = { message: content };
  }
  if (!found.ok) throw new Refused(found.status, (said && said.message) || `HTTP ${found.status}`);
  return said;
}

export const name = (value) => encodeURIComponent(value);

// Of a verb on several mirror topics of a link; `dry`: nothing is changed.
export const mirrorsPath = (link, verb, dry) => `/v3/links/${name(link)}/mirrors:${verb}${dry ? "?validate_only=true" : ""}`;

// Tells `on.EVENT(data)` of each event until the stream ends. Throws Refused when it does not begin.
export async function listen(on, signal) {
  const found = await fetch("/console/feed", { headers: headers(), credentials: "omit", redirect: "error", signal });
  if (!found.ok) {
    const said = await found.json().catch(() => ({}));
    throw new Refused(found.status, said.message || `HTTP ${found.status}`);
  }
  const reader = found.body.pipeThrough(new TextDecoderStream()).getReader();
  let kept = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const parts = (kept + value).split("\n\n");
    kept = parts.pop();
    for (const part of parts) {
      const lines = part.split("\n");
      const event = lines.find((line) => line.startsWith("event: "));
      const data = lines.find((line) => line.startsWith("data: "));
      if (event && data && on[event.slice(7)]) on[event.slice(7)](JSON.parse(data.slice(6)));
    }
  }
}
