// Starts `grade lsp`, and puts what it answers where VS Code has a place for it. Grades nothing itself.
import * as vscode from "vscode";
import { LanguageClient, MessageType, ShowMessageNotification, type Middleware } from "vscode-languageclient/node";
import { program, type Problem } from "./course.ts";
import { Pages } from "./pages.ts";
import { Problems } from "./problems.ts";

const FILES = [{ scheme: "file", language: "python", pattern: "**/p[0-9][0-9]_*.py" }];

// The commands of the language server, each with what is said while it works.
const COMMANDS = {
  report: "Grading",
  play: "Playing your code in a trained model",
  hint: "Looking up the hint",
  page: "Opening the page",
  try: "Writing the script",
};

// The file that a command from the palette is about. No editor is active while a page or a verdict has the focus.
function shownFile(): vscode.Uri | undefined {
  const { activeTextEditor, visibleTextEditors } = vscode.window;
  const files = [activeTextEditor, ...visibleTextEditors].flatMap((editor) => editor?.document ?? []);
  return files.find((document) => vscode.languages.match(FILES, document))?.uri;
}

export async function activate(context: vscode.ExtensionContext): Promise<void> {
  const folder = vscode.workspace.workspaceFolders?.[0]?.uri;
  if (!folder) return;
  const python = vscode.workspace.getConfiguration("python").inspect<string>("defaultInterpreterPath");
  const grade = program(
    vscode.workspace.getConfiguration("gptKata").get<string[]>("command", []),
    python?.workspaceFolderValue ?? python?.workspaceValue ?? python?.globalValue,
  );
  const pages = new Pages();
  const problems = new Problems(grade, folder.fsPath);

  const middleware: Middleware = {
    handleDiagnostics(uri, diagnostics, next) {
      next(uri, diagnostics);
      if (pages.showsVerdict) void ask("report", uri);
    },
    window: {
      async showDocument(params, token, next) {
        const shown = await pages.show(vscode.Uri.parse(params.uri));
        return shown ? { success: true } : next(params, token);
      },
    },
  };
  const [command, ...words] = grade;
  const client = new LanguageClient(
    "gpt-kata",
    "GPT Kata",
    { command, args: [...words, "lsp"], options: { cwd: folder.fsPath } },
    { documentSelector: FILES, middleware },
  );

  function ask(name: keyof typeof COMMANDS, file: vscode.Uri): Thenable<unknown> {
    const request = { command: `gpt-kata.${name}`, arguments: [file.toString()] };
    return vscode.window.withProgress(
      { location: vscode.ProgressLocation.Window, title: COMMANDS[name] },
      () => client.sendRequest("workspace/executeCommand", request),
    );
  }

  for (const name of Object.keys(COMMANDS) as (keyof typeof COMMANDS)[]) {
    const run = (problem?: Problem) => {
      const file = problem ? vscode.Uri.file(problem.file) : shownFile();
      return file ? ask(name, file) : vscode.window.showInformationMessage("Open the file of a problem first.");
    };
    context.subscriptions.push(vscode.commands.registerCommand(`gptKata.${name}`, run));
  }
  const log = vscode.workspace.createFileSystemWatcher("**/.progress.jsonl");
  log.onDidChange(() => problems.refresh());
  log.onDidCreate(() => problems.refresh());
  context.subscriptions.push(
    client,
    log,
    problems.view,
    vscode.commands.registerCommand("gptKata.refresh", () => problems.refresh()),
  );
  try {
    await client.start();
  } catch {
    return; // the client has shown an error, and the tree says what to do
  }
  // A notification of VS Code shows one line of a text, and a hint has more.
  client.onNotification(ShowMessageNotification.type, ({ type, message }) => {
    if (type === MessageType.Error) void vscode.window.showErrorMessage(message);
    else void vscode.window.showInformationMessage(message, { modal: true });
  });
}
