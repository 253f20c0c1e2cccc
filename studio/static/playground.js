// The playground: a text of tokens that the model read or wrote, what else it expected, and where its attention goes.
import { at, listen, send } from "./studio.js";

const find = (id) => document.querySelector(`#${id}`);
const name = document.querySelector(".playground").dataset.name;
const path = `/runs/${encodeURIComponent(name)}/playground`;
const page = [...crypto.getRandomValues(new Uint8Array(8))].map((byte) => byte.toString(16).padStart(2, "0")).join("");
const [form, prompt, story, say, place, likeliest] = ["form", "prompt", "story", "say", "place", "likeliest"].map(find);
const [sampleButton, more, stop, layer, head, map, attended] = ["sample", "more", "stop", "layer", "head", "map", "attended"].map(find);
const sliders = ["temperature", "top_k", "top_p", "max_tokens"].map(find);
const STRONGEST = 45; // percent of the accent color, which leaves the text readable
const SHOWN = 10; // tokens that the model would rather have written, at most
const BITS = 10; // of surprise, at which a token has the strongest color

let tokens = []; // as the studio sends them, and their elements
let given = 0; // tokens of the prompt
let context = Infinity;
let chosen = -1;
let held = false; // the chosen token stays chosen on the pointer's way to the list
let sampling = false;
let attention; // bytes, size, layers, heads
let timer;
let seed = 0;

const settings = () => Object.fromEntries(sliders.map((slider) => [slider.id, Number(slider.value)]));
const ids = () => tokens.map(({ id }) => id);
const percent = (p) => (p >= 0.1 ? `${Math.round(p * 100)}%` : p >= 0.001 ? `${(p * 100).toFixed(1)}%` : p > 0 ? "<0.1%" : "0%");
const visible = (text) => text.replaceAll("\n", "⏎").replaceAll(" ", "␣") || "…";

async function ask(kind, more = {}) {
  const { status, body } = await send(path, "POST", { page, kind, prompt: "", ids: null, ...settings(), seed, ...more });
  if (status !== 202) failed(body.error);
  return status === 202;
}

function failed(words) {
  say.className = "failed";
  say.textContent = words;
  ended();
}

function working(words) {
  say.className = "";
  say.textContent = words;
}

/** Samples after the prompt, or after these tokens. */
async function sample(from) {
  seed = (seed + 1) % 2 ** 31;
  if (from === undefined) given = 0;
  working(context === Infinity ? "The model is being loaded." : "");
  sampling = true;
  stop.hidden = false;
  more.hidden = true;
  await ask("sample", from ? { ids: from } : { prompt: prompt.value });
}

function ended() {
  sampling = false;
  stop.hidden = true;
  more.hidden = !tokens.length;
}

function color(token) {
  const bits = token.probability === null ? 0 : -Math.log2(Math.max(token.probability, 1e-9));
  token.element.style.setProperty("--strength", `${Math.round(Math.min(bits / BITS, 1) * STRONGEST)}%`);
  const words = token.probability === null ? "first token" : percent(token.probability);
  token.element.setAttribute("aria-label", `${token.text.trim() || visible(token.text)}, ${words}`);
}

function append(token) {
  const element = document.createElement("span");
  element.className = tokens.length < given ? "token given" : "token";
  element.setAttribute("role", "option");
  element.setAttribute("aria-selected", "false");
  element.tabIndex = tokens.length ? -1 : 0;
  element.textContent = token.text;
  element.dataset.index = tokens.length;
  story.setAttribute("role", "listbox");
  story.setAttribute("aria-label", "The text, token by token");
  story.append(element);
  tokens.push({ ...token, element });
  color(tokens.at(-1));
}

function choose(index, focus = false) {
  if (!tokens[index]) return;
  const before = tokens[chosen]?.element;
  before?.setAttribute("aria-selected", "false");
  if (before) before.tabIndex = -1;
  const { element, likeliest: others, probability, text } = tokens[(chosen = index)];
  tokens[0].element.tabIndex = -1;
  element.setAttribute("aria-selected", "true");
  element.tabIndex = 0;
  if (focus) element.focus({ preventScroll: false });
  place.textContent = probability === null
    ? "The first token of a text is not predicted."
    : `“${visible(text)}” had ${percent(probability)}. ${others.length < SHOWN ? `Only ${others.length} can be drawn here: temperature, top-k and top-p leave out all others.` : `The ${SHOWN} likeliest with these settings:`}`;
  likeliest.replaceChildren(...others.map(([id, text, p]) => {
    const item = document.createElement("li");
    const button = document.createElement("button");
    button.type = "button";
    button.className = id === tokens[index].id ? "chosen" : "";
    button.style.setProperty("--share", `${(100 * p).toFixed(1)}%`);
    const code = document.createElement("code");
    code.textContent = visible(text);
    const share = document.createElement("span");
    share.className = "share";
    share.textContent = percent(p);
    button.append(code, share);
    button.title = "Continue from this token";
    button.addEventListener("click", () => sample([...ids().slice(0, index), id]));
    item.append(button);
    return item;
  }));
  drawMap();
}

// Attention

const askAttention = () => tokens.length && !sampling && ask("attention", { ids: ids(), layer: Number(layer.value || 0), head: Number(head.value || 0) });

function options(select, count, value) {
  if (select.options.length !== count) select.replaceChildren(...Array.from({ length: count }, (_, index) => new Option(index + 1, index)));
  select.value = value;
}

function drawMap() {
  for (const { element } of tokens) delete element.dataset.weight;
  if (!attention?.layers) return;
  const { size, bytes } = attention;
  const first = attention.tokens - size;
  const style = getComputedStyle(map);
  const [other, accent, paper] = [style.color, style.accentColor, style.backgroundColor].map((color) => color.match(/\d+/g).map(Number));
  map.width = map.height = size;
  const drawing = map.getContext("2d");
  const image = drawing.createImageData(size, size);
  for (let index = 0; index < size * size; index += 1) {
    const row = Math.floor(index / size);
    const strength = Math.sqrt(bytes[index] / 255); // small weights are seen too
    const [ink, shade] = row === chosen - first && index % size <= row ? [accent, 0.2] : [other, 0];
    for (let part = 0; part < 3; part += 1) image.data[4 * index + part] = paper[part] + (ink[part] - paper[part]) * Math.max(strength, shade);
    image.data[4 * index + 3] = 255;
  }
  drawing.putImageData(image, 0, 0);
  const row = chosen - first;
  if (row < 0 || row >= size) {
    attended.textContent = row < 0 ? "Attention is shown for the last tokens, as many as fit into the context." : "Attention is computed when the text is complete.";
    return;
  }
  const weights = [...bytes.slice(row * size, row * size + row + 1)];
  const best = weights.map((weight, column) => [weight / 255, column]).sort((a, b) => b[0] - a[0]).slice(0, 5);
  for (const [column, weight] of weights.entries()) {
    if (weight < 8) continue;
    tokens[first + column].element.dataset.weight = "";
    tokens[first + column].element.style.setProperty("--weight", `${Math.round((weight / 255) * 100)}%`);
  }
  attended.replaceChildren(`“${visible(tokens[chosen].text)}” attends to `, ...best.filter(([weight]) => weight > 0.005).flatMap(([weight, column], index) => {
    const code = document.createElement("code");
    code.textContent = visible(tokens[first + column].text);
    return [index ? ", " : "", code, ` ${percent(weight)}`];
  }));
}

map.addEventListener("click", (event) => {
  if (!attention?.layers) return;
  const box = map.getBoundingClientRect();
  choose(attention.tokens - attention.size + Math.min(Math.floor(((event.clientY - box.top) / box.height) * attention.size), attention.size - 1));
});
for (const select of [layer, head]) select.addEventListener("change", askAttention);
new MutationObserver(drawMap).observe(document.documentElement, { attributeFilter: ["data-theme"] });

// What the reader does

form.addEventListener("submit", (event) => {
  event.preventDefault();
  sample();
});
prompt.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
    event.preventDefault();
    sample();
  }
});
more.addEventListener("click", () => sample(ids()));
stop.addEventListener("click", () => ask("stop"));
find("other")?.addEventListener("change", (event) => (location.href = at(`/runs/${encodeURIComponent(event.target.value)}/playground`)));

function showSlider(slider) {
  const words = slider.id === "top_k" && slider.value === "0" ? "all" : slider.id === "temperature" && slider.value === "0" ? "greedy" : slider.id === "max_tokens" ? `${slider.value} tokens` : slider.value;
  document.querySelector(`output[for="${slider.id}"]`).textContent = words;
  slider.setAttribute("aria-valuetext", words);
}
for (const slider of sliders) {
  showSlider(slider);
  slider.addEventListener("input", () => {
    showSlider(slider);
    clearTimeout(timer);
    timer = setTimeout(() => (sampling ? ask("settings") : tokens.length && slider.id !== "max_tokens" && ask("read", { ids: ids() })), 150);
  });
}

const indexOf = (event) => (event.target.dataset?.index === undefined ? -1 : Number(event.target.dataset.index));
story.addEventListener("pointerover", (event) => !held && choose(indexOf(event)));
story.addEventListener("focusin", (event) => choose(indexOf(event)));
story.addEventListener("click", (event) => {
  held = indexOf(event) >= 0;
  choose(indexOf(event), true);
});
story.addEventListener("keydown", (event) => {
  const next = { ArrowRight: chosen + 1, ArrowDown: chosen + 10, ArrowLeft: chosen - 1, ArrowUp: chosen - 10, Home: 0, End: tokens.length - 1 }[event.key];
  if (next === undefined) return;
  event.preventDefault();
  choose(Math.min(Math.max(next, 0), tokens.length - 1), true);
});

// What the studio says

listen(`${path}/events?page=${page}`, {
  ready: () => !tokens.length && !sampling && ask("read", { prompt: prompt.value }) && working("The model is being loaded."),
  text: ({ tokens: read, step, context: size }) => {
    const kept = chosen;
    const same = read.length === tokens.length;
    if (!given || read.length < given) given = read.length;
    context = size;
    find("step").textContent = `, step ${step.toLocaleString("en")}`;
    const focused = story.contains(document.activeElement);
    if (same && read.every(({ id }, index) => id === tokens[index].id)) {
      for (const [index, token] of read.entries()) color(Object.assign(tokens[index], token));
    } else {
      story.replaceChildren();
      [tokens, chosen, held, attention] = [[], -1, false, undefined];
      for (const token of read) append(token);
    }
    choose(Math.min(kept < 0 ? tokens.length - 1 : kept, tokens.length - 1), focused);
    working("");
  },
  token: (token) => {
    const follows = chosen === tokens.length - 1;
    append(token);
    if (follows && !story.matches(":hover") && !story.contains(document.activeElement)) choose(tokens.length - 1);
  },
  end: () => {
    ended();
    askAttentionOnce();
  },
  attention: ({ weights, ...sizes }) => {
    attention = { ...sizes, bytes: Uint8Array.from(atob(weights), (character) => character.charCodeAt(0)) };
    layer.disabled = head.disabled = !sizes.layers;
    options(layer, sizes.layers, sizes.layer ?? 0);
    options(head, sizes.heads, sizes.head ?? 0);
    map.hidden = !sizes.layers;
    if (sizes.layers) map.setAttribute("aria-label", `Attention weights of layer ${sizes.layer + 1}, head ${sizes.head + 1}: rows attend to columns.`);
    else attended.textContent = "No attention weights were found in this model.";
    drawMap();
  },
  failed: ({ words }) => failed(words),
});

let shown = "";
/** The end of every request comes here, also that of the attention itself. */
function askAttentionOnce() {
  const key = ids().join();
  if (key !== shown) askAttention();
  shown = key;
}
