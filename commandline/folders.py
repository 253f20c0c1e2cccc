"""Cache folders."""

import os
import sys
from pathlib import Path


def cache_folder(variable: str, name: str = "") -> Path:
    """Returns the path in the environment variable, else `gpt-kata/NAME` in the user's cache folder. It may not exist
    yet."""
    if chosen := os.environ.get(variable):
        return Path(chosen)
    home = Path.home()
    default = {"darwin": home / "Library/Caches", "win32": home / "AppData/Local"}.get(sys.platform, home / ".cache")
    return Path(os.environ.get("XDG_CACHE_HOME") or default) / "gpt-kata" / name
