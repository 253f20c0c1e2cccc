// Explorables: drawings of the pages that follow sliders, in the book and in the studio.
//
// A page has the line `<!-- explorable: KIND name=value ... -->`, a paragraph with a question, and a table of numbers. The book and
// the studio turn the line into <figure class="explorable" data-explorable="KIND ..."> with a still picture, and this file adds
// the rest. A kind is its sliders and a function `show` from their values to the numbers, to a sentence that says them, and
// to a picture. It needs no document, so `node docs/stills.mjs` makes the still pictures, and tests compare the numbers.

"use strict";

const Explorables = (() => {
  const ACCENT = "var(--drawing-accent, #16847a)";
  const WIDTH = 360; // of a picture, so that a phone shows it in its own size
  const FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Noto Sans', 'DejaVu Sans', sans-serif";

  // Numbers

  const sum = (numbers) => numbers.reduce((total, x) => total + x, 0);
  const range = (count) => [...Array(count).keys()];
  const fixed = (x, digits = 2) => (Math.abs(x) < 0.5 * 10 ** -digits ? 0 : x).toFixed(digits);
  const list = (numbers, digits) => numbers.map((x) => fixed(x, digits)).join(", ");

  function softmax(scores) {
    const largest = Math.max(...scores);
    const powers = scores.map((score) => Math.exp(score - largest));
    return powers.map((power) => power / sum(powers));
  }

  // Pieces of a picture, as SVG. Colors are attributes, so that a still picture takes those of the page around it.

  const escaped = (words) => String(words).replace(/&/g, "&amp;").replace(/</g, "&lt;");

  const text = (x, y, words, look = "") => `<text x="${+x.toFixed(1)}" y="${+(y + 4.5).toFixed(1)}" ${look}>${escaped(words)}</text>`;
  const label = (x, y, words, anchor = "middle") =>
    text(x, y, words, `font-size="12" fill-opacity="0.78" text-anchor="${anchor}"`);

  const box = (x, y, width, height, look) =>
    `<rect x="${+x.toFixed(1)}" y="${+y.toFixed(1)}" width="${+width.toFixed(1)}" height="${+height.toFixed(1)}" ${look}/>`;

  /** A cell of a grid, filled with the accent color by a share from 0 to 1. */
  const cell = (x, y, width, height, words = "", share = 0) =>
    box(x, y, width, height, `fill="${ACCENT}" fill-opacity="${fixed(share * 0.5, 3)}" stroke="currentColor" stroke-opacity="0.4"`) +
    (words === "" ? "" : text(x + width / 2, y + height / 2, words));

  const path = (points, color = "currentColor", look = "") =>
    `<path d="M${points.map(([x, y]) => `${+x.toFixed(1)},${+y.toFixed(1)}`).join(" L")}" fill="none" stroke="${color}" ${look}/>`;

  const picture = (height, title, parts) =>
    [
      `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${height}" width="${WIDTH}" height="${height}" role="img" aria-label="${escaped(title)}">`,
      `<g font-family="${FONT}" font-size="13" text-anchor="middle" fill="currentColor">`,
      ...parts,
      "</g>",
      "</svg>",
    ].join("\n");

  /** A slider. `shown` turns its value into what the reader sees. */
  const slider = (name, words, least, most, step, start, shown = String) => ({ name, words, least, most, step, start, shown });

  const KINDS = {};

  // 02: the scale decides how sharp the softmax is, the mask which keys it sees.
  KINDS.attention = {
    sliders: [
      slider("divisor", "Divide the scores by", 1, 8, 0.5, 4),
      slider("k", "Diagonal k of the mask, jnp.tril(…, k)", 0, 3, 1, 0),
    ],
    show({ divisor, k }) {
      const scores = [[3, 5, -2, 1], [4, -1, 6, 2], [-3, 5, 2, 7], [2, 6, 1, 3]]; // q kᵀ for K = 16
      const weights = scores.map((row, t) => softmax(row.map((score, s) => (s <= t + k ? score / divisor : -1e9))));
      const later = sum(weights.map((row, t) => sum(row.slice(t + 1))));
      return {
        numbers: { weights, later },
        says: `Largest weight in each row: ${list(weights.map((row) => Math.max(...row)))}. Weight on later positions, in all rows: ${fixed(later)}.`,
        picture: picture(176, "The weights of four queries on four keys, one row for each query", [
          ...range(4).map((s) => label(112 + 64 * s, 12, s ? `s = ${s}` : "key s = 0")),
          ...weights.flatMap((row, t) => [
            label(72, 44 + 36 * t, t ? `t = ${t}` : "query t = 0", "end"),
            ...row.map((weight, s) => cell(80 + 64 * s, 26 + 36 * t, 64, 36, s <= t + k ? fixed(weight) : "–", weight)),
          ]),
          path([[80, 26], [144, 26], [144, 62], [208, 62], [208, 98], [272, 98], [272, 134], [336, 134]], ACCENT, 'stroke-width="2"'),
        ]),
      };
    },
  };

  // In a page

  const element = (tag, words = "", className = "") => Object.assign(document.createElement(tag), { textContent: words, className });

  /** The values that the sliders of a kind start with: its own, or those that the page names as `name=value`. */
  function starts(kind, words = []) {
    const own = Object.fromEntries(words.map((word) => word.split("=")));
    return Object.fromEntries(kind.sliders.map(({ name, start }) => [name, name in own ? Number(own[name]) : start]));
  }

  function mount(figure) {
    const [name, ...words] = figure.dataset.explorable.split(/\s+/);
    const kind = KINDS[name];
    if (!kind) {
      figure.append(element("p", `There is no explorable "${name}"; choose one of ${Object.keys(KINDS).join(", ")}.`));
      return;
    }
    const values = starts(kind, words);
    const [caption, still, says] = [element("figcaption"), element("div", "", "still"), element("output")];
    const numbers = element("details");
    says.setAttribute("aria-live", "polite");
    numbers.append(element("summary", "The numbers at some settings"));
    const [question, table] = [figure.nextElementSibling, figure.nextElementSibling?.nextElementSibling];
    if (question?.matches("p")) caption.append(question);
    if (table?.matches("table, :has(> table)")) numbers.append(table);
    const show = () => {
      const shown = kind.show(values);
      still.innerHTML = shown.picture;
      says.textContent = shown.says;
    };
    const rows = kind.sliders.map((it) => {
      const [row, input, value] = [element("label"), element("input"), element("span", it.shown(values[it.name]), "value")];
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
    figure.replaceChildren(caption, ...rows, still, says, ...(numbers.children.length > 1 ? [numbers] : []));
  }

  return { KINDS, starts, mount };
})();

if (typeof module === "object") module.exports = Explorables;
else for (const figure of document.querySelectorAll("figure.explorable")) Explorables.mount(figure);
