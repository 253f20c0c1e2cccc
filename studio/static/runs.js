// The list of runs, kept up to date, and the form that starts one.
import { ask, at, listen, send } from "./studio.js";

const list = document.querySelector("#list");
const form = document.querySelector("#start");
const error = document.querySelector("#start-error");

listen("/runs.events", {
  changed: async () => {
    const response = await ask("/runs.list").catch(() => undefined);
    if (!response?.ok) return;
    const focused = list.contains(document.activeElement) ? document.activeElement.getAttribute("href") : null;
    list.innerHTML = await response.text();
    if (focused) list.querySelector(`[href="${CSS.escape(focused)}"]`)?.focus();
  },
});

const settings = [...form.querySelectorAll("input[inputmode]")];

function showPreset() {
  const option = form.elements.preset.selectedOptions[0];
  for (const input of settings) input.placeholder = option.getAttribute(`data-${input.name.replaceAll("_", "-")}`);
}

form.elements.preset.addEventListener("change", showPreset);
showPreset();

form.addEventListener("submit", async (event) => {
  event.preventDefault();
  error.textContent = "";
  const typed = settings.filter((input) => input.value.trim()).map((input) => [input.name, input.value.trim()]);
  const { name, preset, stories, with_pieces } = form.elements;
  const { status, body } = await send("/runs", "POST", {
    name: name.value.trim(), preset: preset.value, stories: stories.value, with_pieces: with_pieces.checked,
    settings: Object.fromEntries(typed),
  });
  if (status === 201) location.href = at(body.path);
  else error.textContent = body.error;
});
