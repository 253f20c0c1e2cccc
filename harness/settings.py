"""Records of settings: what each may be, how it is typed on the command line, and where two conflict."""

import dataclasses
import math
import typing
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

from commandline.spelling import nearest
from harness.aliases import CALLED_ELSEWHERE, RENAMED
from harness.errors import UsageError


@dataclass(frozen=True)
class Range:
    """The finite numbers that a setting may take."""

    at_least: int | float = -math.inf
    at_most: int | float = math.inf
    above: int | float = -math.inf
    below: int | float = math.inf

    def __contains__(self, value: int | float) -> bool:
        return math.isfinite(value) and self.at_least <= value <= self.at_most and self.above < value < self.below

    def __str__(self) -> str:
        bounds = [
            ("at least", self.at_least),
            ("at most", self.at_most),
            ("more than", self.above),
            ("less than", self.below),
        ]
        return " and ".join(f"{words} {bound:,}" for words, bound in bounds if math.isfinite(bound))


Rules = Iterable[tuple[bool, str]]  # whether the settings are consistent, and the sentence that says why they are not
COUNT = Range(at_least=1)
NOT_NEGATIVE = Range(at_least=0)
SEEDS = Range(at_least=0, below=2**32)


def setting(default: Any, help_text: str, *, allowed: Range | None = None, machine: bool = False) -> Any:
    """A field of `Settings` with its help and its range. The choices of a `Literal` are part of its type.

    A `machine` setting changes where and how fast a run computes, not what. A run may be resumed with another value of
    it.
    """
    return field(default=default, metadata={"help": help_text, "range": allowed, "machine": machine})


S = TypeVar("S", bound="Settings")  # typing.Self is not understood by beartype in methods


@dataclass(frozen=True)
class Settings:
    """A record of settings. Raises UsageError, naming the setting, if a value is out of range or two values
    conflict."""

    def __post_init__(self) -> None:
        for entry in dataclasses.fields(self):
            allowed, value = entry.metadata.get("range"), getattr(self, entry.name)
            if allowed is not None and value not in allowed:
                raise UsageError(f"{entry.name}={value} is not valid; it must be {allowed}.")
        for part in reversed(type(self).__mro__):
            for consistent, sentence in vars(part).get("rules", _no_rules)(self):
                if not consistent:
                    raise UsageError(f"{sentence}.")

    def with_settings(self: S, settings: dict[str, str]) -> S:
        """A copy with `key=value` settings as typed on the command line.

        Raises UsageError for an unknown key, naming the nearest one, and for a value of the wrong type.
        """
        kinds = typing.get_type_hints(type(self))
        typed = {entry.name for entry in dataclasses.fields(self) if "help" in entry.metadata}
        parsed = {}
        for key, text in settings.items():
            if key in RENAMED:
                name, values = RENAMED[key]
                raise UsageError(f"{key} has been renamed; write {name}={values.get(text, text)}.")
            if key not in typed:
                close = CALLED_ELSEWHERE.get(key) or " or ".join(nearest(key, typed, 2))
                hint = f"Did you mean {close}?" if close else "`harness settings` lists them."
                raise UsageError(f"There is no setting {key!r}. {hint}")
            parsed[key] = _parse(key, text, kinds[key])
        return dataclasses.replace(self, **parsed)

    def differences(self: S, other: S) -> list[str]:
        """The settings that change the result of a run and differ, as `key: this one -> the other`; of lists what
        differs."""
        names = [entry.name for entry in dataclasses.fields(self) if not entry.metadata.get("machine")]
        pairs = {name: (getattr(self, name), getattr(other, name)) for name in names}
        return [
            f"{name}: {_beside(ours, theirs)} -> {_beside(theirs, ours)}"
            for name, (ours, theirs) in pairs.items()
            if ours != theirs
        ]


def _beside(value: Any, other: Any) -> str:
    """A value of a setting, of a list what the other one lacks."""
    if not isinstance(value, tuple):
        return str(value)
    return ", ".join(item for item in value if item not in other) or "none"


def _no_rules(settings: Settings) -> Rules:
    return ()


def describe(kind: type[Settings]) -> list[str]:
    """One line for each setting of a record: name, default, help, and its choices or range."""
    kinds, lines = typing.get_type_hints(kind), []
    for entry in dataclasses.fields(kind):
        if "help" not in entry.metadata:
            continue
        choices, allowed = _choices(kinds[entry.name]), entry.metadata["range"]
        rule = f" ({', '.join(choices)})" if choices else f" ({allowed})" if allowed else ""
        lines.append(f"{entry.name}={entry.default}: {entry.metadata['help']}{rule}")
    return lines


def _choices(kind: Any) -> tuple[str, ...]:
    return typing.get_args(kind) if typing.get_origin(kind) is Literal else ()


def _parse(key: str, text: str, kind: Any) -> Any:
    """Converts `text` to a value of type `kind`. Raises UsageError if it is not one."""
    if choices := _choices(kind):
        if text not in choices:
            raise UsageError(f"{key}={text} is not valid; choose {', '.join(choices[:-1])} or {choices[-1]}.")
        return text
    if kind is bool:
        if text.lower() not in ("true", "false", "1", "0", "yes", "no"):
            raise UsageError(f"{key}={text} is not valid; write true or false.")
        return text.lower() in ("true", "1", "yes")
    try:
        return kind(text)
    except ValueError as error:
        wanted = {int: "a whole number", float: "a number"}.get(kind, "a value")
        raise UsageError(f"{key}={text} is not valid; write {wanted}.") from error


def typed_settings(settings: tuple[str, ...], flags: dict[str, Any]) -> dict[str, str]:
    """The `--set` settings and the other options, by key. Raises UsageError for a setting without a value."""
    typed = {key: str(value) for key, value in flags.items() if value is not None and value is not False}
    for setting in settings:
        key, equals, value = setting.partition("=")
        if not equals:
            raise UsageError(f"--set {setting} is not valid; write KEY=VALUE, such as --set learning_rate=1e-3.")
        typed[key.strip().replace("-", "_")] = value.strip()
    return typed
