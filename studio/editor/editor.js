// The parts of CodeMirror 6 that the studio uses, under the names that studio.js imports.
import { indentWithTab, isolateHistory } from "@codemirror/commands";
import { python } from "@codemirror/lang-python";
import { HighlightStyle, indentUnit, syntaxHighlighting } from "@codemirror/language";
import { lintGutter, setDiagnostics } from "@codemirror/lint";
import { MergeView, unifiedMergeView } from "@codemirror/merge";
import { EditorState } from "@codemirror/state";
import { EditorView, keymap } from "@codemirror/view";
import { tags } from "@lezer/highlight";
import { basicSetup } from "codemirror";

export {
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
};
