// Bundles the extension, and the test that plain Node runs, into dist/ or the folder that is named.
import { copyFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";
import { licenses } from "../../studio/editor/licenses.js";

const here = fileURLToPath(new URL(".", import.meta.url));
const folder = process.argv[2] ?? join(here, "dist");
const common = { absWorkingDir: here, bundle: true, charset: "utf8", metafile: true, platform: "node", target: "node20" };

const { metafile } = await build({
  ...common,
  entryPoints: ["src/extension.ts"],
  external: ["vscode"],
  format: "cjs",
  minify: true,
  outfile: join(folder, "extension.cjs"),
});
writeFileSync(join(folder, "licenses.txt"), licenses(metafile, here));
copyFileSync(join(here, "..", "..", "LICENSE"), join(folder, "LICENSE"));
await build({ ...common, entryPoints: ["test/course.test.ts"], format: "esm", outfile: join(folder, "course.test.js") });
