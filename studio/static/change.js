// A change to review: verdicts and tests are written to files as they change, and judged when they are handed in.

import { $, answer, begins, over, tell } from "./answers.js";
import { send } from "./studio.js";

const PAUSE = 600; // milliseconds without a key before a test is written

const { path, change } = JSON.parse($("state").textContent);

begins(path, "Drawing a change, and running its programs ...");

if (change) review();

function review() {
  const waiting = new Map(); // the test that is still to be written, by number of the hunk
  let timer;

  async function keep(body) {
    const { status, body: said } = await send(`${path}/keep`, "POST", body);
    if (status !== 204) $("says").textContent = said.error;
  }

  async function keepTests() {
    clearTimeout(timer);
    const tests = [...waiting];
    waiting.clear();
    for (const [number, test] of tests) await keep({ number, test });
  }

  function show({ number, verdict, right, test, counts }) {
    const hunk = $(`hunk-${number}`);
    if (!verdict) return;
    for (const input of hunk.querySelectorAll("input")) {
      input.checked = input.value === verdict;
      input.disabled = true; // it counts as it was first handed in
    }
    const proved = counts ? " Its test counts." : "";
    hunk.querySelector(".found").textContent = `${verdict}, which is ${right ? "right" : "wrong"}. ${test ?? proved}`;
    hunk.classList.toggle("wrong", !right);
    hunk.querySelector(".test").hidden = verdict !== "faulty" || !right;
    hunk.querySelector("textarea").readOnly = counts;
  }

  function say(found) {
    found.hunks.forEach(show);
    if (!found.ended) return;
    tell("lines", found.lines);
    over("run", "give-up");
  }

  async function run(giveUp) {
    await keepTests();
    const meanwhile = giveUp ? "" : "Running your tests. Each takes half a minute or more ...";
    const found = await answer(`${path}/run`, { give_up: giveUp }, ["run", "give-up"], meanwhile);
    if (found) say(found);
  }

  for (const { number } of change.hunks) {
    const hunk = $(`hunk-${number}`);
    hunk.querySelector("fieldset").addEventListener("change", ({ target }) => {
      hunk.querySelector(".test").hidden = target.value !== "faulty";
      keep({ number, verdict: target.value });
    });
    hunk.querySelector("textarea").addEventListener("input", ({ target }) => {
      waiting.set(number, target.value);
      clearTimeout(timer);
      timer = setTimeout(keepTests, PAUSE);
    });
  }
  $("run").addEventListener("click", () => run(false));
  $("give-up").addEventListener("click", () => run(true));
  addEventListener("pagehide", keepTests);
  change.hunks.forEach(show);
}
