// A run that went wrong: a diagnosis is filed, and what becomes of its prediction is shown.

import { $, answer, begins, over, tell } from "./answers.js";

const { path, is_open } = JSON.parse($("state").textContent);
const TRAINS = "A run is being trained, for half a minute or more ...";
const BUTTONS = ["file", "give-up"];

begins(path, TRAINS);

async function file(body, meanwhile) {
  const said = await answer(`${path}/file`, body, BUTTONS, meanwhile);
  if (!said) return;
  tell("lines", said.lines);
  if (said.ended) over(...BUTTONS);
}

if (is_open) {
  $("diagnosis").addEventListener("submit", (event) => {
    event.preventDefault();
    const given = Object.fromEntries(new FormData($("diagnosis")));
    file({ ...given, step: Number(given.step), at: Number(given.at), give_up: false }, TRAINS);
  });
  $("give-up").addEventListener("click", () => file({ give_up: true }, ""));
}
