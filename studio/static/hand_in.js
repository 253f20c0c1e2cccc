// Handing in on a hub: sends what is saved, and shows what the service of the class says, now and when it has graded.

import { send } from "./studio.js";

const [SOON, LATER, PATIENT] = [3000, 30000, 40]; // milliseconds, and how often to look soon

/** Follows what was handed in for the problem at this path. `save` saves the file, and resolves to whether it is. */
export function handIn(path, save) {
  const button = document.getElementById("hand-in");
  if (!button) return {};
  const shown = document.getElementById("handed-in");
  const [said, all] = [shown.querySelector("p"), shown.querySelector("details")];
  let looking;
  let looks = 0;

  function show({ status, body }) {
    if (status !== 200) body = { said: body?.error ?? "The studio does not answer.", lines: [], waits: !status };
    shown.hidden = !body.said;
    if (said.textContent !== body.said) said.textContent = body.said;
    all.hidden = body.lines.length < 2;
    all.querySelector("ol").replaceChildren(
      ...body.lines.map((line) => Object.assign(document.createElement("li"), { textContent: line })),
    );
    clearTimeout(looking);
    if (body.waits) looking = setTimeout(look, ++looks > PATIENT ? LATER : SOON);
  }

  const look = async () => show(await send(`${path}/hand-in`));

  button.addEventListener("click", async () => {
    button.disabled = true;
    looks = 0;
    if (await save()) {
      clearTimeout(looking);
      [shown.hidden, said.textContent] = [false, "Handing in…"];
      show(await send(`${path}/hand-in`, "POST", {}));
    }
    button.disabled = false;
  });
  look();
  return { "handed-in": look };
}
