"""What a submission to an open task offers, and what a witness finds, on their way between the processes."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from grader.wire import program as program_
from grader.wire.channel import ChannelError, Frame
from grader.wire.compare import Leaf
from grader.wire.program import Program

_MOST_PIECES = 1000
_FILE = "file"  # the path of a leaf; those of programs begin with a name and a slash


@dataclass(frozen=True, eq=False)
class Offer:
    """All that is known of a submission where it is weighed.

    Attributes:
        programs: Its traced programs, by name.
        settings: Its settings, as JSON.
        learned: What it learned from public data, as JSON.
        file: The bytes of the file that it saved.
    """

    programs: Mapping[str, Program]
    settings: Mapping[str, Any]
    learned: Mapping[str, Any] = field(default_factory=dict)
    file: bytes = b""

    def frame(self) -> Frame:
        """Returns the frame in which a worker sends this."""
        frames = {name: program.frame() for name, program in self.programs.items()}
        leaves = [replace(leaf, path=f"{name}/{leaf.path}") for name, frame in frames.items() for leaf in frame.leaves]
        programs = {name: frame.fields for name, frame in frames.items()}
        return Frame("offer", {"programs": programs, "settings": dict(self.settings)}, leaves)

    @classmethod
    def decode(cls, frame: Frame) -> "Offer":
        """Returns the offer in a frame. Raises ChannelError on anything that `frame` does not make."""
        programs, settings, learned = (frame.fields.get(name) for name in ("programs", "settings", "learned"))
        if type(programs) is not dict or type(settings) is not dict or type(learned) is not dict:
            raise ChannelError("an offer is not programs and settings")
        found = {}
        for name, fields in programs.items():
            own = [leaf for leaf in frame.leaves if leaf.path.startswith(f"{name}/")]
            own = [replace(leaf, path=leaf.path.removeprefix(f"{name}/")) for leaf in own]
            if type(fields) is not dict:
                raise ChannelError("a program of an offer is not its inputs and outputs")
            found[name] = program_.decode(Frame("program", fields, own))[0]
        return cls(found, settings, learned, file_of(frame))


def saved(file: bytes) -> Frame:
    """Returns the frame in which a worker sends a file that a submission made."""
    return Frame("saved", {}, [Leaf(_FILE, "uint8", np.frombuffer(file, np.uint8))])


def file_of(frame: Frame) -> bytes:
    """Returns the bytes of the file in a frame; none if it holds no file."""
    return b"".join(leaf.values.tobytes() for leaf in frame.leaves if leaf.path == _FILE)


@dataclass(frozen=True)
class Weighed:
    """What a witness found with one seed.

    Attributes:
        score: The score, of which less is better.
        missed: Why the score does not count, as a clause; empty if it does.
        figures: Other numbers to report, by name.
        pieces: The parts of the score, by name.
    """

    score: int
    missed: str = ""
    figures: Mapping[str, float] = field(default_factory=dict)
    pieces: Mapping[str, int] = field(default_factory=dict)

    def frame(self) -> Frame:
        """Returns the frame in which a witness sends this."""
        return Frame("weighed", dict(vars(self)))

    @classmethod
    def decode(cls, frame: Frame) -> "Weighed":
        """Returns what a frame holds. Raises ChannelError on anything that `frame` does not make."""
        match frame.fields:
            case {"score": int(score), "missed": str(missed), "figures": dict(figures), "pieces": dict(pieces)}:
                numbers = [score, *figures.values(), *pieces.values()]
                if (
                    len(pieces) <= _MOST_PIECES
                    and all(name.isprintable() for name in (missed, *figures, *pieces))
                    and all(type(number) in (int, float) and math.isfinite(number) for number in numbers)
                ):
                    return cls(score, missed, figures, pieces)
        raise ChannelError("a witness sent no numbers")
