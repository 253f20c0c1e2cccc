// The views of a problem. A wide window shows the page, the code, and one of the others; a narrow one shows one at a time.

import { mark, tablist } from "./tabs.js";

const NARROW = matchMedia("(max-width: 63.99rem)");
const $ = (id) => document.getElementById(id);
const list = $("views");
const tabs = tablist(list, (tab) => show(tab.id.slice("view-".length)));
const listeners = [];
let chosen = "page";
let result = "verdict"; // the one of the results that was shown last

/** Shows a view: `page`, `code`, `verdict`, `play` or `cost`. */
export function show(view) {
  chosen = view;
  if (isResult(view)) result = view;
  arrange();
  for (const listener of listeners) listener();
}

/** Calls `listener` when the reader or a verdict has chosen a view. */
export const onShow = (listener) => listeners.push(listener);

/** Whether a view can be seen now. */
export const isShown = (view) => !$(view).hidden && !document.hidden;

const isResult = (view) => ["verdict", "play", "cost"].includes(view);

function arrange() {
  const narrow = NARROW.matches;
  const seen = narrow ? chosen : result;
  for (const tab of tabs) {
    const view = tab.id.slice("view-".length);
    tab.hidden = !narrow && !isResult(view);
    $(view).hidden = isResult(view) ? view !== seen : narrow && view !== seen;
  }
  $("results").hidden = narrow && !isResult(seen);
  mark(tabs, $(`view-${seen}`));
  if (narrow && list.nextElementSibling !== $("page")) $("page").before(list);
  if (!narrow && list.parentElement !== $("results")) $("results").prepend(list);
}

NARROW.addEventListener("change", arrange);
arrange();
