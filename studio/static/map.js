// Shows what a problem builds on, and what builds on it, while the pointer or the focus is on it. Changes the path.
import { send } from "./studio.js";

const edges = [...document.querySelectorAll(".edges path")];
const nodes = [...document.querySelectorAll(".node")];

function mark(event) {
  const label = event.type === "focusin" || event.type === "pointerover" ? event.target.closest?.("[data-label]")?.dataset.label : undefined;
  const related = new Set();
  for (const edge of edges) {
    const ends = [edge.dataset.from, edge.dataset.to];
    const isNear = ends.includes(label);
    edge.classList.toggle("near", isNear);
    if (isNear) ends.forEach((end) => related.add(end));
  }
  for (const node of nodes) node.classList.toggle("related", related.has(node.dataset.label));
}

for (const kind of ["pointerover", "pointerout", "focusin", "focusout"]) document.addEventListener(kind, mark);

const path = document.getElementById("path");
path.addEventListener("change", async () => {
  const { status } = await send("/path", "POST", { name: path.value });
  if (status === 204) location.reload();
});
