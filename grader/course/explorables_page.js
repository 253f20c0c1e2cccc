// The sliders of explorables.js in a page. Without this script, the page has a still picture, the question and the numbers.

"use strict";

{
  const element = (tag, words = "") => Object.assign(document.createElement(tag), { textContent: words });

  function mount(figure) {
    const [kind, values] = Explorables.read(figure.dataset.explorable);
    const [caption, drawing, says] = [element("figcaption"), element("div"), element("output")];
    const numbers = element("details");
    says.setAttribute("aria-live", "polite");
    numbers.append(element("summary", "The numbers at some settings"));
    const [question, table] = [figure.nextElementSibling, figure.nextElementSibling?.nextElementSibling];
    if (question?.matches("p")) caption.append(question);
    if (table?.matches("table, :has(> table)")) numbers.append(table);
    const show = () => {
      const shown = kind.show(values);
      drawing.innerHTML = shown.picture;
      says.textContent = shown.says;
    };
    const rows = kind.sliders.map((it) => {
      const [row, input, value] = [element("label"), element("input"), element("b", it.shown(values[it.name]))];
      Object.assign(input, { type: "range", min: it.least, max: it.most, step: it.step, name: it.name, value: values[it.name] });
      value.setAttribute("aria-hidden", "true"); // the slider says it
      input.addEventListener("input", () => {
        values[it.name] = Number(input.value);
        value.textContent = it.shown(values[it.name]);
        input.setAttribute("aria-valuetext", value.textContent);
        show();
      });
      input.setAttribute("aria-valuetext", value.textContent);
      row.append(element("span", it.words), value, input);
      return row;
    });
    show();
    figure.replaceChildren(caption, ...rows, drawing, says, ...(numbers.children.length > 1 ? [numbers] : []));
  }

  for (const figure of document.querySelectorAll("figure.explorable:not(:has(input))")) {
    try {
      mount(figure);
    } catch (error) {
      figure.append(element("p", error.message));
    }
  }
}
