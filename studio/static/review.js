// A review: a fresh file in the editor, a clock that runs while the page is seen, and a verdict at each save.

import { at, send } from "./studio.js";
import { editor, onSaveKeys, replaceText } from "./workbench.js";

const $ = (id) => document.getElementById(id);
const state = JSON.parse($("state").textContent);
const path = `/practice/reviews/${state.label}`;

for (const button of document.querySelectorAll(".begin")) {
  button.addEventListener("click", async () => {
    const { status, body } = await send(path, "POST", { form: button.dataset.form });
    if (status === 201) location.assign(at(path));
    else $("beginning").textContent = body.error;
  });
  button.disabled = false; // nothing listened before
}

if (state.text !== undefined) review();

function review() {
  const DRAFT = `review-${state.label}`;
  let { digest } = state;
  let ended = false;

  // ---- The clock

  let counted = state.seconds;
  let since = performance.now();
  const seconds = () => counted + (since === undefined ? 0 : (performance.now() - since) / 1000);

  function run(runs) {
    counted = seconds();
    since = runs ? performance.now() : undefined;
    tell();
  }

  function tell() {
    const all = Math.floor(seconds());
    const two = (number) => String(number).padStart(2, "0");
    $("clock").textContent = `${Math.floor(all / 60)}:${two(all % 60)}`;
    $("pause").textContent = since === undefined ? "Continue" : "Pause";
  }

  let paused = false;
  const note = () => ended || send(`${path}/clock`, "POST", { seconds: Math.floor(seconds()) });
  $("pause").addEventListener("click", () => {
    paused = !paused;
    run(!paused);
    note();
  });
  document.addEventListener("visibilitychange", () => {
    if (ended) return;
    run(!document.hidden && !paused);
    if (document.hidden) note();
  });
  const ticking = setInterval(tell, 1000);
  const noting = setInterval(() => since !== undefined && note(), 30_000);
  tell();

  // ---- The file: a text that is not saved yet is kept in the browser.

  const view = editor($("editor"), state.text, `${state.filename}. Escape, then Tab, leaves the editor.`, () => {
    if (!ended) localStorage.setItem(DRAFT, JSON.stringify({ text: typed() }));
  });
  const typed = () => view.state.doc.toString();
  const draft = JSON.parse(localStorage.getItem(DRAFT) ?? "null");
  if (draft && draft.text !== state.text) replaceText(view, draft.text);

  async function ask(place, method, body = {}) {
    const { status, body: said } = await send(path + place, method, { seconds: Math.floor(seconds()), ...body });
    if (status === 200) return said;
    $("headline").className = "failed";
    $("headline").textContent = said.error;
  }

  let grading = false;

  async function grade() {
    if (grading || ended) return;
    grading = true;
    $("headline").className = "";
    $("headline").textContent = "Grading…";
    const text = typed();
    const verdict = await ask("/file", "PUT", { text, base: digest });
    grading = false;
    if (!verdict) return;
    digest = verdict.digest;
    if (typed() === text) localStorage.removeItem(DRAFT);
    $("headline").className = { PASS: "passed", "NOT ATTEMPTED": "todo" }[verdict.verdict] ?? "failed";
    $("headline").textContent = `${verdict.verdict}, ${verdict.score} of ${verdict.points} points`;
    $("report").innerHTML = verdict.ended ? "" : verdict.html; // escaped by the studio
    if (verdict.ended) end(verdict);
  }

  function end({ summary, rating }) {
    run(false);
    ended = true;
    for (const timer of [ticking, noting]) clearInterval(timer);
    localStorage.removeItem(DRAFT);
    for (const id of ["pause", "grade", "give-up", "hint"]) if ($(id)) $(id).hidden = true;
    $("ending").replaceChildren(...summary.map((text) => Object.assign(document.createElement("p"), { textContent: text })));
    $("ratings").hidden = false;
    for (const button of $("ratings").querySelectorAll("button")) {
      button.setAttribute("aria-pressed", String(Number(button.dataset.rating) === rating));
    }
  }

  for (const button of $("ratings").querySelectorAll("button")) {
    button.addEventListener("click", async () => {
      const said = await ask("/rating", "POST", { rating: Number(button.dataset.rating) });
      if (said) end(said);
    });
  }
  $("hint")?.addEventListener("click", async () => {
    const said = await ask("/hint", "POST");
    if (!said) return;
    const item = document.createElement("li");
    item.innerHTML = said.html; // from the course
    $("hints").append(item);
    $("hint").hidden = said.left === 0;
  });
  $("give-up").addEventListener("click", async () => {
    const said = await ask("/end", "POST");
    if (!said) return;
    $("headline").className = "";
    $("headline").textContent = "Given up";
    end(said);
  });
  $("grade").addEventListener("click", grade);
  onSaveKeys(grade);
}
