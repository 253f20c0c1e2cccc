"""The isolation of a worker, as measured inside it before it loads a submission."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

# Without any one of these layers isolation is partial; without all of them it is weak.
STRONG_LAYERS = ("namespaces", "landlock", "seccomp")
# The test attacks of `confinement` that reach files outside the scratch folder.
_SEALS = ("reads the course", "reads the solutions", "writes outside")


class Level(StrEnum):
    """The strength of an isolation, in ascending order."""

    NONE = "none"
    WEAK = "weak"
    PARTIAL = "partial"
    STRICT = "strict"

    def reaches(self, least: Level) -> bool:
        """Returns whether this level is at least `least`."""
        return list(Level).index(self) >= list(Level).index(least)


@dataclass(frozen=True)
class Isolation:
    """The layers in force in a worker, the strong layers that are missing, and the small attacks that got through."""

    level: Level
    layers: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    not_stopped: tuple[str, ...] = ()

    @property
    def sealed(self) -> bool:
        """Whether a submission can neither read the course nor leave anything for a process that runs after it."""
        return self.level.reaches(Level.PARTIAL) and not set(_SEALS) & set(self.not_stopped)

    @classmethod
    def measured(cls, layers: Sequence[str], not_stopped: Sequence[str]) -> Isolation:
        """Returns the isolation with these layers. It is strict only if no strong layer is missing and no attack got
        through."""
        missing = tuple(layer for layer in STRONG_LAYERS if layer not in layers)
        if not missing and not not_stopped:
            level = Level.STRICT
        else:
            level = Level.WEAK if len(missing) == len(STRONG_LAYERS) else Level.PARTIAL
        return cls(level, tuple(layers), missing, tuple(not_stopped))

    def __str__(self) -> str:
        """Returns one line for a report: the level, its layers, the missing ones, and the attacks that got through."""
        if self.level is Level.NONE:
            return f"{self.level}: no code was run"
        text = f"{self.level}: {', '.join(self.layers)}"
        text += f"; missing: {', '.join(self.missing)}" if self.missing else ""
        return text + (f"; not stopped: {', '.join(self.not_stopped)}" if self.not_stopped else "")

    def encode(self) -> dict[str, Any]:
        """Returns the measurement as JSON values."""
        return {key: value if isinstance(value, str) else list(value) for key, value in vars(self).items()}

    @classmethod
    def decode(cls, fields: Mapping[str, Any]) -> Isolation:
        """Returns the measurement from JSON values. Raises KeyError or ValueError on anything that `encode` did not
        make."""
        return cls(
            Level(fields["level"]), tuple(fields["layers"]), tuple(fields["missing"]), tuple(fields["not_stopped"])
        )


NOTHING_RUN = Isolation(Level.NONE)
