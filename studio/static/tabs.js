// Tabs: one is selected, the arrow keys move between those that are shown.

/** Calls `choose` with a tab of the list when it is clicked or reached by an arrow key. */
export function tablist(list, choose) {
  const tabs = [...list.querySelectorAll("[role=tab]")];
  for (const tab of tabs) {
    tab.addEventListener("click", () => choose(tab));
    tab.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (!step) return;
      const shown = tabs.filter((other) => !other.hidden);
      const next = shown[(shown.indexOf(tab) + step + shown.length) % shown.length];
      choose(next);
      next.focus();
    });
  }
  return tabs;
}

/** Marks one tab as selected. Only this one is reached by the Tab key. */
export function mark(tabs, selected) {
  for (const tab of tabs) {
    tab.setAttribute("aria-selected", String(tab === selected));
    tab.tabIndex = tab === selected ? 0 : -1;
  }
}
