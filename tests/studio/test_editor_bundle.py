"""The editor's bundle is the one that its lock file makes, and names no registry."""

import json
import shutil
import subprocess
from pathlib import Path

from tests.conftest import ROOT
from tests.studio.conftest import missing

EDITOR, STATIC = ROOT / "studio" / "editor", ROOT / "studio" / "static"


def test_the_bundle_is_what_its_sources_make(tmp_path: Path):
    node = shutil.which("node")
    if node is None or not (EDITOR / "node_modules" / "esbuild").is_dir():
        missing("the packages of the editor are not installed: run `npm ci` in studio/editor")
    subprocess.run([node, "build.js", tmp_path], cwd=EDITOR, check=True, timeout=60)
    for name in ("editor.js", "editor.licenses.txt"):
        assert (tmp_path / name).read_bytes() == (STATIC / name).read_bytes()
    assert len((STATIC / "editor.js").read_bytes()) < 600_000


def test_the_lock_file_pins_all_packages_and_names_no_registry():
    lock = json.loads((EDITOR / "package-lock.json").read_text())
    packages = {name: package for name, package in lock["packages"].items() if name}
    assert packages["node_modules/codemirror"]["version"] == "6.0.2"
    assert all("integrity" in package and "resolved" not in package for package in packages.values())
    licenses = (STATIC / "editor.licenses.txt").read_text()
    bundled = [name for name, package in packages.items() if not package.get("dev")]
    for name in bundled:
        assert f"{name.removeprefix('node_modules/')} {packages[name]['version']}\n" in licenses
