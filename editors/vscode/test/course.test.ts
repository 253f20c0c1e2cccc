import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { failure, icon, parts, program, standing, themed, type Problem } from "../src/course.ts";

const PROBLEM: Problem = {
  name: "p07_next_token_loss", label: "07", title: "Next-token loss", part: "I", points: 1, possible: 6,
  state: "fail", passed: false, file: "/home/me/attempts/p07_next_token_loss.py",
};

test("problems are grouped by part, in their order", () => {
  const rows = [PROBLEM, { ...PROBLEM, part: "II", label: "08" }, { ...PROBLEM, label: "09" }];
  const found = parts(JSON.stringify({ schema: 1, problems: rows }));
  assert.deepEqual(found.map(({ title, problems }) => [title, ...problems.map((each) => each.label)]), [
    ["I", "07", "09"],
    ["II", "08"],
  ]);
});

const { LISTED } = process.env; // a file with what `grade list --json` printed

test("the list of a whole course is read", { skip: !LISTED && "LISTED names no file" }, () => {
  const found = parts(readFileSync(LISTED ?? "", "utf8")).flatMap(({ problems }) => problems);
  assert.ok(found.length > 40);
  assert.equal(found[0]?.label, "01");
});

test("what is no list of problems is refused in a sentence", () => {
  assert.throws(() => parts("Traceback"), /did not print JSON, but: Traceback/);
  for (const wrong of [null, [], {}, { problems: 1 }, { problems: [null] }, { problems: [{ ...PROBLEM, points: "1" }] }]) {
    assert.throws(() => parts(JSON.stringify(wrong)), /of another version/);
  }
});

test("the command is that of the settings, else the workspace's Python, else grade", () => {
  assert.deepEqual(program(["uv", "run", "grade"], "/bin/python"), ["uv", "run", "grade"]);
  assert.deepEqual(program([], "/venv/bin/python"), ["/venv/bin/python", "-P", "-m", "grader"]);
  assert.deepEqual(program([], undefined), ["grade"]);
});

test("why grade could not be run is a sentence", () => {
  const missing = Object.assign(new Error("spawn nope ENOENT"), { code: "ENOENT" });
  assert.equal(failure("nope", missing), "nope was not found. Set gptKata.command to the words that start grade, and reload.");
  const refused = Object.assign(new Error("Command failed: grade list --json\n"), { code: 2, stderr: "No course.\n" });
  assert.equal(failure("grade", refused), "No course.");
  assert.equal(failure("grade", new Error("timed out")), "timed out");
});

test("a problem's standing and icon", () => {
  assert.equal(standing(PROBLEM), "1 of 6, fail");
  assert.equal(standing({ ...PROBLEM, points: 0, state: "" }), "0 of 6");
  const icons = [["passed", true], ["passed by its core", true], ["changed since it passed", true], ["fail", false], ["", false]] as const;
  assert.deepEqual(icons.map(([state, passed]) => icon({ ...PROBLEM, state, passed })), [
    "pass", "pass", "warning", "error", "circle-outline",
  ]);
});

test("a page takes the editor's theme and keeps its policy", () => {
  const page = '<!DOCTYPE html>\n<html lang="en">\n<head><meta http-equiv="Content-Security-Policy" content="x"></head>';
  const dark = themed(page, true);
  assert.match(dark, /<html data-theme="dark" lang="en">/);
  assert.equal(dark.replace(' data-theme="dark"', ""), page);
});
