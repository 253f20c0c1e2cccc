"""The platforms that may use the tool, in one file that a person writes: `platforms.toml`."""

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from commandline.errors import UsageError
from commandline.spelling import nearest

_LOCAL = ("localhost", "127.0.0.1", "::1")


@dataclass(frozen=True)
class Platform:
    """A registration at a platform.

    Attributes:
        name: The name of its table in the file.
        issuer: The platform's own identifier, such as `https://canvas.instructure.com`.
        client_id: The tool's identifier at the platform.
        deployments: The ids of the places in the platform where the tool may be used.
        authorization: The address that a browser is sent to at a login.
        token: The address that gives access tokens.
        keys: The address of the platform's public keys.
    """

    name: str
    issuer: str
    client_id: str
    deployments: tuple[str, ...]
    authorization: str
    token: str
    keys: str


_ADDRESSES = ("issuer", "authorization", "token", "keys")
_KEYS = [field.name for field in fields(Platform) if field.name != "name"]


def read(file: Path) -> list[Platform]:
    """Reads the platforms: none in an empty file, before the first registration. Raises UsageError, which names the
    file and the table, if one cannot be used."""
    try:
        tables = tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"The platforms {file} cannot be read: {error.strerror}.") from None
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise UsageError(f"The platforms {file} are not TOML: {error}.") from None
    platforms = [_platform(file, name, table) for name, table in tables.items()]
    known: dict[tuple[str, str], str] = {}
    for one in platforms:
        other = known.setdefault((one.issuer, one.client_id), one.name)
        if other != one.name:
            raise UsageError(
                f"The platforms {file} have the same issuer and client_id in [{other}] and [{one.name}]; write one "
                "table with the deployments of both."
            )
    return platforms


def _platform(file: Path, name: str, table: Any) -> Platform:
    where = f"[{name}] of {file}"
    if not isinstance(table, dict):
        raise UsageError(
            f"{name} in {file} is outside of a table; begin each platform with its name, such as [canvas]."
        )
    for key in table:
        if key not in _KEYS:
            meant = "".join(f"; did you mean {name!r}?" for name in nearest(key, _KEYS)) or "."
            raise UsageError(f"{where} has an unknown key {key!r}{meant}")
    if missing := [key for key in _KEYS if not table.get(key)]:
        raise UsageError(f"{where} has no {missing[0]}; the platform shows it after the registration.")
    deployments = table["deployments"]
    if not isinstance(deployments, list) or not all(isinstance(one, str) for one in deployments):
        raise UsageError(f'deployments in {where} is not a list of texts; write deployments = ["1"].')
    for key in _KEYS:
        if key != "deployments" and not isinstance(table[key], str):
            raise UsageError(f"{key} in {where} is not a text; put it into quotation marks.")
    for key in _ADDRESSES:
        if not is_safe(table[key]):
            raise UsageError(f"{key} in {where} is not an address with https://: {table[key]}.")
    return Platform(name, **{**table, "deployments": tuple(deployments)})


def is_safe(address: str) -> bool:
    """Returns whether nobody on the way can read or change what an address serves: https, or this machine."""
    try:
        parts = urlsplit(address)
        return bool(parts.hostname) and (
            parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in _LOCAL)
        )
    except ValueError:
        return False


def find(platforms: Sequence[Platform], issuer: str, client_id: str) -> Platform | None:
    """Returns the registration of an issuer. A platform may leave out the client id where it has one registration."""
    found = [one for one in platforms if one.issuer == issuer and client_id in (one.client_id, "")]
    return found[0] if len(found) == 1 else None
