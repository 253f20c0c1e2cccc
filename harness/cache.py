"""Where prepared data and downloads are kept."""

import os
import sys
from pathlib import Path


def cache_folder() -> Path:
    """HARNESS_CACHE, else `gpt-kata/harness` in the user's own cache. It need not exist yet."""
    if chosen := os.environ.get("HARNESS_CACHE"):
        return Path(chosen)
    home = Path.home()
    default = {"darwin": home / "Library/Caches", "win32": home / "AppData/Local"}.get(sys.platform, home / ".cache")
    return Path(os.environ.get("XDG_CACHE_HOME") or default) / "gpt-kata" / "harness"
