// Draws the still pictures of explorables: `node docs/stills.mjs` writes problems/NAME/explorable.svg for each page that has one.
// `node docs/stills.mjs DIR` does so in the folder of another course. `grader/course/explorables.js` says what explorables are.

import { existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";

const { read } = createRequire(import.meta.url)("../grader/course/explorables.js");
const problems = join(process.argv[2] ?? join(import.meta.dirname, ".."), "problems");

for (const folder of readdirSync(problems).map((name) => join(problems, name))) {
  const page = join(folder, "page.md");
  const line = existsSync(page) && /^<!-- explorable: (.+) -->$/m.exec(readFileSync(page, "utf8"));
  if (!line) continue;
  try {
    const [kind, values] = read(line[1]);
    writeFileSync(join(folder, "explorable.svg"), `${kind.show(values).picture}\n`);
  } catch (error) {
    console.error(`stills: ${page}: ${error.message}`);
    process.exitCode = 1;
  }
}
