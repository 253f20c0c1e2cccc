"""Hunts in a whole training run: eight pieces of a learner's course, one of them broken, and the symptom of the run.

The harness trains in a process of its own: the grader does not import it.
"""

import json
import math
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from commandline import files
from commandline.errors import CommandError, UsageError
from grader.course import catalog, log
from grader.course.workspace import Workspace
from grader.paths import ROOT
from grader.practice import hunts, symptoms
from grader.practice.hunting import FOLDER, UnderWay, recorded_hunts
from grader.practice.hunts import Hunt, Program
from grader.practice.rename_variables import by_seed, disguised, new_names
from grader.practice.symptoms import Symptom
from grader.problem import Problem

PIECES = (
    "token_embedding", "causal_mha", "gpt_block", "mini_gpt", "next_token_loss", "train_step", "adamw", "lr_schedule",
)  # fmt: skip
STEPS = 60
# A small model, so that a run takes half a minute on an idle core; most of that is compilation.
SETTINGS = (
    "context=48",
    "d_model=48",
    "d_ff=96",
    "positions=learned",
    "packing=padded",
    f"eval_every={STEPS}",
    "warmup_steps=10",
)
SECONDS = 1800  # for one run; a busy machine may take long
CURVES = ("metrics.jsonl", "loss.svg", "lr.svg")  # of the sound run, to compare with
CLEAR = 0.15  # nats: a difference between two losses that nobody overlooks


@dataclass(frozen=True)
class Evidence:
    """The results of a run: the loss of each step, the last validation loss, and the skipped updates. If it stopped
    early, `stopped` says why."""

    losses: tuple[float, ...] = ()
    validation: float = math.nan
    skipped: int = 0
    stopped: str = ""


def train(folder: Path, name: str) -> Evidence:
    """Trains with the pieces in a folder. The run is kept in `runs` there."""
    settings = [word for setting in SETTINGS for word in ("--set", setting)]
    command = [
        sys.executable, "-m", "harness", "train", "--quiet", "--run", name, "--runs", str(folder / "runs"),
        "--pieces", str(folder), "--steps", str(STEPS), *settings,
    ]  # fmt: skip
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))}
    try:
        done = subprocess.run(command, env=env, capture_output=True, text=True, check=False, timeout=SECONDS)
    except subprocess.TimeoutExpired:
        raise CommandError(f"The run in {folder} took longer than {SECONDS} s. Try again on an idle machine.") from None
    if done.returncode:
        return Evidence(stopped=(done.stderr.strip().splitlines() or ["it stopped without a word"])[-1])
    return evidence(folder / "runs" / name)


def evidence(run: Path) -> Evidence:
    """Reads the results of a finished run from its folder."""
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    losses = tuple(math.nan if row["loss"] is None else float(row["loss"]) for row in rows)
    seen = [row["validation_loss"] for row in rows if row.get("validation_loss") is not None]
    return Evidence(losses, float(seen[-1]) if seen else math.nan, int(rows[-1].get("skipped") or 0))


def symptom(broken: Evidence, sound: Evidence) -> Symptom | None:
    """Returns the symptom that the owner of a run sees when comparing it with the same run of sound pieces. None if
    there is nothing to see, or if the message with which it stopped names the piece."""
    if broken.stopped or not broken.losses:
        return None
    first, last = broken.losses[0], broken.losses[-1]
    right_first, right_last = sound.losses[0], sound.losses[-1]
    numbers = (
        f"Its loss is {first:.2f} at the first step and {last:.2f} after {STEPS}; the validation loss is "
        f"{broken.validation:.2f}. The same run with sound pieces has {right_first:.2f}, {right_last:.2f} and "
        f"{sound.validation:.2f}."
    )
    bad = not all(map(math.isfinite, broken.losses)) or broken.skipped > sound.skipped
    skipped = f" {broken.skipped} updates were skipped because they were not finite." if broken.skipped else ""
    told = (
        ("run", "The run does not stay finite.", bad),
        ("too good", "The loss is too good to be true.", last < right_last - CLEAR),
        ("run", "The loss is wrong before anything was learned.", abs(first - right_first) > CLEAR),
        ("run", "The loss is stuck.", first - last < (right_first - right_last) / 4),
        ("run", "The run learns, but worse than it should.", last > right_last + CLEAR),
        (
            "run",
            "The validation loss does not fit the training loss.",
            abs(broken.validation - sound.validation) > CLEAR,
        ),
    )
    found = next(((kind, says) for kind, says, holds in told if holds), None)
    return Symptom(symptoms.by_name(found[0]), f"{found[1]} {numbers}{skipped}") if found else None


@dataclass(frozen=True)
class RunSpace:
    """The hunts of a learner in whole runs. Each has a folder of its own."""

    home: Workspace

    def folder(self, current: UnderWay) -> Path:
        return self.home.folder / FOLDER / f"run-{current.id[:4]}"

    def pieces(self) -> list[Problem]:
        """Returns the problems of the eight pieces. Raises UsageError unless all were passed, and their references may
        be seen."""
        by_slug = {name.slug: name for name in catalog.names()}
        if missing := [slug for slug in PIECES if slug not in by_slug]:
            raise UsageError(f"This course has no whole runs to hunt in: it has no {missing[0]}.")
        problems, progress = [catalog.load(by_slug[slug]) for slug in PIECES], self.home.progress()
        for problem in problems:
            if (
                problem.name not in progress
                or progress[problem.name].verdict != "PASS"
                or not catalog.shows_solution(problem)
            ):
                raise UsageError(
                    "A hunt in a whole run shows the references of eight problems, and you have not passed "
                    f"{problem.label} yet. `grade hunt` has hunts in the problems that you have passed."
                )
        return problems

    def under_way(self) -> UnderWay | None:
        waiting = [each for each in recorded_hunts(self.home.entries()) if not each.ended and not each.problem]
        return waiting[-1] if waiting else None

    def candidates(self) -> list[Hunt]:
        """Returns the hunts to offer next: faults that do not raise, the learner's own first, and none that was hunted
        before."""
        done, progress = {each.hunt for each in recorded_hunts(self.home.entries())}, self.home.progress()
        found = [hunt for hunt in possible(self.pieces()) if hunt.id not in done]
        order = by_seed([hunt.id for hunt in found], f"{self.home.folder.resolve()}")
        places = {id_: place for place, id_ in enumerate(order)}
        return sorted(
            found,
            key=lambda hunt: (hunt.misconception.name not in progress[hunt.problem.name].mistakes, places[hunt.id]),
        )

    def begin(self, seed: str) -> UnderWay:
        """Trains with a broken piece until a run shows that something is wrong. Takes a minute or more. Raises
        UsageError."""
        problems = self.pieces()
        with tempfile.TemporaryDirectory() as scratch:  # the sound pieces would tell which one is broken
            sound = train_sound(Path(scratch), problems, seed)
            for hunt in self.candidates():
                entry = log.entry("hunting", hunt=hunt.id, seed=seed)
                folder = write(self.folder(recorded_hunts([entry])[0]), problems, hunt, seed)
                if (seen := symptom(train(folder, "broken"), sound)) is None:
                    shutil.rmtree(folder)
                    continue
                for name in CURVES:
                    with suppress(FileNotFoundError):
                        shutil.copyfile(Path(scratch) / "runs" / "sound" / name, folder / f"sound-{name}")
                facts = {**entry.facts, "symptom": seen.text, "symptom_kind": seen.kind.name}
                known = replace(entry, facts=facts)
                self.home.note(known)
                return recorded_hunts([known])[0]
        raise UsageError("You have hunted in every run that there is.")

    def program(self, current: UnderWay) -> Program:
        """Returns the broken piece of a hunt. Raises UsageError if the course no longer has it."""
        for hunt in possible(self.pieces()):
            if hunt.id == current.hunt:
                return hunts.program(hunt, current.seed)
        raise UsageError("The course no longer has this hunt. `grade hunt --run --give-up` ends it.")

    def note(self, current: UnderWay, kind: str = "hunting", **facts: Any) -> None:
        current.add(self.home.record(kind, begun=current.id, **facts))

    def changed(self, current: UnderWay) -> list[Problem]:
        """Returns the pieces that the learner has changed."""
        broken = self.program(current).hunt
        texts = pieces_of(self.pieces(), broken, current.seed)
        folder = self.folder(current)
        return [
            problem
            for problem in self.pieces()
            if (path := folder / f"{problem.name}.py").is_file()
            and hunts.changed_lines(texts[problem.name], path.read_text(encoding="utf-8", errors="replace"))
        ]


def train_sound(folder: Path, problems: list[Problem], seed: str) -> Evidence:
    """Trains with sound pieces. Raises CommandError if that fails."""
    found = train(write(folder, problems, None, seed), "sound")
    if found.stopped:
        raise CommandError(f"The run with sound pieces stopped: {found.stopped}")
    return found


def possible(problems: list[Problem]) -> Iterator[Hunt]:
    """Yields the hunts in whole runs: a misconception in the reference of one piece, which does not end in an
    exception."""
    for problem in problems:
        yield from (hunt for hunt in hunts.of(problem, styles=False) if not hunt.misconception.raises)


def pieces_of(problems: list[Problem], broken: Hunt | None, seed: str) -> dict[str, str]:
    """Returns the texts of all pieces in disguise, by name."""
    texts: dict[str, str] = {}
    for problem in problems:
        if broken and broken.problem.name == problem.name:
            texts[problem.name] = hunts.program(broken, seed).text
        else:
            source = catalog.solution_text(problem)
            texts[problem.name] = disguised(source, new_names([source], seed + problem.slug))
    return texts


def write(folder: Path, problems: list[Problem], broken: Hunt | None, seed: str) -> Path:
    """Writes the pieces to a folder, which is returned."""
    for name, text in pieces_of(problems, broken, seed).items():
        files.write(folder / f"{name}.py", text)
    return folder


def prove(say: Callable[[str], None]) -> tuple[int, int]:
    """Trains once with sound pieces and once for each hunt in a whole run. Reports the symptom of each run as soon as
    it is known.

    Returns the number of hunts, and the number of those that show a symptom.
    """
    by_slug = {name.slug: name for name in catalog.names()}
    if not set(PIECES) <= set(by_slug):
        return 0, 0
    problems, seed = [catalog.load(by_slug[slug]) for slug in PIECES], "0"
    count = shown = 0
    with tempfile.TemporaryDirectory() as scratch:
        sound = train_sound(Path(scratch) / "sound", problems, seed)
        for hunt in sorted(possible(problems), key=lambda hunt: hunt.id):  # mixed, so that a part of them says much
            count += 1
            seen = symptom(train(write(Path(scratch) / hunt.id, problems, hunt, seed), "broken"), sound)
            shown += seen is not None
            what = seen.text if seen else "left out: nobody would see it, or the message names the piece"
            say(f"{hunt.problem.label} {hunt.misconception.name}: {what}")
            shutil.rmtree(Path(scratch) / hunt.id)
    return count, shown
