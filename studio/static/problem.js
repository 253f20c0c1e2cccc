// A problem's page: keeps the editor and the file in step, and shows verdicts, hints and earlier attempts.

import { handIn } from "./hand_in.js";
import { player } from "./play.js";
import { predictions } from "./predictions.js";
import { at, coded, listen, send } from "./studio.js";
import { mark, tablist } from "./tabs.js";
import { trial } from "./trial.js";
import { show } from "./views.js";
import { editor, goToLine, markLines, onSaveKeys, replaceText, sideBySide, unified } from "./workbench.js";

const $ = (id) => document.getElementById(id);
const state = JSON.parse($("state").textContent);
const path = `/problems/${state.label}`;
const filename = $("tab-file").textContent;

predictions(document.querySelector("#page .text"), path, state.predicted, state.attempted);
const pitfalls = document.querySelector("#page .pitfalls");
if (pitfalls) pitfalls.open = state.attempted;

// ---- The file: what is typed is never lost, and what is on disk is never overwritten unseen.

const DRAFT = `draft-${state.label}`;
let base = { text: state.text, digest: state.digest }; // the file, as this page last knew it
let seen = state.digest; // the hash of the file on disk, as the studio last told
let saving = false;
let again = false; // whether a save was asked for while another one was on its way
let drafting;

const view = editor($("editor"), state.text, `${filename}. Escape, then Tab, leaves the editor.`, changed);
const typed = () => view.state.doc.toString();
const isUnsaved = () => typed() !== base.text;

function changed() {
  clearTimeout(drafting);
  drafting = setTimeout(keepDraft, 200);
  if (!saving) $("saved").textContent = isUnsaved() ? "unsaved" : "saved";
}

function keepDraft() {
  if (isUnsaved()) localStorage.setItem(DRAFT, JSON.stringify({ text: typed(), base: base.digest }));
  else localStorage.removeItem(DRAFT);
}

function isNow(file) {
  base = file;
  seen = file.digest;
  changed();
}

async function save() {
  if (merging || state.refused) return;
  if (saving) return void (again = true);
  const text = typed();
  saving = true;
  $("saved").textContent = "saving";
  const { status, body } = await send(`${path}/file`, "PUT", { text, base: base.digest });
  saving = false;
  const changedMeanwhile = seen !== base.digest && seen !== body.digest;
  if (status === 200) isNow(body);
  else if (status === 409) resolve(body);
  else changed();
  if (changedMeanwhile) onFile({});
  if (status && status !== 200 && status !== 409) $("saved").textContent = body.error;
  if (again && isUnsaved()) save();
  again = false;
}

async function onFile({ digest }) {
  seen = digest;
  if (digest === base.digest || saving) return;
  const { status, body } = await send(`${path}/file`);
  if (status !== 200 || saving) return;
  if (merging) return resolve(body);
  if (body.text === typed()) return isNow(body);
  if (isUnsaved()) return resolve(body);
  isNow(body);
  replaceText(view, body.text);
}

// ---- A conflict: the file has changed, and so has the text here.

let merging;

function resolve(file) {
  const mine = merging ? merging.view.b.state.doc.toString() : typed();
  merging?.view.destroy();
  select($("tab-file"));
  show("code");
  $("editor").hidden = true;
  $("conflict").hidden = false;
  $("saved").textContent = "changed on disk";
  const labels = [`${filename} on disk`, "Your text"];
  merging = { file, view: sideBySide($("panel-file"), file.text, mine, { edits: true, labels }) };
}

function resolved(text) {
  base = merging.file;
  merging.view.destroy();
  merging = undefined;
  $("editor").hidden = false;
  $("conflict").hidden = true;
  replaceText(view, text);
  changed();
  view.focus();
}

$("take-disk").addEventListener("click", () => resolved(merging.file.text));
$("keep-mine").addEventListener("click", () => {
  resolved(merging.view.b.state.doc.toString());
  save();
});

// ---- The verdict.

const MARKS = { PASS: "✓", "NOT ATTEMPTED": "·" };
const WORDS = { PASS: "passed", "NOT ATTEMPTED": "not attempted" };
const rows = [...$("checks").children];
const passed = $("passed");
let finished = 0;
let live = false; // whether this page has seen the grading begin

function showCheck(row, { verdict, passed: isPassed, message }) {
  row.className = isPassed ? "passed" : verdict === "NOT ATTEMPTED" ? "" : "failed";
  row.querySelector(".mark").textContent = MARKS[verdict] ?? "✗";
  row.setAttribute("aria-label", `${row.querySelector(".check").textContent}: ${WORDS[verdict] ?? verdict.toLowerCase()}`);
  row.title = message;
}

function onGrading() {
  finished = 0;
  live = true;
  $("checks").setAttribute("aria-busy", "true");
  $("checks").append(...rows);
  for (const row of rows) row.hidden = false;
  passed.hidden = true;
  for (const row of rows) {
    row.className = "waiting";
    row.removeAttribute("aria-label");
    row.querySelector(".mark").textContent = "·";
    row.querySelector(".message").textContent = "";
  }
  $("headline").className = "";
  $("headline").textContent = "Grading…";
  $("advice").textContent = "";
  $("cause").replaceChildren();
  $("stop").hidden = false;
  $("consequence").hidden = true;
}

function onCheck(check) {
  if (rows[finished]) showCheck(rows[finished], check);
  finished += 1;
}

function onStopped() {
  onVerdict({ failed: "Save again to grade it." });
  $("headline").textContent = "Grading was stopped";
}

function onVerdict(verdict) {
  $("checks").setAttribute("aria-busy", "false");
  $("stop").hidden = true;
  if (verdict.failed) {
    $("headline").textContent = "This could not be graded";
    $("advice").textContent = verdict.failed;
    return;
  }
  const reason = verdict.checks.find((check) => !check.passed)?.message ?? "";
  verdict.checks.forEach((check, index) => rows[index] && showCheck(rows[index], check));
  fold(verdict, verdict.cause ? "" : reason);
  $("headline").className = { PASS: "passed", "NOT ATTEMPTED": "todo" }[verdict.verdict] ?? "failed";
  $("headline").textContent = `${verdict.verdict}, ${verdict.score} of ${verdict.points} points`;
  $("advice").replaceChildren(...coded(verdict.cause ? `Likely cause: ${verdict.cause}` : reason));
  if (verdict.done) {
    const runs = Object.assign(document.createElement("a"), { href: at("/runs"), textContent: "Train here" });
    $("advice").append(...coded(verdict.done), " ", ...(verdict.done.includes("harness train") ? [runs, ". "] : []));
  }
  if (verdict.next) $("advice").append("Next: ", linkTo(verdict.next));
  $("consequence").hidden = !(verdict.cause && verdict.can_play);
  $("report").innerHTML = verdict.html; // escaped by the studio
  $("report").querySelector(".case h3")?.append(" ", tryButton);
  $("cause").replaceChildren(...$("report").querySelectorAll(":is(.cause, .earlier)")); // what to do stands above the checks
  const remedy = $("cause").querySelector(".fix");
  remedy?.querySelector("summary").append(", which counts as a hint");
  remedy?.addEventListener("toggle", () => send(`${path}/mend`, "POST", {}), { once: true });
  $("verdict").scrollTop = 0;
  $("tab-reference").hidden &&= verdict.verdict !== "PASS";
  showFrames(reason);
  if (!$("panel-history").hidden) showAttempts();
  const isCounting = !$("cost").hidden; // who looks at the cost stays there
  if (live && !isCounting) show(state.plays && verdict.first ? "play" : isPlayShown() ? "play" : "verdict");
  live = false;
}

/**
 * Expands the checks that failed, each message once, and folds those that passed. Those of a later stage are not shown.
 * `said` is a message that stands above.
 */
function fold(verdict, said) {
  $("stages").hidden = !verdict.stages.length;
  $("stages").replaceChildren(
    ...verdict.stages.map((heading) => Object.assign(document.createElement("li"), { textContent: heading })),
  );
  const messages = new Set(["", said]);
  for (const [index, check] of verdict.checks.entries()) {
    const told = check.passed || check.verdict === "NOT ATTEMPTED" || messages.has(check.message);
    rows[index].querySelector(".message").replaceChildren(...(told ? [] : coded(check.message)));
    messages.add(check.message);
    rows[index].hidden = check.later;
  }
  const right = rows.filter((row, index) => verdict.checks[index]?.passed && !row.hidden);
  passed.querySelector("ul").replaceChildren(...right);
  passed.querySelector("summary").textContent = `${right.length} of ${rows.filter((row) => !row.hidden).length} checks passed`;
  passed.hidden = !right.length;
}

/** Links the learner's own lines that failed to the editor, and marks the innermost with the reason. */
function showFrames(reason) {
  const frames = linkFrames($("report"));
  markLines(view, frames.slice(-1).map((frame) => ({ line: Number(frame.dataset.line), message: reason })));
  if (frames.length) $("advice").append(" ", lineButton(frames.at(-1).dataset.line));
}

/** Adds a button to each of the learner's own lines in an element. Returns them. */
function linkFrames(element) {
  const frames = [...element.querySelectorAll(".frames [data-line]")].filter((frame) => frame.dataset.file === filename);
  for (const frame of frames) frame.insertBefore(lineButton(frame.dataset.line), frame.querySelector("pre"));
  return frames;
}

function linkTo({ label, title }) {
  const link = document.createElement("a");
  link.href = at(`/problems/${label}`);
  link.textContent = `${label} ${title}`;
  return link;
}

function lineButton(line) {
  const button = document.createElement("button");
  button.type = "button";
  button.textContent = `Go to line ${line}`;
  button.addEventListener("click", () => {
    select($("tab-file"));
    show("code");
    goToLine(view, Number(line));
  });
  return button;
}

$("stop").addEventListener("click", () => send(`${path}/grade/stop`, "POST"));

const tryButton = trial(path, () => {
  show("code");
  select($("tab-trial"));
  $("tab-trial").focus();
});
const play = state.plays && player(path, () => base.digest, linkFrames);
const isPlayShown = () => state.plays && !$("play").hidden;
$("consequence").addEventListener("click", () => show("play"));

// ---- What the saved file costs.

$("cost-form").addEventListener("submit", async (event) => {
  event.preventDefault();
  $("cost-button").disabled = true;
  $("cost-said").textContent = "Counting…";
  const { status, body } = await send(`${path}/cost`, "POST");
  $("cost-button").disabled = false;
  $("cost-button").textContent = "Count again";
  $("cost-said").textContent = status === 200 ? "Counted on the file as it was saved." : (body?.error ?? "The studio does not answer.");
  if (status === 200) $("cost-shown").innerHTML = body.html; // escaped by the studio
});

const handedIn = handIn(path, async () => {
  if (isUnsaved()) await save();
  return !isUnsaved();
});

listen(`${path}/events`, {
  ...handedIn,
  file: onFile,
  grading: onGrading,
  check: onCheck,
  progress: ({ words }) => ($("advice").textContent = words),
  verdict: onVerdict,
  stopped: onStopped,
  ...play?.handlers,
});

// ---- A test-out: the file becomes the reference without its core, which the page hears of as of any change on disk.

$("test-out")?.addEventListener("click", async () => {
  const { status, body } = await send(`${path}/test-out`, "POST");
  $("test-out").hidden = status === 200;
  const kept = body?.kept ? ` Your file is kept as ${body.kept}.` : "";
  $("test-out-said").textContent = status === 200 ? `Write what is missing, and save.${kept}` : (body?.error ?? "The studio does not answer.");
  if (status === 200) show("code");
});

// ---- Hints, one at a time.

$("hint").addEventListener("click", async () => {
  const { status, body } = await send(`${path}/hint`, "POST");
  if (status !== 200) return;
  const item = document.createElement("li");
  item.innerHTML = body.html; // from the course
  $("hints").append(item);
  $("hint").hidden = body.left === 0;
  $("hint").textContent = `Show hint ${body.number + 1} of ${$("hint").dataset.total}`;
});

// ---- Tabs: the file, its history, the reference.

const tabs = tablist($("files"), select);
const opened = { "tab-history": showAttempts, "tab-reference": showReference };

function select(tab) {
  mark(tabs, tab);
  for (const other of tabs) $(other.getAttribute("aria-controls")).hidden = other !== tab;
  opened[tab.id]?.();
}

let comparison;

async function showAttempts() {
  const { status, body } = await send(`${path}/attempts`);
  if (status !== 200) return;
  $("attempts").replaceChildren(...body.map(attemptItem));
  if (!body.length) $("compared-title").textContent = "There is no attempt yet: each text that you save is kept here.";
}

function attemptItem(attempt) {
  const when = new Date(attempt.saved_at).toLocaleString([], { dateStyle: "medium", timeStyle: "short" });
  const result = attempt.verdict ? `${attempt.verdict}, ${attempt.score} of ${attempt.points}` : "not graded";
  const item = document.createElement("li");
  const button = document.createElement("button");
  button.type = "button";
  button.append(line("when", when), line(attempt.verdict === "PASS" ? "passed" : "result", result));
  if (attempt.cause) button.append(line("cause", attempt.cause));
  button.addEventListener("click", () => compare(attempt, when, button));
  item.append(button);
  return item;
}

function line(kind, text) {
  const span = document.createElement("span");
  span.className = kind;
  span.textContent = text;
  return span;
}

async function compare(attempt, when, button) {
  const { status, body } = await send(`${path}/attempts/${attempt.id}`);
  if (status !== 200) return;
  for (const other of $("attempts").querySelectorAll("button")) other.removeAttribute("aria-current");
  button.setAttribute("aria-current", "true");
  comparison?.destroy();
  const same = body.text === typed();
  $("compared-title").textContent = same ? `The attempt of ${when} is your file as it is now.` : `From the attempt of ${when} to your file now.`;
  comparison = unified($("compared"), body.text, typed(), `The attempt of ${when} compared with your file`);
  $("restore").hidden = same;
  $("restore").onclick = () => {
    select($("tab-file"));
    replaceText(view, body.text);
    view.focus();
  };
}

let reference;

async function showReference() {
  const typedNow = typed();
  const { status, body } = await send(`${path}/reference`, "POST", { text: typedNow });
  if (status !== 200) return;
  $("why").innerHTML = body.why; // from the course
  $("whole-texts").disabled = !body.bare;
  const [yours, other] = body.bare && !$("whole-texts").checked ? body.bare : [typedNow, body.text];
  $("same-code").hidden = yours !== other;
  reference?.destroy();
  reference = unified($("reference"), yours, other, "The reference compared with your file");
}

$("whole-texts").addEventListener("change", showReference);

// ---- Keys, drafts, and the time that is spent here.

$("grade").addEventListener("click", save);
onSaveKeys(save);

window.addEventListener("pagehide", keepDraft);
const draft = JSON.parse(localStorage.getItem(DRAFT) ?? "null");
if (state.refused) view.dom.hidden = true;
else if (draft && draft.text !== state.text) {
  if (draft.base === state.digest) replaceText(view, draft.text);
  else {
    replaceText(view, draft.text);
    resolve(base);
  }
}

let wasActive = false;
for (const kind of ["keydown", "pointermove", "scroll"]) {
  document.addEventListener(kind, () => (wasActive = true), { capture: true, passive: true });
}
setInterval(() => {
  if (wasActive && !document.hidden) send(`${path}/active`, "POST");
  wasActive = false;
}, 30_000);
