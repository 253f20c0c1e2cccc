"""Which problems are held out from training: a property of each problem, so that no list of them has to be kept."""

import hashlib

ONE_IN = 10


def is_held_out(name: str) -> bool:
    """Whether the problem with this name is held out: by a digest of the name, one in ten is."""
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:8]) % ONE_IN == 0
