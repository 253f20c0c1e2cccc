// The licenses of what a bundle contains.
import { readFileSync, readdirSync } from "node:fs";
import { join } from "node:path";

/** The license of each package in the metafile of a bundle that esbuild made in a folder, as one text. */
export function licenses(metafile, folder) {
  const packages = new Set();
  for (const path of Object.keys(metafile.inputs)) {
    const found = path.match(/^node_modules\/((?:@[^/]+\/)?[^/]+)\//);
    if (found) packages.add(found[1]);
  }
  const texts = [...packages].sort().map((name) => {
    const root = join(folder, "node_modules", name);
    const { version } = JSON.parse(readFileSync(join(root, "package.json"), "utf8"));
    const file = readdirSync(root).find((each) => /^license(\.\w+)?$/i.test(each));
    return `${name} ${version}\n\n${readFileSync(join(root, file), "utf8").trim()}\n`;
  });
  return texts.join(`\n${"-".repeat(72)}\n\n`);
}
