// A hunt: the program in the editor, a line that is clicked, an idea that is chosen, and a mend that is graded.

import { at, coded, send } from "./studio.js";
import { editor } from "./workbench.js";

const $ = (id) => document.getElementById(id);
const state = JSON.parse($("state").textContent);
const path = `/practice/hunts/${state.label}`;

$("begin").addEventListener("click", async () => {
  $("begin").disabled = true;
  $("beginning").textContent = "The program is run to see its symptom ...";
  const { status, body } = await send(path, "POST");
  if (status === 201) location.assign(at(path));
  else {
    $("beginning").textContent = body.error;
    $("begin").disabled = false;
  }
});

$("begin").disabled = false; // nothing listened before

if (state.text !== undefined) hunt();

function hunt() {
  let { digest } = state;
  let ended = false;
  const view = editor($("editor"), state.text, "The program. Alt-Enter answers with the line of the cursor. Escape, then Tab, leaves the editor.", () => {});

  async function answer(body) {
    if (ended) return;
    const { status, body: said } = await send(`${path}/answer`, "POST", body);
    $("says").replaceChildren(...coded(said.says ?? said.error ?? ""));
    if (status !== 200) return;
    digest = said.digest ?? digest;
    if (said.question) $("questions").append(item(said.question));
    if (said.ended) return end(said.lesson);
    show(said);
  }

  function item(text) {
    const line = document.createElement("li");
    line.append(...coded(text));
    return line;
  }

  function show({ line, idea, ideas, more }) {
    $("step-line").classList.toggle("done", line);
    $("step-idea").classList.toggle("done", idea);
    $("question").hidden = !more;
    $("ideas").replaceChildren(
      ...ideas.map(({ letter, name }, number) => {
        const button = document.createElement("button");
        button.type = "button";
        button.textContent = `${letter}  ${name}`;
        button.disabled = idea;
        button.addEventListener("click", () => answer({ idea: number }));
        return button;
      }),
    );
  }

  function end(lesson) {
    ended = true;
    $("lesson").replaceChildren(
      ...lesson.map((text) => {
        const paragraph = document.createElement("p");
        paragraph.append(...coded(text));
        return paragraph;
      }),
    );
    for (const id of ["question", "give-up", "mend"]) $(id).hidden = true;
    $("begin-row").hidden = false;
  }

  $("editor").addEventListener("click", (event) => {
    const number = event.target.closest?.(".cm-lineNumbers .cm-gutterElement")?.textContent;
    if (number) answer({ line: Number(number) });
  });
  $("editor").addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || !event.altKey) return;
    event.preventDefault();
    answer({ line: view.state.doc.lineAt(view.state.selection.main.head).number });
  });
  $("mend").addEventListener("click", async () => {
    $("says").textContent = "Grading ...";
    $("mend").disabled = true;
    await answer({ mend: view.state.doc.toString(), base: digest });
    $("mend").disabled = false;
  });
  $("question").addEventListener("click", () => answer({ hint: true }));
  $("give-up").addEventListener("click", () => answer({ give_up: true }));
  show(state);
}
