"""Makes docs/pictures/studio.png: a wrong answer to problem 07 in the studio. Needs chromium and the development
packages."""

import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright

DOCS = Path(__file__).resolve().parent
PICTURE = DOCS / "pictures" / "studio.png"
WRONG = DOCS / "examples" / "p07_looks_back.py"


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "grader", "web", "--no-browser"]
        studio = subprocess.Popen(
            [*command[:3], "--workspace", folder, *command[3:]], cwd=DOCS.parent, stdout=subprocess.PIPE, text=True
        )
        try:
            assert studio.stdout is not None  # noqa: S101  because of PIPE
            photograph(studio.stdout.readline().strip())
        finally:
            studio.send_signal(signal.SIGINT)
            studio.wait()


def photograph(address: str) -> None:
    """Opens the studio, saves the wrong answer, and takes the picture when it is graded."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1280, "height": 800})
        page.goto(address)
        page.get_by_role("link", name="Next-token loss").click()
        page.locator("#editor .cm-content").click()
        page.keyboard.press("Control+A")
        page.keyboard.insert_text(WRONG.read_text())
        page.keyboard.press("Control+s")
        page.locator("#headline.failed").wait_for()
        PICTURE.parent.mkdir(exist_ok=True)
        page.screenshot(path=PICTURE)
        browser.close()


if __name__ == "__main__":
    main()
