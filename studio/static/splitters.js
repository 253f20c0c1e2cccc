// The borders between page, code and results: a pointer or the arrow keys move them, and a double click puts them back.

const [LEAST, MOST, STEP] = [15, 85, 2]; // percent of the room that both sides share

for (const splitter of document.querySelectorAll(".splitter")) {
  const room = splitter.parentElement;
  const wide = splitter.getAttribute("aria-orientation") === "vertical";
  const name = splitter.dataset.share; // the property of the room that says the share of the first side
  const size = (box) => (wide ? box.width : box.height);
  const now = () => (100 * size(splitter.previousElementSibling.getBoundingClientRect())) / size(room.getBoundingClientRect());

  function move(share) {
    const kept = Math.min(Math.max(share, LEAST), MOST);
    room.style.setProperty(name, `${kept.toFixed(1)}%`);
    splitter.setAttribute("aria-valuenow", Math.round(kept));
    localStorage.setItem(name, kept);
  }

  const before = Number(localStorage.getItem(name));
  if (before) move(before);
  splitter.addEventListener("pointerdown", (event) => {
    event.preventDefault();
    splitter.setPointerCapture(event.pointerId);
  });
  splitter.addEventListener("pointermove", (event) => {
    if (!splitter.hasPointerCapture(event.pointerId)) return;
    const box = room.getBoundingClientRect();
    move((100 * (wide ? event.clientX - box.left : event.clientY - box.top)) / size(box));
  });
  splitter.addEventListener("keydown", (event) => {
    const steps = { ArrowLeft: -1, ArrowUp: -1, ArrowRight: 1, ArrowDown: 1 }[event.key];
    if (!steps) return;
    event.preventDefault();
    move(now() + steps * STEP);
  });
  splitter.addEventListener("dblclick", () => {
    localStorage.removeItem(name);
    room.style.removeProperty(name);
    splitter.setAttribute("aria-valuenow", Math.round(now()));
  });
}
