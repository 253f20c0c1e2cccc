"""Makes docs/pictures/session.svg, the moving picture of the README: a real session in a terminal, typed into a shell.

    python docs/session_picture.py

Needs the development packages. The workspace has a wrong answer to problem 07 and right ones to what problem 06 builds
on.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from html import escape
from itertools import groupby
from pathlib import Path

import pyte
from ptyprocess import PtyProcessUnicode

DOCS = Path(__file__).resolve().parent
PICTURE = DOCS / "pictures" / "session.svg"
WRONG = DOCS / "examples" / "p07_looks_back.py"
COLUMNS, ROWS = 84, 37
LONGEST = 120.0  # seconds, of a command

FILE = "p07_next_token_loss.py"
SESSION = (  # whether the screen is cleared before, what is typed, and how many seconds its output stays
    (False, f"tail -5 {FILE}", 2.5),
    (True, "grade problem 07", 7.0),
    (True, f"sed -i 's/ids.:-1./ids[1:]/; s/logits.1:./logits[:-1]/' {FILE}", 0.5),
    (False, f"tail -5 {FILE}", 2.5),
    (False, "grade problem 07", 4.0),
    (True, "grade play 06", 10.0),
)

WIDTH, LINE, LEFT, TOP = 8.4, 17, 14, 42  # pixels
COLORS = {
    "default": "#d8dee9",
    "red": "#ff7b72",
    "green": "#7ee787",
    "brown": "#e3b341",
    "blue": "#79c0ff",
    "magenta": "#d2a8ff",
    "cyan": "#76e3ea",
    "black": "#0d1117",
    "white": "#ffffff",
}


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(
            [sys.executable, "-m", "grader", "start", folder], check=True, capture_output=True, cwd=DOCS.parent
        )
        for path in sorted((DOCS.parent / "solutions").glob("p0[1-6]_*.py")):
            shutil.copy(path, folder)
        shutil.copy(WRONG, Path(folder, FILE))
        frames = record(Path(folder))
    PICTURE.write_text(drawing(frames), encoding="utf-8")
    print(f"{PICTURE}: {len(frames)} frames, {PICTURE.stat().st_size / 1000:.0f} kB")


def record(folder: Path) -> list[tuple[list[list[pyte.screens.Char]], float]]:
    """What the terminal showed, and for how many seconds."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = os.environ | {"PATH": path, "PS1": "$ ", "TERM": "xterm-256color", "LC_ALL": "C.UTF-8"}
    shell = PtyProcessUnicode.spawn(
        ["bash", "--norc", "--noprofile"], cwd=folder, env=environment, dimensions=(ROWS, COLUMNS)
    )
    screen = pyte.Screen(COLUMNS, ROWS)
    stream = pyte.Stream(screen)
    frames = []

    def until_prompt() -> None:
        end = time.monotonic() + LONGEST
        while screen.buffer[screen.cursor.y][0].data != "$" or screen.cursor.x != 2:
            if time.monotonic() > end:
                sys.exit("The shell does not come back:\n" + "\n".join(screen.display))
            stream.feed(shell.read(1 << 16))

    def shot(seconds: float) -> None:
        rows = [[screen.buffer[y][x] for x in range(COLUMNS)] for y in range(ROWS)]
        frames.append((rows, seconds))

    until_prompt()
    for clears, command, seconds in SESSION:
        if clears:
            shell.write("\f")
            stream.feed(shell.read(1 << 16))
            until_prompt()
        for keys in re.findall(".{1,4}", command):
            shell.write(keys)
            stream.feed(shell.read(1 << 16))
            shot(0.12)
        shell.write("\n")
        stream.feed(shell.read(1 << 16))
        until_prompt()
        shot(seconds)
    shell.terminate(force=True)
    return frames


def drawing(frames: list[tuple[list[list[pyte.screens.Char]], float]]) -> str:
    """An SVG that shows one frame after another, again and again. Where motion is unwelcome, it shows the last one."""
    total = sum(seconds for _, seconds in frames)
    width, height = LEFT * 2 + WIDTH * COLUMNS, TOP + LINE * ROWS + 14
    rules, groups, start = [], [], 0.0
    for index, (rows, seconds) in enumerate(frames):
        begin, end = (100 * moment / total for moment in (start, start + seconds))
        rules.append(
            f"@keyframes f{index}{{0%,{begin:.3f}%{{visibility:hidden}}"
            f"{begin + 0.001:.3f}%,{end:.3f}%{{visibility:visible}}"
            f"{min(end + 0.001, 100):.3f}%,100%{{visibility:hidden}}}}"
            f"#f{index}{{visibility:hidden;animation:f{index} {total:.2f}s step-end infinite}}"
        )
        groups.append(f'<g id="f{index}">{"".join(lines(rows))}</g>')
        start += seconds
    last = f"#f{len(frames) - 1}"
    return f"""<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height}" width="{width:.0f}" role="img"
aria-label="A session: a wrong answer gets its mistaken idea named, the mended one passes,
 and the learner's GPT tells a story.">
<style>text{{font:13.5px ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace;white-space:pre}}
{"".join(rules)}
@media (prefers-reduced-motion:reduce){{g[id]{{animation:none!important}}
  {last}{{visibility:visible!important}}}}</style>
<rect width="100%" height="100%" rx="10" fill="#0d1117"/>
<circle cx="20" cy="18" r="5.5" fill="#ff5f56"/><circle cx="38" cy="18" r="5.5" fill="#ffbd2e"/>
<circle cx="56" cy="18" r="5.5" fill="#27c93f"/>
{"".join(groups)}
</svg>
"""


def lines(rows: list[list[pyte.screens.Char]]) -> list[str]:
    """The text of a screen, and what lies behind it."""
    found = []
    for y, row in enumerate(rows):
        x = 0
        for (fg, bg, bold, reverse), run in groupby(row, key=lambda char: (char.fg, char.bg, char.bold, char.reverse)):
            text = "".join(char.data for char in run)
            left, base = LEFT + x * WIDTH, TOP + y * LINE
            fg, bg = (bg, fg) if reverse else (fg, bg)
            if bg != "default":
                size = f'width="{len(text) * WIDTH:.1f}" height="{LINE}"'
                found.append(f'<rect x="{left:.1f}" y="{base - 13}" {size} fill="{color(bg)}"/>')
            if text.strip():
                weight = ' font-weight="700"' if bold else ""
                size = f'textLength="{len(text.rstrip()) * WIDTH:.1f}"'
                shown = escape(text.rstrip())
                found.append(f'<text x="{left:.1f}" y="{base}" {size} fill="{color(fg)}"{weight}>{shown}</text>')
            x += len(text)
    return found


def color(name: str) -> str:
    return COLORS.get(name, f"#{name}" if len(name) == 6 else COLORS["default"])


if __name__ == "__main__":
    main()
