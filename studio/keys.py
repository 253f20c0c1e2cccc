"""The secrets of one start of the studio, and the way in which a page that outlives it gets the secrets of the next.

A browser is admitted by the token in the printed address. Every later request needs two secrets: the path that all
pages are below, and a cookie that the browser sends to that path only. The same host has other servers, on other ports,
and the browser also sends its cookies to them; but they do not know the path.

All of these are new at each start. An open page also holds a renewal key. It never sends the key: it signs the
challenge of the present start with it, and accepts an answer only if it is signed with the same key. So a program that
has taken over the port in between learns nothing useful, and the page does not follow it.
"""

import contextlib
import hmac
import os
import secrets
from dataclasses import dataclass, field
from pathlib import Path

from commandline import files
from commandline.folders import cache_folder

_STARTS = 8  # on one port, whose pages are still known
_LENGTH = 43  # characters of a key
_START = "~"  # begins the part of an address that is new at each start; no page's own path begins with it


def _secret() -> str:
    return secrets.token_urlsafe(32)


def _path(prefix: str = "") -> str:
    return f"{prefix}/{_START}{secrets.token_urlsafe(16)}"


@dataclass(frozen=True)
class Keys:
    """The secrets of one start.

    Attributes:
        former: The renewal keys of earlier starts on the same port.
        token: The token in the printed address.
        path: The path that all pages are below.
        cookie: The value of the cookie.
        renewal: The renewal key of pages of this start.
        challenge: The text that a page signs with its renewal key.
    """

    former: tuple[str, ...] = ()
    token: str = field(default_factory=_secret)
    path: str = field(default_factory=_path)
    cookie: str = field(default_factory=_secret)
    renewal: str = field(default_factory=_secret)
    challenge: str = field(default_factory=_secret)

    def signer(self, proof: str, host: str) -> str | None:
        """Returns the renewal key, of this start or an earlier one, with which a page has signed the challenge for this
        host and port."""
        known = (self.renewal, *self.former)
        return next((key for key in known if matches(proof, signature(key, f"{host} {self.challenge}"))), None)

    def renewed(self, key: str) -> dict[str, str]:
        """Returns the secrets that a page with this renewal key needs from now on, with a signature that proves their
        origin."""
        return {"path": self.path, "key": self.renewal, "proof": signature(key, f"{self.path} {self.challenge}")}


def signature(key: str, text: str) -> str:
    """Returns the HMAC of the text, in hexadecimal digits. Only somebody with the key can compute it."""
    return hmac.digest(key.encode(), text.encode(), "sha256").hex()


def matches(offered: str, secret: str) -> bool:
    """Returns whether two texts are equal. Takes the same time wherever they differ."""
    return hmac.compare_digest(offered.encode(), secret.encode())


def without_start(path: str) -> str:
    """Returns the path of a page, without the part that was new at this start or an earlier one."""
    first, _, rest = path.lstrip("/").partition("/")
    return rest if first.startswith(_START) else path


def new(place: str, prefix: str = "") -> Keys:
    """Returns keys for a start on a port, or at another place, below a prefix.

    Stores their renewal key in the cache folder for the next start there, if there is a cache folder.
    """
    path = cache_folder("GRADE_STUDIO", "studio") / f"renewal-{place}"
    keys = Keys(_former(path), path=_path(prefix))
    with contextlib.suppress(OSError):  # without a cache folder, no page survives a restart
        path.parent.mkdir(parents=True, exist_ok=True)
        write_private(path, "\n".join((keys.renewal, *keys.former)))
    return keys


def _former(path: Path) -> tuple[str, ...]:
    try:
        if os.name == "posix" and path.stat().st_mode & 0o077:
            return ()
        lines = files.read_regular(path, _STARTS * (_LENGTH + 1)).decode("ascii", "replace").split("\n")
    except (OSError, files.NotRegularFileError):
        return ()
    return tuple(line for line in lines if len(line) == _LENGTH)[: _STARTS - 1]


def write_private(path: Path, text: str) -> None:
    """Writes a new file that only this user can read. Raises OSError, also where files cannot be private."""
    path.unlink(missing_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
        if os.name == "posix" and os.fstat(file.fileno()).st_mode & 0o077:
            path.unlink()
            raise PermissionError(f"{path} would be readable by other users")
        file.write(text)
