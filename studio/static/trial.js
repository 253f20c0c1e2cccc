// Try this case: the script that runs the learner's file on a failing case, and what it prints.

import { send } from "./studio.js";
import { reader, replaceText } from "./workbench.js";

const $ = (id) => document.getElementById(id);
const SAID = "It runs your file as it is saved, without the grader's isolation. Edit the script in your own editor, if you like.";

/** The script of a problem. `open` shows its tab. Returns the button that writes it. */
export function trial(path, open) {
  let view;
  let running = false;

  function show(text) {
    view ??= reader($("trial-script"), "", "The script");
    replaceText(view, text);
  }

  function set(isRunning, words) {
    running = isRunning;
    $("trial-run").textContent = running ? "Stop" : "Run";
    $("trial-said").textContent = words;
  }

  async function write() {
    const { status, body } = await send(`${path}/trial`, "POST");
    if (status === 200) {
      $("tab-trial").textContent = body.name;
      show(body.text);
    }
    $("tab-trial").hidden = false;
    $("trial-printed").hidden = true;
    set(false, status === 200 ? `${body.said} ${SAID}`.trim() : body.error);
    open();
  }

  async function run() {
    set(true, "Running…");
    const { status, body } = await send(`${path}/trial/run`, "POST");
    if (status === 200) {
      show(body.text);
      $("trial-printed").textContent = body.printed;
      $("trial-printed").hidden = !body.printed;
    }
    set(false, status === 200 ? body.said : body.error);
  }

  $("trial-run").addEventListener("click", () => (running ? send(`${path}/trial/stop`, "POST") : run()));

  const button = document.createElement("button");
  button.type = "button";
  button.textContent = "Try this case";
  button.addEventListener("click", write);
  return button;
}
