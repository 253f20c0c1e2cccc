// The tree of problems with the learner's states, from `grade list --json`.
import { execFile } from "node:child_process";
import { promisify } from "node:util";
import * as vscode from "vscode";
import { failure, icon, parts, standing, type Part, type Problem } from "./course.ts";

const LARGEST = 1 << 24; // bytes of output

export class Problems implements vscode.TreeDataProvider<Part | Problem> {
  private readonly changed = new vscode.EventEmitter<void>();
  readonly onDidChangeTreeData = this.changed.event;
  readonly view = vscode.window.createTreeView("gptKata.problems", { treeDataProvider: this });

  constructor(private readonly grade: readonly [string, ...string[]], private readonly folder: string) {}

  refresh(): void {
    this.changed.fire();
  }

  async getChildren(part?: Part | Problem): Promise<(Part | Problem)[]> {
    if (part) return "problems" in part ? part.problems : [];
    const [command, ...words] = this.grade;
    try {
      const run = await promisify(execFile)(command, [...words, "list", "--json"], {
        cwd: this.folder,
        maxBuffer: LARGEST,
      });
      const found = parts(run.stdout);
      delete this.view.message;
      return found;
    } catch (error) {
      this.view.message = failure(command, error as Error);
      return [];
    }
  }

  getTreeItem(element: Part | Problem): vscode.TreeItem {
    if ("problems" in element) {
      return new vscode.TreeItem(element.title, vscode.TreeItemCollapsibleState.Expanded);
    }
    const item = new vscode.TreeItem(`${element.label} ${element.title}`);
    item.id = element.name;
    item.description = standing(element);
    item.iconPath = new vscode.ThemeIcon(icon(element));
    item.contextValue = "problem";
    item.command = { command: "vscode.open", title: "Open", arguments: [vscode.Uri.file(element.file)] };
    return item;
  }
}
