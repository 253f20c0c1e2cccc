// Explorables: drawings of the pages that follow sliders, in the book and in the studio.
//
// A page has the line `<!-- explorable: KIND name=value ... -->`, a paragraph with a question, and a table of numbers. The book and
// the studio turn the line into <figure class="explorable" data-explorable="KIND ..."> with a still picture, and `explorables_page.js`
// adds the sliders. A kind is its sliders and a function `show` from their values to the numbers, to a sentence that says them, and
// to a picture. It needs no document, so `node docs/stills.mjs` makes the still pictures, and tests compare the numbers.

"use strict";

const Explorables = (() => {
  const ACCENT = "var(--drawing-accent, #16847a)";
  const WIDTH = 320; // of a picture, so that a phone shows it in its own size
  const FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Noto Sans', 'DejaVu Sans', sans-serif";

  // Numbers

  const sum = (numbers) => numbers.reduce((total, x) => total + x, 0);
  const range = (count) => [...Array(count).keys()];
  const fixed = (x, digits = 2) => (Math.abs(x) < 0.5 * 10 ** -digits ? 0 : x).toFixed(digits);
  const counted = (count) => count.toLocaleString("en-US");
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
          ...range(4).map((s) => label(106 + 60 * s, 12, s ? `s = ${s}` : "key s = 0")),
          ...weights.flatMap((row, t) => [
            label(68, 44 + 36 * t, t ? `t = ${t}` : "query t = 0", "end"),
            ...row.map((weight, s) => cell(76 + 60 * s, 26 + 36 * t, 60, 36, s <= t + k ? fixed(weight) : "–", weight)),
          ]),
          path([[76, 26], [136, 26], [136, 62], [196, 62], [196, 98], [256, 98], [256, 134], [316, 134]], ACCENT, 'stroke-width="2"'),
        ]),
      };
    },
  };

  // 03: a head owns neighboring columns; only one of three reshapes says so.
  KINDS.heads = {
    sliders: [
      slider("heads", "Heads H", 0, 3, 1, 1, (n) => String(2 ** n)),
      slider("way", "Reshape", 0, 2, 1, 0, (n) => ["(T, H, K)", "(T, K, H)", "(H, T, K)"][n]),
    ],
    show({ heads, way }) {
      const [T, D, H] = [3, 8, 2 ** heads];
      const K = D / H;
      const owner = (t, d) => [Math.floor(d / K), d % H, Math.floor((t * D + d) / (T * K))][way];
      const owners = range(T).map((t) => range(D).map((d) => owner(t, d)));
      const first = owners.map((row) => range(D).filter((d) => row[d] === 0));
      const rows = first.flatMap((columns, t) => (columns.length ? [`in row ${t}: ${columns.join(", ")}`] : []));
      return {
        numbers: { owners },
        says: `Columns of head 0 ${rows.join("; ")}.`,
        picture: picture(150, "The head that owns each number of x; those of head 0 are marked", [
          label(180, 12, "the head of each number of x (T, D), D = 8"),
          ...owners.flatMap((row, t) => [
            label(38, 44 + 36 * t, `row ${t}`, "end"),
            ...row.map((head, d) => cell(44 + 34 * d, 26 + 36 * t, 34, 36, head, head === 0 ? 1 : 0)),
          ]),
        ]),
      };
    },
  };

  // 07: the row that is compared with a token, and the number that the sum is divided by.
  KINDS.shift = {
    sliders: [
      slider("shift", "Row t is compared with token t + …", -1, 1, 1, 1),
      slider("padding", "Tokens of padding", 0, 4, 1, 2),
    ],
    show({ shift, padding }) {
      const tokens = ["Once", "upon", "a", "time", ...Array(padding).fill("pad")];
      const ids = tokens.map((_, t) => Math.min(t, 4)); // of five tokens; 4 is padding
      const logits = ids.map((id) => range(5).map((v) => (id < 4 && v === id + 1 ? 3 : v === id ? 1 : 0)));
      const rows = range(ids.length).filter((t) => ids[t + shift] !== undefined);
      const costs = rows.map((t) => -Math.log(softmax(logits[t])[ids[t + shift]]));
      const counted = costs.filter((_, i) => ids[rows[i] + shift] !== 4);
      const [total, count, all] = [sum(counted), counted.length, rows.length];
      const [left, middle] = [160 - 19 * ids.length, (t) => left + 38 * t + 19];
      return {
        numbers: { logits, ids, loss: total / count, diluted: total / all },
        says: `Targets that count: ${count} of ${all}. Sum of their costs: ${fixed(total)}. Divided by ${count}: ${fixed(total / count)}. Divided by ${all}: ${fixed(total / all)}.`,
        picture: picture(158, "Each row of the logits, and the token that it is compared with", [
          ...tokens.map((token, t) => cell(left + 38 * t, 4, 38, 28, token)),
          ...rows.map((t) => {
            const look = ids[t + shift] === 4 ? 'stroke-dasharray="4 3" stroke-opacity="0.6"' : 'stroke-width="2"';
            return path([[middle(t), 86], [middle(t + shift), 33]], ids[t + shift] === 4 ? "currentColor" : ACCENT, look);
          }),
          ...tokens.map((_, t) => cell(left + 38 * t, 86, 38, 28, t)),
          ...rows.map((t, i) => label(middle(t), 126, ids[t + shift] === 4 ? "–" : fixed(costs[i]))),
          label(160, 148, "rows of the logits, and what each costs: -ln p"),
        ]),
      };
    },
  };

  // 09: the ratio of two means does not depend on the size of the gradients.
  KINDS.moments = {
    sliders: [
      slider("b1", "b1", 0, 0.99, 0.01, 0.9, (x) => fixed(x)),
      slider("b2", "b2", 0, 0.999, 0.001, 0.999, (x) => fixed(x, 3)),
      slider("size", "All gradients times", -3, 3, 1, 0, (n) => String(10 ** n)),
    ],
    show({ b1, b2, size }) {
      const raw = [1.6, -0.4, 1.2, 2.1, -0.9, 0.6, 1.5, 0.2, 2.4, -0.2, 0.9, 1.7, -0.6, 1.1, 2.0, 0.4, -1.1, 1.3, 1.8, 0.7, -0.3, 2.2, 0.5, 1.4];
      let [m, s] = [0, 0];
      const steps = raw.map((x, i) => {
        const gradient = x * 10 ** size;
        m = b1 * m + (1 - b1) * gradient;
        s = b2 * s + (1 - b2) * gradient ** 2;
        return { corrected: m / (1 - b1 ** (i + 1)) / Math.sqrt(s / (1 - b2 ** (i + 1))), plain: m / Math.sqrt(s) };
      });
      const [corrected, plain] = [steps.map((step) => step.corrected), steps.map((step) => step.plain)];
      const top = Math.max(1.5, ...corrected, ...plain);
      const bottom = Math.min(-0.5, ...corrected, ...plain);
      const [x, y] = [(i) => 44 + 11.8 * i, (value) => 96 + ((top - value) / (top - bottom)) * 96];
      const line = (values) => values.map((value, i) => [x(i), y(value)]);
      return {
        numbers: { corrected, plain },
        says: `m̂ / √ŝ at steps 1, 2, 3: ${list(corrected.slice(0, 3))}. Without bias correction: ${list(plain.slice(0, 3))}.`,
        picture: picture(204, "Twenty-four gradients above, the direction of Adam at each step below", [
          label(34, 40, "g", "end"),
          ...raw.map((value, i) => box(x(i) - 3, value > 0 ? 50 - 16 * value : 50, 6, 16 * Math.abs(value), 'fill="currentColor" fill-opacity="0.45"')),
          path([[38, 50], [318, 50]], "currentColor", 'stroke-opacity="0.4"'),
          ...[0, ...(top < 6 ? [1] : []), ...(top > 2 ? [Math.floor(top)] : [])].flatMap((value) => [
            label(34, y(value), value, "end"),
            path([[38, y(value)], [318, y(value)]], "currentColor", 'stroke-opacity="0.3"'),
          ]),
          path(line(plain), "currentColor", 'stroke-width="1.5" stroke-dasharray="4 3"'),
          path(line(corrected), ACCENT, 'stroke-width="2.5"'),
        ]),
      };
    },
  };

  // 10: decay_steps is the number of a step, not a duration.
  KINDS.schedule = {
    sliders: [
      slider("warmup", "warmup_steps", 0, 40, 1, 10),
      slider("decay", "decay_steps", 50, 120, 1, 80),
      slider("step", "Step", 0, 120, 1, 80),
    ],
    show({ warmup, decay, step }) {
      const rate = (n) => {
        if (n < warmup) return 1e-5 + ((1 - 1e-5) * n) / warmup;
        const share = Math.min((n - warmup) / (decay - warmup), 1);
        return 0.1 + (0.9 * (1 + Math.cos(Math.PI * share))) / 2;
      };
      const rates = range(121).map(rate);
      const [x, y] = [(n) => 40 + 2.25 * n, (value) => 150 - 130 * value];
      const down = (n, look) => path([[x(n), y(0)], [x(n), 12]], "currentColor", `stroke-dasharray="4 3" ${look}`);
      return {
        numbers: { rates },
        says: `At step ${step} the rate is ${fixed(rates[step], 3)} of the peak. At step 80, where the run ends, it is ${fixed(rates[80], 3)}.`,
        picture: picture(186, "The learning rate as a share of its peak, over 120 steps", [
          path([[40, 12], [40, 150], [314, 150]]),
          ...[[1, "peak"], [0.1, "0.1"]].map(([value, words]) => label(34, y(value), words, "end")),
          down(80, 'stroke-opacity="0.7"'),
          label(x(80), 164, "the run ends"),
          label(40, 164, 0),
          label(x(120), 164, 120, "end"),
          path(rates.map((value, n) => [x(n), y(value)]), ACCENT, 'stroke-width="2.5"'),
          `<circle cx="${x(step)}" cy="${fixed(y(rates[step]))}" r="5.5" fill="${ACCENT}"/>`,
        ]),
      };
    },
  };

  // 17: a scan passes x on, and its program does not grow with the layers.
  KINDS.scan = {
    sliders: [
      slider("layers", "Layers L", 1, 8, 1, 4),
      slider("turn", "Turns done", 0, 8, 1, 2),
      slider("outer", "The body reads", 0, 1, 1, 0, (n) => ["its argument", "the outer x"][n]),
    ],
    show({ layers, turn, outer }) {
      const [factors, terms] = [[1, 2, 1, 3, 1, 2, 1, 1].slice(0, layers), [1, 0, -3, 1, 2, 0, 5, -4].slice(0, layers)];
      const done = Math.min(turn, layers);
      const carry = [5];
      for (const l of range(done)) carry.push(factors[l] * (outer ? 5 : carry[l]) + terms[l]);
      const row = (y, words, values, marked, first = 0) => [
        label(14, y + 15, words),
        ...values.map((value, i) => cell(58 + 32 * (i - first), y, 32, 30, value, i === marked ? 1 : 0)),
      ];
      return {
        numbers: { carry },
        says: `After turn ${done} of ${layers}, x is ${carry[done]}. The compiler sees 2 operations; a Python loop gives it ${2 * layers}.`,
        picture: picture(160, "The stacked numbers a and b of the layers, and x after each turn", [
          label(170, 12, "layer l maps x to a · x + b"),
          ...row(26, "a", factors, done - 1),
          ...row(56, "b", terms, done - 1),
          ...row(116, "x", carry, done, 1),
          ...(done ? [path([[42 + 32 * done, 86], [42 + 32 * done, 116]], ACCENT, 'stroke-width="2"')] : []),
        ]),
      };
    },
  };

  // 22: the longest axis that the devices divide is cut.
  KINDS.shards = {
    sliders: [
      slider("rows", "Rows", 1, 64, 1, 32),
      slider("columns", "Columns", 1, 64, 1, 48),
      slider("devices", "Devices", 1, 3, 1, 3, (n) => String(2 ** n)),
    ],
    show({ rows, columns, devices }) {
      const [shape, count] = [[rows, columns], 2 ** devices];
      const axes = [0, 1].filter((axis) => shape[axis] % count === 0).sort((a, b) => shape[b] - shape[a]);
      const axis = axes.length ? axes[0] : -1; // `sort` is stable, so the first of equally long ones
      const part = shape.map((size, i) => (i === axis ? size / count : size));
      const [whole, bytes] = [3 * 4 * rows * columns, 3 * 4 * part[0] * part[1]];
      const [left, scale] = [160 - 1.15 * columns, 2.3];
      const cuts = axis < 0 ? [] : range(count).map((i) => [0, 1].map((a) => (a === axis ? i * part[a] : 0)));
      const spec = [0, 1].map((i) => (i === axis ? "'data'" : "None")).join(", ");
      return {
        numbers: { axis, bytes },
        says: `P(${spec}): each device holds (${part.join(", ")}) of each array, ${counted(bytes)} bytes with both moments. The whole is ${counted(whole)} bytes.`,
        picture: picture(178, "A kernel, cut for the devices; the part of device 0 is marked", [
          label(160, 12, `(${rows}, ${columns}), and the part of device 0`),
          ...cuts.map(([y, x]) => cell(left + scale * x, 26 + scale * y, scale * part[1], scale * part[0], "", x + y ? 0 : 1)),
          ...(axis < 0 ? [cell(left, 26, scale * columns, scale * rows, "", 1)] : []),
        ]),
      };
    },
  };

  // 29: temperature reshapes the distribution, top-k and top-p cut its tail.
  KINDS.sampling = {
    sliders: [
      slider("temperature", "Temperature", 0, 3, 0.1, 1, (x) => fixed(x, 1)),
      slider("top_k", "top_k (0 keeps all)", 0, 8, 1, 0),
      slider("top_p", "top_p", 0.05, 1, 0.05, 0.9, (x) => fixed(x)),
    ],
    show({ temperature, top_k, top_p }) {
      const tokens = ["mat", "rug", "bed", "sofa", "roof", "moon", "idea", "seven"];
      const logits = [4, 3.2, 2.5, 2, 1, 0.3, -0.5, -1.5]; // from the most likely token down
      const normal = (odds) => odds.map((p) => p / sum(odds));
      let odds = temperature ? softmax(logits.map((logit) => logit / temperature)) : logits.map((_, i) => (i ? 0 : 1));
      const before = odds;
      if (top_k) odds = normal(odds.map((p, i) => (i < top_k ? p : 0)));
      odds = normal(odds.map((p, i) => (top_p === 1 || sum(odds.slice(0, i)) < top_p ? p : 0)));
      const kept = odds.filter((p) => p > 0);
      return {
        numbers: { logits, odds },
        says: `Tokens kept: ${kept.length} of 8. Their probabilities: ${list(kept, 3)}.`,
        picture: picture(212, "The probabilities of eight tokens: outlined after the temperature, filled after top-k and top-p", tokens.flatMap((token, i) => [
          label(46, 18 + 25 * i, token, "end"),
          box(54, 8 + 25 * i, 210 * odds[i], 20, `fill="${ACCENT}" fill-opacity="0.5"`),
          box(54, 8 + 25 * i, 210 * before[i], 20, 'fill="none" stroke="currentColor" stroke-opacity="0.6"'),
          label(314, 18 + 25 * i, odds[i] ? fixed(odds[i], 3) : "–", "end"),
        ])),
      };
    },
  };

  // 37: both vectors turn with their positions; their score knows only the distance.
  KINDS.rotation = {
    sliders: [
      slider("key", "Position of the key", 0, 60, 1, 5),
      slider("distance", "The query stands later by", 0, 10, 1, 3),
      slider("pair", "Pair i of 4", 0, 3, 1, 0),
    ],
    show({ key, distance, pair }) {
      const speed = 10000 ** ((-2 * pair) / 8); // base 10,000, K = 8
      const turned = ([a, b], angle) => [a * Math.cos(angle) - b * Math.sin(angle), a * Math.sin(angle) + b * Math.cos(angle)];
      const [q, k] = [turned([0.9, 0.3], (key + distance) * speed), turned([0.6, 0.7], key * speed)];
      const score = q[0] * k[0] + q[1] * k[1];
      const arrow = ([a, b], name, color, look) => [
        path([[160, 104], [160 + 84 * a, 104 - 84 * b]], color, look),
        `<circle cx="${fixed(160 + 84 * a)}" cy="${fixed(104 - 84 * b)}" r="4.5" fill="${color}"/>`,
        text(160 + 100 * a, 104 - 100 * b, name, 'font-weight="600"'),
      ];
      return {
        numbers: { q, k, score },
        says: `The key has turned by ${fixed(key * speed, 3)} radians, the query by ${fixed((key + distance) * speed, 3)}. Their score is ${fixed(score, 3)}.`,
        picture: picture(208, "A query and a key of two numbers each, turned by their positions", [
          path([[60, 104], [260, 104]], "currentColor", 'stroke-opacity="0.3"'),
          path([[160, 6], [160, 202]], "currentColor", 'stroke-opacity="0.3"'),
          '<circle cx="160" cy="104" r="84" fill="none" stroke="currentColor" stroke-opacity="0.3"/>',
          ...arrow(k, "k", "currentColor", 'stroke-width="2.5"'),
          ...arrow(q, "q", ACCENT, 'stroke-width="2.5"'),
        ]),
      };
    },
  };

  // 43: three running numbers give the softmax of a row that is never there as a whole.
  KINDS.blocks = {
    sliders: [
      slider("block", "Keys in a block", 0, 3, 1, 1, (n) => String(2 ** n)),
      slider("read", "Keys read, in whole blocks", 1, 8, 1, 4),
    ],
    show({ block, read }) {
      const [scores, values, size] = [[1, 3, 2, 0, 5, 4, 2, 6], [10, 20, 30, 40, 50, 60, 70, 80], 2 ** block];
      const keys = Math.ceil(read / size) * size;
      let [max, factor, total, out] = [-Infinity, 0, 0, 0];
      for (let start = 0; start < keys; start += size) {
        const larger = Math.max(max, ...scores.slice(start, start + size));
        [max, factor] = [larger, Math.exp(max - larger)];
        const powers = scores.slice(start, start + size).map((score) => Math.exp(score - max));
        total = total * factor + sum(powers);
        out = out * factor + sum(powers.map((power, i) => power * values[start + i]));
      }
      const carried = [["factor", factor], ["max", max], ["sum", total], ["out", out]];
      return {
        numbers: { max, factor, total, out, keys, result: out / total },
        says: `Keys read: ${keys}. Factor ${fixed(factor, 3)}, max ${fixed(max, 0)}, sum ${fixed(total, 3)}, out ${fixed(out)}. The output is ${fixed(out)} / ${fixed(total, 3)} = ${fixed(out / total)}.`,
        picture: picture(168, "The scores and values of eight keys, the block read last, and what the loop carries", [
          label(38, 25, "score", "end"),
          label(38, 55, "value", "end"),
          ...scores.map((score, i) => cell(44 + 34 * i, 10, 34, 30, score, i < keys ? Math.exp(score - max) / total : 0)),
          ...values.map((value, i) => cell(44 + 34 * i, 40, 34, 30, value)),
          box(44 + 34 * (keys - size), 10, 34 * size, 60, `fill="none" stroke="${ACCENT}" stroke-width="3"`),
          ...carried.flatMap(([name, value], i) => [
            cell(4 + 78 * i, 104, 78, 32, fixed(value, name === "max" ? 0 : 3)),
            label(43 + 78 * i, 148, name),
          ]),
        ]),
      };
    },
  };

  /** The kind that a page names, and the values that its sliders start with. Throws an Error, a sentence for the author of the page. */
  function read(line) {
    const [name, ...words] = line.trim().split(/\s+/);
    const kind = Object.hasOwn(KINDS, name) && KINDS[name];
    if (!kind) throw new Error(`There is no explorable "${name}"; choose one of ${Object.keys(KINDS).join(", ")}.`);
    const values = Object.fromEntries(kind.sliders.map((it) => [it.name, it.start]));
    for (const word of words) {
      const [own, value] = word.split("=");
      const it = kind.sliders.find((it) => it.name === own);
      if (!it || !value || !(Number(value) >= it.least && Number(value) <= it.most)) {
        const ranges = kind.sliders.map(({ name, least, most }) => `${name}=${least} to ${name}=${most}`);
        throw new Error(`The explorable "${name}" cannot start with "${word}"; it takes ${ranges.join(", ")}.`);
      }
      values[own] = Number(value);
    }
    return [kind, values];
  }

  return { KINDS, read };
})();

if (typeof module === "object") module.exports = Explorables;
