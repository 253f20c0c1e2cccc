// What the pages of hunts, changes and runs that went wrong share: they begin something, and say what becomes of an answer.

import { at, coded, send } from "./studio.js";

export const $ = (id) => document.getElementById(id);

/** Lets the button begin something by a request to `path`, which is also the page to show then. */
export function begins(path, meanwhile) {
  const button = $("begin");
  button.addEventListener("click", async () => {
    button.disabled = true;
    $("beginning").textContent = meanwhile;
    const { status, body } = await send(path, "POST");
    if (status === 201) location.assign(at(path));
    else {
      $("beginning").textContent = body.error;
      button.disabled = false;
    }
  });
  button.disabled = false; // nothing listened before
}

/** Sends an answer while its buttons rest, and says what comes of it. Returns that, or nothing if it was refused. */
export async function answer(path, body, buttons, meanwhile) {
  for (const id of buttons) $(id).disabled = true;
  $("says").textContent = meanwhile;
  const { status, body: said } = await send(path, "POST", body);
  for (const id of buttons) $(id).disabled = false;
  $("says").replaceChildren(...coded(said.says ?? said.error ?? ""));
  return status === 200 ? said : undefined;
}

/** Shows sentences as paragraphs. */
export function tell(id, sentences) {
  $(id).replaceChildren(
    ...sentences.map((text) => {
      const paragraph = document.createElement("p");
      paragraph.append(...coded(text));
      return paragraph;
    }),
  );
}

/** Hides what belongs to something that is over, and offers the next. */
export function over(...ids) {
  for (const id of ids) $(id).hidden = true;
  $("begin-row").hidden = false;
}
