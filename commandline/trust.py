"""Trust in code of other people: courses, and the code that the folders of runs bring.

Code is refused until the user trusts it. The mark of trust is an empty file in the cache folder, named by a digest of
the trusted code.
"""

import hashlib

from commandline.folders import cache_folder

_trusted: set[tuple[str, str]] = set()  # in this process, also where the cache folder cannot be written


def trust(kind: str, identity: bytes) -> bool:
    """Marks code of this kind as trusted: the code itself or its place, as identified by `identity`.

    Returns whether later commands will know the mark: False where the cache folder cannot be written.
    """
    name = _name(identity)
    _trusted.add((kind, name))
    try:
        folder = cache_folder("GRADE_CACHE") / kind
        folder.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()
    except (OSError, RuntimeError):  # the latter if the user has no home folder
        return False
    return True


def is_trusted(kind: str, identity: bytes) -> bool:
    """Returns whether code of this kind was trusted before, by this user on this machine."""
    name = _name(identity)
    if (kind, name) in _trusted:
        return True
    try:
        return (cache_folder("GRADE_CACHE") / kind / name).exists()
    except (OSError, RuntimeError):
        return False


def _name(identity: bytes) -> str:
    return hashlib.sha256(identity).hexdigest()[:32]
