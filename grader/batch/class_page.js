// Sorts and filters the table of learners. The page can be read without it.
// The studio replaces the page's article while a batch runs; it then sends `class-changed`.

const order = { column: 0, ascending: true };
let wanted = "";
const listed = new Map(); // the rows, with their places when the page came

const table = () => document.querySelector("#table");
const value = (row, column) => row.cells[column].dataset.value ?? row.cells[column].textContent;

function compare(one, other) {
  const [first, second] = [one, other].map((row) => value(row, order.column));
  const numbers = order.column ? Number(first) - Number(second) : 0;
  // Names come in the order of the page, which is that of every table.
  const names = order.column ? first.localeCompare(second) : 0;
  const result = numbers || names || listed.get(one) - listed.get(other);
  return order.ascending ? result : -result;
}

function arrange() {
  for (const row of table().tBodies[0].rows) if (!listed.has(row)) listed.set(row, listed.size);
  const heads = [...table().tHead.rows[0].cells];
  for (const [column, head] of heads.entries()) {
    if (!head.querySelector("button")) {
      const button = document.createElement("button");
      button.type = "button";
      button.append(...head.childNodes);
      head.append(button);
    }
    if (column === order.column) head.setAttribute("aria-sort", order.ascending ? "ascending" : "descending");
    else head.removeAttribute("aria-sort");
  }
  const body = table().tBodies[0];
  body.append(...[...body.rows].sort(compare));
  document.querySelector(".class .filter").hidden = false;
  filter();
}

function filter() {
  const words = wanted.toLowerCase().split(/\s+/).filter(Boolean);
  const rows = [...table().tBodies[0].rows];
  for (const row of rows) row.hidden = !words.every((word) => row.dataset.words.includes(word));
  const shown = rows.filter((row) => !row.hidden).length;
  document.querySelector("#filter").value = wanted;
  document.querySelector("#shown").textContent = wanted ? `${shown} of ${rows.length}` : "";
}

document.addEventListener("click", (event) => {
  const head = event.target.closest("#table thead th");
  if (!head) return;
  const column = head.cellIndex;
  // Marks begin with the best, names with A.
  order.ascending = column === order.column ? !order.ascending : column === 0;
  order.column = column;
  arrange();
});
document.addEventListener("input", (event) => {
  if (event.target.id !== "filter") return;
  wanted = event.target.value;
  filter();
});
document.addEventListener("class-changed", arrange);
if (table()) arrange();
