// What every page does: the theme, requests, events, and what to say while the studio does not answer.

const THEMES = ["system", "light", "dark"];
const themeButton = document.querySelector("#theme");

themeButton.addEventListener("click", () => {
  const now = document.documentElement.dataset.theme ?? "system";
  const next = THEMES[(THEMES.indexOf(now) + 1) % THEMES.length];
  if (next === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = next;
  document.cookie = `theme=${next}; path=/; samesite=strict; max-age=${next === "system" ? 0 : 31536000}`;
  themeButton.textContent = `Theme: ${next}`;
});

const offline = document.querySelector("#offline");

/** Says whether the studio answers. */
export function online(answers) {
  offline.hidden = answers;
}

/** Sends JSON to the studio. Returns the status and the JSON that comes back; the status is 0 if nothing does. */
export async function send(path, method = "GET", body = undefined) {
  try {
    const headers = body === undefined ? {} : { "Content-Type": "application/json" };
    const response = await fetch(path, { method, headers, body: body === undefined ? undefined : JSON.stringify(body) });
    online(true);
    const text = await response.text();
    return { status: response.status, body: text ? JSON.parse(text) : {} };
  } catch {
    online(false);
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
    source = new EventSource(path);
    source.onopen = () => online(true);
    source.onerror = () => {
      close();
      online(false);
      retry = setTimeout(open, RETRY);
    };
    for (const [kind, handle] of Object.entries(handlers)) {
      source.addEventListener(kind, (event) => handle(JSON.parse(event.data)));
    }
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
