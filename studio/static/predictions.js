// Predictions: questions in the page, which goes on when they are answered.

import { send } from "./studio.js";

/**
 * Lets the questions of an article be answered at the address `path`. `answered` tells of each whether it was answered
 * before. The page ends at the first one that was not, unless it `isKnown` already.
 */
export function predictions(article, path, answered, isKnown) {
  const boxes = [...article.querySelectorAll(".predict")];
  const open = new Set(boxes.filter((_, index) => !answered[index] && !isKnown));

  /** Hides what stands below the first question without an answer, up to the hints. */
  function layOut() {
    // A drawing with sliders may have taken a table into itself that stood below it.
    for (const element of article.querySelectorAll(".later")) element.classList.remove("later");
    let isLater = false;
    for (const element of article.children) {
      isLater &&= !element.querySelector("#hints-title");
      element.classList.toggle("later", isLater);
      isLater ||= open.has(element);
    }
  }

  for (const box of open) {
    question(box, path, () => {
      open.delete(box);
      layOut();
    });
  }
  layOut();
}

/** Puts a form in a box, and calls `goOn` when it is answered, or skipped. */
function question(box, path, goOn) {
  const answer = box.querySelector("details");
  const list = box.querySelector("ol");
  const form = document.createElement("form");
  const submit = button("Predict", "submit");
  const skip = button("Read on without an answer", "button");
  const said = document.createElement("div");
  said.setAttribute("role", "status");
  form.append(...(list ? choices(list) : [number(`Your prediction, question ${box.dataset.predict}`)]), submit, skip);
  if (list) list.replaceWith(form);
  else answer.before(form);
  form.after(said);
  answer.hidden = true;

  function end() {
    for (const each of form.elements) each.disabled = true;
    submit.hidden = skip.hidden = true;
    goOn();
  }
  skip.addEventListener("click", () => {
    answer.hidden = false;
    end();
  });
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const text = String(new FormData(form).get("answer") ?? "");
    const { status, body } = await send(`${path}/predict`, "POST", { number: Number(box.dataset.predict), text });
    if (status !== 200 || body.error) return void (said.textContent = body.error);
    said.innerHTML = body.html;
    box.classList.add(body.right ? "right" : "wrong");
    end();
  });
}

function button(text, type) {
  return Object.assign(document.createElement("button"), { textContent: text, type, className: type === "submit" ? "button" : "" });
}

function number(label) {
  const input = Object.assign(document.createElement("input"), { name: "answer", autocomplete: "off", size: 12, required: true });
  input.setAttribute("aria-label", label);
  return input;
}

function choices(list) {
  return [...list.children].map((item, place) => {
    const label = document.createElement("label");
    const input = Object.assign(document.createElement("input"), { type: "radio", name: "answer", value: place + 1, required: true });
    label.append(input, " ", ...item.childNodes);
    return label;
  });
}
