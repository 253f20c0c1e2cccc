// What the language server asks to be shown: reports and plays as web pages, the pages of problems as Markdown.
import { readFile } from "node:fs/promises";
import { basename, extname } from "node:path";
import * as vscode from "vscode";
import { themed } from "./course.ts";

const BESIDE = { viewColumn: vscode.ViewColumn.Two, preserveFocus: true };
const TITLES: Record<string, string> = { verdict: "Verdict", play: "See it work" };

export class Pages {
  private readonly panels = new Map<string, vscode.WebviewPanel>();

  /** Shows a file beside the code. Returns whether it is one of a kind that is shown here. */
  async show(file: vscode.Uri): Promise<boolean> {
    switch (extname(file.fsPath)) {
      case ".html":
        await this.web(file);
        return true;
      case ".md":
        await vscode.commands.executeCommand("vscode.openWith", file, "vscode.markdown.preview.editor", BESIDE);
        return true;
      default:
        return false;
    }
  }

  /** Whether a verdict is on the screen. */
  get showsVerdict(): boolean {
    return this.panels.get("verdict")?.visible ?? false;
  }

  private async web(file: vscode.Uri): Promise<void> {
    const kind = basename(file.fsPath).split("_")[0] ?? "";
    const html = await readFile(file.fsPath, "utf8");
    let panel = this.panels.get(kind);
    if (!panel) {
      panel = vscode.window.createWebviewPanel(`gptKata.${kind}`, TITLES[kind] ?? kind, BESIDE, {
        enableFindWidget: true,
        localResourceRoots: [],
      });
      panel.onDidDispose(() => this.panels.delete(kind));
      this.panels.set(kind, panel);
    } else if (!panel.visible) {
      panel.reveal(undefined, true);
    }
    const { kind: theme } = vscode.window.activeColorTheme;
    const isDark = theme === vscode.ColorThemeKind.Dark || theme === vscode.ColorThemeKind.HighContrast;
    panel.webview.html = themed(html, isDark);
  }
}
