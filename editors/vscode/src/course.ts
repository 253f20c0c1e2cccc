// The course as `grade` tells of it, and how `grade` is started. Knows nothing of VS Code, so plain Node can test it.

export interface Problem {
  name: string;
  label: string;
  title: string;
  part: string;
  points: number;
  possible: number;
  state: string;
  passed: boolean;
  file: string;
}

export interface Part {
  title: string;
  problems: Problem[];
}

const KINDS = {
  name: "string", label: "string", title: "string", part: "string", points: "number", possible: "number",
  state: "string", passed: "boolean", file: "string",
} as const;

/** The parts of the course, from the output of `grade list --json`. Throws an Error for people. */
export function parts(output: string): Part[] {
  let read: unknown;
  try {
    read = JSON.parse(output);
  } catch {
    throw new Error(`\`grade list --json\` did not print JSON, but: ${output.slice(0, 100)}`);
  }
  const rows = (read as { problems?: unknown } | null)?.problems;
  if (!Array.isArray(rows) || !rows.every(isProblem)) {
    throw new Error("`grade list --json` is of another version. Install the extension of your version of the course.");
  }
  const found = new Map<string, Part>();
  for (const problem of rows) {
    const part = found.get(problem.part) ?? { title: problem.part, problems: [] };
    found.set(problem.part, part);
    part.problems.push(problem);
  }
  return [...found.values()];
}

function isProblem(row: unknown): row is Problem {
  return typeof row === "object" && row !== null &&
    Object.entries(KINDS).every(([key, kind]) => typeof (row as Record<string, unknown>)[key] === kind);
}

/** The words that start `grade`: those of the user's settings, the workspace's Python with it, or its name. */
export function program(words: readonly string[], python: string | undefined): [string, ...string[]] {
  const [first, ...rest] = words;
  if (first) return [first, ...rest];
  return python ? [python, "-P", "-m", "grader"] : ["grade"];
}

/** Why `grade` could not be run, as a sentence on what to do. `error` is that of Node's `child_process`. */
export function failure(command: string, error: { code?: unknown; stderr?: string; message: string }): string {
  if (error.code === "ENOENT") return `${command} was not found. Set gptKata.command to the words that start grade, and reload.`;
  return error.stderr?.trim() || error.message;
}

/** What stands beside the title of a problem. */
export function standing(problem: Problem): string {
  return [`${problem.points} of ${problem.possible}`, problem.state].filter(Boolean).join(", ");
}

/** The name of the icon of a problem: VS Code's test icons. */
export function icon(problem: Problem): string {
  if (problem.passed) return problem.state.startsWith("passed") ? "pass" : "warning";
  return problem.state === "" || problem.state === "not attempted" ? "circle-outline" : "error";
}

/** A page of `grade` in the light or dark colors of the editor. Its content security policy stays as it is. */
export function themed(html: string, isDark: boolean): string {
  return html.replace("<html ", `<html data-theme="${isDark ? "dark" : "light"}" `);
}
