// A hunt: the program in the editor, a line that is clicked, an idea that is chosen, and a mend that is graded.

import { $, answer as sent, begins, over, tell } from "./answers.js";
import { coded } from "./studio.js";
import { editor } from "./workbench.js";

const state = JSON.parse($("state").textContent);
const path = `/practice/hunts/${state.label}`;

begins(path, "The program is run to see its symptom ...");

if (state.text !== undefined) hunt();

function hunt() {
  let { digest } = state;
  let ended = false;
  const view = editor($("editor"), state.text, "The program. Alt-Enter answers with the line of the cursor. Escape, then Tab, leaves the editor.", () => {});

  async function answer(body) {
    if (ended) return;
    const buttons = body.mend === undefined ? [] : ["mend"];
    const said = await sent(`${path}/answer`, body, buttons, buttons.length ? "Grading ..." : "");
    if (!said) return;
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
    tell("lesson", lesson);
    over("question", "give-up", "mend");
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
  $("mend").addEventListener("click", () => answer({ mend: view.state.doc.toString(), base: digest }));
  $("question").addEventListener("click", () => answer({ hint: true }));
  $("give-up").addEventListener("click", () => answer({ give_up: true }));
  show(state);
}
