// Shows what a problem builds on, and what builds on it, while the pointer or the focus is on it.
const edges = [...document.querySelectorAll(".edges path")];

function mark(event) {
  const label = event.type === "focusin" || event.type === "pointerover" ? event.target.closest?.("[data-label]")?.dataset.label : undefined;
  for (const edge of edges) edge.classList.toggle("near", edge.dataset.from === label || edge.dataset.to === label);
}

for (const kind of ["pointerover", "pointerout", "focusin", "focusout"]) document.addEventListener(kind, mark);
