"""Keys: the tool's own, made once and kept, and the sets of the platforms, which they replace from time to time."""

import asyncio
import hashlib
import json
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx2
import jwt
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from jwt.algorithms import RSAAlgorithm

from commandline.errors import UsageError
from hosting.lti.registration import Platform

# Every platform has it, and no other is accepted: a token must not choose how it is verified.
ALGORITHM = "RS256"
LEEWAY = 10.0  # seconds that the clocks of two servers may differ
_BITS = 2048
_FRESH = 3600.0  # seconds after which a platform's keys are read again: one that it has withdrawn counts no longer
_PAUSE = 10.0  # seconds between two readings, so that tokens with invented keys cause no flood of them


class Keys:
    """The tool's key, in a file that only its owner may read. Creates the file if it does not exist.

    Raises UsageError if others may read it, or if it is not a key.
    """

    def __init__(self, file: Path) -> None:
        try:
            if not file.exists():
                _make(file)
            if file.stat().st_mode & 0o077:
                raise UsageError(f"Other users can read the key {file}; make a new one, or run `chmod 600 {file}`.")
            loaded = serialization.load_pem_private_key(file.read_bytes(), password=None)
        except OSError as error:
            raise UsageError(f"The key {file} cannot be used: {error.strerror}.") from None
        except ValueError:
            loaded = None
        if not isinstance(loaded, rsa.RSAPrivateKey):
            raise UsageError(f"{file} is not an RSA key; delete it, and register the new key with the platforms.")
        self._private = loaded
        self._public = loaded.public_key()
        jwk: dict[str, Any] = RSAAlgorithm.to_jwk(self._public, as_dict=True)
        numbers = {name: jwk[name] for name in ("e", "kty", "n")}
        essence = json.dumps(numbers, separators=(",", ":"))
        self._id = hashlib.sha256(essence.encode()).hexdigest()[:32]  # another key has another id
        self.public = {**numbers, "kid": self._id, "alg": ALGORITHM, "use": "sig"}

    def sign(self, claims: Mapping[str, Any], seconds: float) -> str:
        """Returns a token with these claims that is valid for some seconds from now."""
        now = int(time.time())
        dated = {**claims, "iat": now, "exp": now + int(seconds)}
        return jwt.encode(dated, self._private, ALGORITHM, {"kid": self._id})

    def own(self, token: str, audience: str) -> dict[str, Any]:
        """Returns the claims of a token that `sign` made for this audience. Raises PyJWTError for any other."""
        return jwt.decode(token, self._public, [ALGORITHM], audience=audience, options={"require": ["exp"]})


def _make(file: Path) -> None:
    key = rsa.generate_private_key(public_exponent=65537, key_size=_BITS)
    text = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )  # fmt: skip
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    unfinished = file.with_suffix(".new")
    unfinished.unlink(missing_ok=True)
    with os.fdopen(os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as stream:
        stream.write(text)
        stream.flush()
        os.fsync(stream.fileno())
    unfinished.rename(file)


class UnknownKeyError(Exception):
    """A platform does not have the key of a token, or its keys cannot be read. The message is a clause."""


class KeySets:
    """The public keys of the platforms. Reads a set again if it lacks a key, and when it is an hour old."""

    def __init__(self, http: httpx2.AsyncClient) -> None:
        self._http = http
        self._sets: dict[str, dict[str, jwt.PyJWK]] = {}
        self._read_at: dict[str, float] = {}
        self._reading = asyncio.Lock()

    async def key(self, platform: Platform, name: str) -> jwt.PyJWK:
        """Returns the platform's key of this name. Raises UnknownKeyError."""
        async with self._reading:
            age = time.monotonic() - self._read_at.get(platform.name, -_FRESH)
            if age >= _FRESH or (name not in self._sets[platform.name] and age >= _PAUSE):
                self._sets[platform.name] = await self._read(platform)
                self._read_at[platform.name] = time.monotonic()
        try:
            return self._sets[platform.name][name]
        except KeyError:
            raise UnknownKeyError(f"{platform.keys} has no key {name!r}") from None

    async def _read(self, platform: Platform) -> dict[str, jwt.PyJWK]:
        try:
            response = await self._http.get(platform.keys)
            listed = response.raise_for_status().json()["keys"]
            return {
                row["kid"]: jwt.PyJWK(row, ALGORITHM)
                for row in listed
                if row.get("kty") == "RSA" and row.get("use", "sig") == "sig" and "kid" in row
            }
        except (httpx2.HTTPError, ValueError, KeyError, TypeError, AttributeError, jwt.PyJWTError) as error:
            raise UnknownKeyError(f"{platform.keys} cannot be read ({type(error).__name__})") from None
