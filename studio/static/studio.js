// What every page does: the theme, requests, events, what to say while the studio does not answer, and what after it started again.

const THEMES = ["system", "light", "dark"];
const { prefix } = document.documentElement.dataset; // of all addresses, where a proxy stands before the studio
const themeButton = document.querySelector("#theme");

themeButton.addEventListener("click", () => {
  const now = document.documentElement.dataset.theme ?? "system";
  const next = THEMES[(THEMES.indexOf(now) + 1) % THEMES.length];
  if (next === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = next;
  document.cookie = `theme=${next}; path=${prefix}/; samesite=strict; max-age=${next === "system" ? 0 : 31536000}`;
  themeButton.textContent = `Theme: ${next}`;
});

const [offline, outdated, renewal] = ["#offline", "#outdated", "meta[name=renewal]"].map((selector) => document.querySelector(selector));

/** Shows that the studio answers, and whether it knows this page. */
function answered(knows) {
  offline.hidden = true;
  outdated.hidden = knows;
}

/** Shows that the studio does not answer. */
function silent() {
  offline.hidden = !outdated.hidden;
}

// All pages are below a path that is new at each start of the studio.
let root = document.documentElement.dataset.root;

/** The address of a page of the studio. */
export const at = (path) => root + path;

/** A message as nodes, with what stands in backquotes as code. */
export function coded(message) {
  return message.split(/`([^`]+)`/).map((part, index) => {
    if (index % 2 === 0) return part;
    const code = document.createElement("code");
    code.textContent = part;
    return code;
  });
}

// With this key a page gets the path of another start. It stays in this script, and is never sent.
let key = renewal.content;
renewal.remove();

let renewing;

/** Asks for the path and the cookie of the studio's present start. Returns whether the studio knows this page. */
function renewed() {
  renewing ??= renew().finally(() => (renewing = undefined));
  return renewing;
}

async function renew() {
  const { challenge } = await (await fetch(`${prefix}/renewal`)).json();
  const response = await fetch(`${prefix}/renewal`, { method: "POST", body: await signature(`${location.host} ${challenge}`) });
  if (response.ok) {
    const now = await response.json();
    if (now.proof !== (await signature(`${now.path} ${challenge}`))) throw new Error("This is not the studio.");
    move(now.path);
    key = now.key;
  }
  answered(response.ok);
  return response.ok;
}

async function signature(text) {
  const bytes = (text) => new TextEncoder().encode(text);
  const signing = await crypto.subtle.importKey("raw", bytes(key), { name: "HMAC", hash: "SHA-256" }, false, ["sign"]);
  const signed = new Uint8Array(await crypto.subtle.sign("HMAC", signing, bytes(text)));
  return [...signed].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}

function move(path) {
  for (const link of document.querySelectorAll(`a[href^="${root}/"], link[rel=icon]`)) {
    link.setAttribute("href", path + link.getAttribute("href").slice(root.length));
  }
  history.replaceState(history.state, "", path + location.href.slice(location.origin.length + root.length));
  root = path;
}

/** Like `fetch`, for a page of the studio, also when it has been started again. */
export async function ask(path, options) {
  const response = await fetch(at(path), options);
  const isRefused = response.status === 403 && !response.headers.get("Content-Type").includes("json");
  return isRefused && (await renewed()) ? fetch(at(path), options) : response;
}

/** Sends JSON to the studio. Returns the status and the JSON that comes back; the status is 0 if nothing does. */
export async function send(path, method = "GET", body = undefined) {
  try {
    const headers = body === undefined ? {} : { "Content-Type": "application/json" };
    const response = await ask(path, { method, headers, body: body === undefined ? undefined : JSON.stringify(body) });
    const text = await response.text();
    const answer = { status: response.status, body: text ? JSON.parse(text) : {} };
    answered(true);
    return answer;
  } catch {
    silent();
    return { status: 0, body: { error: "The studio does not answer." } };
  }
}

const RETRY = 1000; // milliseconds

/**
 * Listens to a stream of events while the page is visible: a browser allows few connections, and pages may be many.
 * `handlers` are called with the data of each event, by kind.
 */
export function listen(path, handlers) {
  let source;
  let retry;

  function open() {
    if (source || document.hidden) return;
    source = new EventSource(at(path));
    source.onopen = () => answered(true);
    source.onerror = () => {
      close();
      silent();
      retry = setTimeout(reopen, RETRY);
    };
    for (const [kind, handle] of Object.entries(handlers)) {
      source.addEventListener(kind, (event) => handle(JSON.parse(event.data)));
    }
  }

  async function reopen() {
    if (document.hidden) return;
    if (await renewed().catch(() => false)) open();
    else retry = setTimeout(reopen, RETRY);
  }

  function close() {
    clearTimeout(retry);
    source?.close();
    source = undefined;
  }

  document.addEventListener("visibilitychange", () => (document.hidden ? close() : open()));
  window.addEventListener("pagehide", close);
  window.addEventListener("pageshow", open);
  open();
}
