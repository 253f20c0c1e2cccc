"""A page as a picture, drawn by a browser that the learner has: the course itself has nothing that draws text."""

import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from commandline.errors import UsageError

BROWSERS = (
    "chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome", "microsoft-edge", "msedge",
    "brave-browser", "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
    "/Applications/Chromium.app/Contents/MacOS/Chromium",
    "/Applications/Microsoft Edge.app/Contents/MacOS/Microsoft Edge",
)  # fmt: skip
WIDTH, SCALE = 780, 2  # pixels of the page, and of the picture for each of them
_LOWEST = 100  # pixels; a page is as high as its window, or higher
_SECONDS = 60.0
_MEASURE = "<script>document.title = document.documentElement.scrollHeight</script>"


def find_browser() -> str:
    """Returns the path of a browser that draws pages without a window. Raises UsageError if there is none."""
    found = next(filter(None, map(shutil.which, BROWSERS)), None)
    if found is None:
        raise UsageError(
            "A picture needs Chromium, Chrome or Edge, and none of them was found. Install one, or leave out --png and "
            "take a screenshot of the page."
        )
    return found


def png(browser: str, html: str, near: Path) -> bytes:
    """Returns the picture of a whole page, which may hold no scripts and load nothing. Raises UsageError if the browser
    fails.

    The files that the browser reads and writes lie in the folder `near` for a moment: some browsers, such as those of
    Snap, see no other temporary files.
    """
    with tempfile.TemporaryDirectory(prefix="certificate-", dir=near, ignore_cleanup_errors=True) as name:
        page, picture = Path(name, "page.html"), Path(name, "page.png")
        page.write_text(html + _MEASURE, encoding="utf-8")
        options = [f"--user-data-dir={name}/profile", page.absolute().as_uri()]
        measured = _run(browser, f"--window-size={WIDTH},{_LOWEST}", "--dump-dom", *options)
        height = re.search(r"<title>(\d+)</title>", measured)
        if height:
            size = [f"--window-size={WIDTH},{height[1]}", f"--force-device-scale-factor={SCALE}"]
            _run(browser, *size, f"--screenshot={picture.absolute()}", *options)
        try:
            return picture.read_bytes()
        except OSError:
            raise UsageError(f"{browser} has drawn no picture. Leave out --png.") from None


def _run(browser: str, *words: str) -> str:
    """Runs the browser without a window. Returns what it prints."""
    root = ["--no-sandbox"] if os.geteuid() == 0 else []  # its sandbox refuses root
    command = [browser, "--headless", "--disable-gpu", "--hide-scrollbars", "--no-first-run", *root, *words]
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", timeout=_SECONDS,
            check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UsageError(f"{browser} cannot draw a picture: {error}. Leave out --png.") from None
    return done.stdout
