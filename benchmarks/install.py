"""The installation: its size and its time, of the course and of an environment with JAX, Flax, Optax, Orbax and Grain
alone.

    python benchmarks/install.py

Installs both in turn with the README's command, twice, into new environments. The second round finds the downloads in
pip's cache. The difference in size is what the course adds; the largest packages of it are listed. Needs a package
index.
"""

import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FLOOR = ["jax", "flax", "optax", "orbax-checkpoint", "grain"]
LISTED = 8


def install(folder: Path, requirements: list[str]) -> float:
    """Installs into a new environment. Returns the seconds, without those for the environment itself."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    started = time.perf_counter()
    subprocess.run(
        [sys.executable, "-m", "pip", "--python", folder, "install", "-q", *requirements], check=True, cwd=ROOT
    )
    return time.perf_counter() - started


def sizes(folder: Path) -> dict[str, int]:
    """The bytes of each top-level entry of the environment's packages, bytecode included."""
    packages = next(folder.glob("lib/*/site-packages"))
    return {
        entry.name: sum(file.lstat().st_size for file in [entry, *entry.rglob("*")] if file.is_file())
        for entry in packages.iterdir()
    }


def main() -> None:
    """Prints both rounds, the sizes and the ratio."""
    found: dict[str, dict[str, int]] = {}
    for number in (1, 2):
        for name, requirements in {"floor": FLOOR, "course": ["-e", "."]}.items():
            with tempfile.TemporaryDirectory() as temporary:
                folder = Path(temporary) / "venv"
                seconds = install(folder, requirements)
                found[name] = sizes(folder)
                shutil.rmtree(folder)
            print(f"round {number}   {name:<8}{seconds:8.1f} s{sum(found[name].values()) / 1e6:10.0f} MB", flush=True)
    floor, course = (sum(found[name].values()) for name in ("floor", "course"))
    print(f"ratio: {course / floor:.2f} times the size of the floor")
    added = {name: size for name, size in found["course"].items() if name not in found["floor"]}
    for name, size in sorted(added.items(), key=lambda item: -item[1])[:LISTED]:
        print(f"  {name:<24}{size / 1e6:8.1f} MB")


if __name__ == "__main__":
    main()
