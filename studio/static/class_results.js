// Keeps the results of a class up to date while a batch runs, without losing the reader's place.
import { ask, listen } from "./studio.js";

const place = document.querySelector("#place");

/** Finds the element that has the focus again in a newer page. */
function focused() {
  const element = place.contains(document.activeElement) ? document.activeElement : null;
  const details = element?.closest("[data-key]");
  if (element?.id) return () => document.getElementById(element.id);
  if (element?.matches("thead button")) {
    const column = element.parentElement.cellIndex;
    return () => place.querySelectorAll("#table thead th")[column]?.querySelector("button");
  }
  if (element?.matches("summary")) return () => find(details.dataset.key)?.querySelector("summary");
  return () => null;
}

const find = (key) => place.querySelector(`[data-key="${CSS.escape(key)}"]`);

listen("/events", {
  changed: async () => {
    const response = await ask("/article").catch(() => undefined);
    if (!response?.ok) return;
    const text = await response.text();
    const open = [...place.querySelectorAll("details[open]")].map((details) => details.dataset.key);
    const focus = focused();
    const top = window.scrollY;
    place.innerHTML = text;
    for (const key of open) find(key)?.setAttribute("open", "");
    document.dispatchEvent(new Event("class-changed"));
    window.scrollTo(0, top);
    focus()?.focus({ preventScroll: true });
  },
});
