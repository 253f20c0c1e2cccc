// One run: what changes while it trains, its samples, and the run that it is compared with.
import { at, listen, send } from "./studio.js";

const name = document.querySelector(".run").dataset.name;
const path = `/runs/${encodeURIComponent(name)}`;
const live = document.querySelector("#live");
const [stop, resume, playground] = ["#stop", "#resume", "#to-playground"].map((id) => document.querySelector(id));
const [steps, sample, compare] = ["#sample-step", "#sample", "#compare"].map((id) => document.querySelector(id));

let samples = [];
let busy = false;
let again = false;

/** Fetches the state. Events that come in the meantime are answered by one more request. */
async function update() {
  if (busy) return void (again = true);
  busy = true;
  const { status, body } = await send(`${path}/live${location.search}`);
  if (status === 200) {
    show(body.html);
    showSamples(body.samples);
  }
  busy = false;
  if (again) {
    again = false;
    update();
  }
}

function show(html) {
  const open = live.querySelector(".log")?.open;
  const focused = live.contains(document.activeElement) ? document.activeElement.tagName : undefined;
  live.innerHTML = html;
  if (open !== undefined && live.querySelector(".log")) live.querySelector(".log").open = open;
  if (focused) live.querySelector(focused)?.focus();
  showButtons();
}

function showButtons() {
  const { running, resumable, samples, words } = live.querySelector(".status").dataset;
  stop.hidden = running !== "1";
  stop.disabled = words === "stopping";
  resume.hidden = resumable !== "1";
  playground.hidden = samples !== "1";
}

function showSamples(all) {
  const newest = samples.at(-1)?.step;
  const follows = steps.value === "" || Number(steps.value) === newest;
  const chosen = Number(steps.value);
  samples = all;
  steps.replaceChildren(...samples.map(({ step }) => new Option(step.toLocaleString("en"), step)));
  steps.closest("label").hidden = !samples.length;
  if (samples.length) steps.value = follows ? samples.at(-1).step : chosen;
  showSample();
}

function showSample() {
  const found = samples.find(({ step }) => step === Number(steps.value));
  sample.textContent = found ? found.text : "There is no sample yet.";
  sample.classList.toggle("empty", !found);
}

steps.addEventListener("change", showSample);
compare?.addEventListener("change", () => {
  history.replaceState(null, "", compare.value ? `?with=${encodeURIComponent(compare.value)}` : at(path));
  update();
});
for (const [button, action] of [[stop, "stop"], [resume, "resume"]]) {
  button.addEventListener("click", async () => {
    const { status, body } = await send(`${path}/${action}`, "POST", {});
    if (status !== 202) live.querySelector(".words").textContent = body.error;
    else update();
  });
}

showButtons();
showSamples(JSON.parse(document.querySelector("#samples").textContent));
listen(`${path}/events`, { changed: update });
