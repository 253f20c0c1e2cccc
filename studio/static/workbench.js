// The editors of a problem's page, all with the same look: one to write in, and comparisons of two texts.

import {
  basicSetup,
  EditorState,
  EditorView,
  HighlightStyle,
  indentUnit,
  indentWithTab,
  isolateHistory,
  keymap,
  lintGutter,
  MergeView,
  python,
  setDiagnostics,
  syntaxHighlighting,
  tags,
  unifiedMergeView,
} from "./editor.js";

const nonce = document.querySelector("meta[name=nonce]").content;

const colors = HighlightStyle.define([
  { tag: [tags.keyword, tags.operatorKeyword, tags.controlKeyword, tags.definitionKeyword, tags.moduleKeyword], color: "var(--code-keyword)" },
  { tag: [tags.string, tags.special(tags.string)], color: "var(--code-string)" },
  { tag: [tags.number, tags.bool, tags.null], color: "var(--code-number)" },
  { tag: [tags.comment, tags.meta], color: "var(--muted)", fontStyle: "italic" },
  { tag: [tags.function(tags.definition(tags.variableName)), tags.definition(tags.className)], color: "var(--code-name)", fontWeight: "600" },
]);

const look = EditorView.theme({
  "&": { height: "100%", color: "var(--text)", backgroundColor: "var(--paper)", fontSize: "0.8125rem" },
  "&.cm-focused": { outline: "none" },
  ".cm-scroller": { fontFamily: "var(--mono)", lineHeight: "1.5" },
  ".cm-content": { caretColor: "var(--text)" },
  ".cm-cursor, .cm-dropCursor": { borderLeftColor: "var(--text)" },
  "&.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground, .cm-selectionBackground": { backgroundColor: "var(--selection)" },
  ".cm-gutters": { backgroundColor: "var(--paper)", color: "var(--muted)", border: "none" },
  ".cm-activeLine, .cm-activeLineGutter": { backgroundColor: "var(--active-line)" },
  ".cm-panels, .cm-tooltip": { backgroundColor: "var(--raised)", color: "var(--text)", borderColor: "var(--line)" },
  ".cm-changedLine, .cm-insertedLine": { backgroundColor: "var(--inserted)" },
  "&.cm-merge-a .cm-changedLine, .cm-deletedChunk": { backgroundColor: "var(--deleted)" },
  ".cm-changedText, &.cm-merge-a .cm-changedText, .cm-deletedChunk .cm-deletedText": { background: "none", textDecoration: "underline" },
  "&.cm-merge-b .cm-changedLineGutter": { background: "var(--accent)" },
  "&.cm-merge-a .cm-changedLineGutter, & .cm-deletedLineGutter": { background: "var(--wrong)" },
});

function shared(label) {
  return [
    basicSetup,
    python(),
    indentUnit.of("    "),
    look,
    syntaxHighlighting(colors),
    EditorView.cspNonce.of(nonce),
    EditorView.contentAttributes.of({ "aria-label": label, tabindex: "0" }),
  ];
}

const fixed = [
  EditorState.readOnly.of(true),
  EditorView.editable.of(false),
  EditorView.contentAttributes.of({ "aria-readonly": "true" }),
];

/** The editor. `onChange` is called after each change of its text. */
export function editor(parent, text, label, onChange) {
  const extensions = [
    keymap.of([indentWithTab]),
    shared(label),
    EditorView.lineWrapping, // the contract stands in the docstrings of stubs
    lintGutter(),
    EditorView.updateListener.of((update) => update.docChanged && onChange()),
  ];
  return new EditorView({ parent, state: EditorState.create({ doc: text, extensions }) });
}

/** Calls `save` when Ctrl-Enter or Ctrl-S is pressed anywhere on the page. */
export function onSaveKeys(save) {
  const pressed = (event) => {
    if (!(event.ctrlKey || event.metaKey) || (event.key !== "Enter" && event.key.toLowerCase() !== "s")) return;
    event.preventDefault();
    event.stopPropagation();
    save();
  };
  document.addEventListener("keydown", pressed, { capture: true });
}

/** A text to read. */
export function reader(parent, text, label) {
  return new EditorView({ parent, state: EditorState.create({ doc: text, extensions: [shared(label), fixed, EditorView.lineWrapping] }) });
}

/** Replaces the text by changing no more than what differs, so that the cursor stays. It can be undone. */
export function replaceText(view, text) {
  const old = view.state.doc.toString();
  let from = 0;
  while (from < old.length && from < text.length && old[from] === text[from]) from += 1;
  let end = 0;
  while (end < old.length - from && end < text.length - from && old[old.length - 1 - end] === text[text.length - 1 - end]) end += 1;
  const changes = { from, to: old.length - end, insert: text.slice(from, text.length - end) };
  view.dispatch({ changes, annotations: isolateHistory.of("full") });
}

/** Puts the cursor at a line, in view. */
export function goToLine(view, number) {
  const line = view.state.doc.line(Math.min(Math.max(number, 1), view.state.doc.lines));
  view.dispatch({ selection: { anchor: line.from }, effects: EditorView.scrollIntoView(line.from, { y: "center" }) });
  view.focus();
}

/** Marks lines with messages: `[{line, message}]`. */
export function markLines(view, marks) {
  const diagnostics = marks
    .filter(({ line }) => line >= 1 && line <= view.state.doc.lines)
    .map(({ line, message }) => {
      const { from, to } = view.state.doc.line(line);
      return { from, to, severity: "error", message };
    });
  view.dispatch(setDiagnostics(view.state, diagnostics));
}

/** Two texts side by side. With `edits`, the right one can be edited and takes over parts of the left one. */
export function sideBySide(parent, left, right, { edits = false, labels }) {
  return new MergeView({
    parent,
    a: { doc: left, extensions: [shared(labels[0]), fixed] },
    b: { doc: right, extensions: [shared(labels[1]), edits ? keymap.of([indentWithTab]) : fixed] },
    revertControls: edits ? "a-to-b" : undefined,
    gutter: true,
  });
}

/** One text, with what was removed from another one shown in it. */
export function unified(parent, before, after, label) {
  const merge = unifiedMergeView({ original: before, mergeControls: false });
  return new EditorView({ parent, state: EditorState.create({ doc: after, extensions: [shared(label), fixed, EditorView.lineWrapping, merge] }) });
}
