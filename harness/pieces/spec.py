"""What the harness knows of a piece: its file, its smoke test, its adapter, and when a run uses it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Optional

from harness.config import Config


@dataclass(frozen=True)
class Use:
    """Whether a run uses a piece, and what the user reads about it."""

    is_used: bool
    words: str = ""  # when the piece is used; or why this run does not use it
    through: str = ""  # the learner's model whose part it is: the harness does not call the piece itself
    is_conflict: bool = False  # whether the run is refused, because nothing can take the place of the piece


@dataclass(frozen=True)
class Setup:
    """What decides which pieces a run uses: its settings, and the pieces that are there."""

    config: Config
    there: Mapping[str, Optional["PieceSpec"]]  # None for one that only others need, such as `save`

    def use(self, name: str) -> Use:
        """How the run uses a piece that is there."""
        spec = self.there[name]
        if spec is None:
            return Use(True)
        for other in spec.needs:
            if not self.uses(other):
                return Use(False, f"it needs your {other}, which this run does not use")
        return spec.use(self)

    def uses(self, name: str) -> bool:
        """Whether the piece is there, and the run uses it."""
        return name in self.there and self.use(name).is_used


@dataclass(frozen=True)
class PieceSpec:
    """A piece of the course that the harness can use in place of its own code."""

    name: str
    module: str  # the problem's module, which defines the piece
    smoke_test: Callable[..., None]  # called with the piece and those that it needs; raises if the piece is broken
    needs: tuple[str, ...] = ()  # other pieces without which this one is neither tested nor used
    adapter: Callable[[Any, Any], Any] = lambda config, piece: piece  # to what the harness calls
    use: Callable[[Setup], Use] = lambda run: Use(True)  # whether a run uses the piece, if it uses those that it needs


def piece(module: str, name: str = "", **options: Any) -> Callable[[Callable[..., None]], PieceSpec]:
    """Makes a piece of its smoke test, which by default has its name. The options are other fields of `PieceSpec`."""
    return lambda smoke_test: PieceSpec(name or smoke_test.__name__, module, smoke_test, **options)


def only(condition: bool, when: str) -> Use:
    """The use of a piece under a condition, which `when` says in words."""
    return Use(True, when) if condition else Use(False, f"it is used {when}")


def has_segments(config: Config) -> bool:
    """Whether a row holds several stories."""
    return config.packing == "segments"


def unless_segments(run: Setup, use: Use) -> Use:
    """The use of a piece that takes a row for one story."""
    several = "it takes a row for one story, and with packing=segments a row has several"
    return Use(False, several) if has_segments(run.config) else use


def unless_done_by(other: str, run: Setup, use: Use) -> Use:
    """The use of a piece whose work another one does, if that is used."""
    return Use(False, f"your {other} does its work") if run.uses(other) else use


def through(model: str, run: Setup, use: Use) -> Use:
    """The use of a part of a model, which brings its own parts."""
    return replace(use, through=model) if run.uses(model) else use
