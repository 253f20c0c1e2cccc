"""Times watch mode from a save to its verdict, compared with the import of JAX and Flax. All times come from one
interleaved run.

    python benchmarks/watch.py [ROUNDS] [--smoke]

Problems 01 to 14, each in a session of watch mode as `grade watch` runs it, on a workspace of references. Each save
changes a constant of the file, so that its program is one that the cache has not seen, and the next save makes the file
wrong if it is right: with the first misconception of the problem that edits another place. A time begins before the
file is written and ends when the whole verdict is there, with the misconception. The first saves of a problem are not
counted: they fill the cache with reference outputs.

    changed     the constant is new: what the bar is about
    unchanged   the same text is saved again: the programs' outputs come from the cache
    first check from the save to the first check that is shown

Bar: the median over the problems, each the median of its saves, right and wrong, is at most 0.60 of the import's time.
"""

import random
import statistics
import sys
import tempfile
import threading
import time
from pathlib import Path

from timing import seconds, smoke

from grader.course import catalog
from grader.course.workspace import Workspace
from grader.judge.verdict import Report, Verdict
from grader.problem import Problem
from grader.resident.resident import Resident
from grader.watch.watch_session import WatchSession

BAR = 0.60
IMPORT = [sys.executable, "-c", "import jax, flax.nnx"]
REST = 2.0  # seconds between two saves, as even a fast learner leaves: the spare workers are ready again
LONGEST = 120.0  # seconds to wait for a verdict

# A place in each reference where a factor changes the program, and hardly the numbers.
FACTORS = {
    1: ("self.embed(token_ids) + self", "jnp.where(token_ids[:, None] < 0, {}, self.embed(token_ids)) + self"),
    2: ("q @ k.T / jnp.sqrt(K)", "q @ k.T * {} / jnp.sqrt(K)"),
    3: ("q_THK, k_THK) / ", "q_THK, k_THK) * {} / "),
    4: ("centered = x - mean", "centered = (x - mean) * {}"),
    5: ("x = x + self.attn(self.ln1(x))", "x = x + self.attn(self.ln1(x)) * {}"),
    6: ("return self.ln_f(x_TD) @", "return {} * self.ln_f(x_TD) @"),
    7: ("return jnp.sum(losses * counts)", "return {} * jnp.sum(losses * counts)"),
    8: ("return jnp.mean(jax.vmap(next", "return {} * jnp.mean(jax.vmap(next"),
    9: ("return -learning_rate", "return -{} * learning_rate"),
    10: ("return peak *", "return {} * peak *"),
    11: ("jnp.minimum(1.0, max_norm /", "jnp.minimum(1.0, {} * max_norm /"),
    12: ("return loss / count,", "return {} * loss / count,"),
    13: (
        "state.skipped + jnp.where(finite, 0, 1)",
        "state.skipped + jnp.where(finite, 0, jnp.maximum(1, -int({} * 2**22)))",
    ),
    14: ("return jnp.mean(optax", "return {} * jnp.mean(optax"),
}


class Saves:
    """Saves texts in a session of watch mode, one at a time, and waits for each verdict."""

    def __init__(self, space: Workspace, problem: Problem, resident: Resident) -> None:
        self._news = threading.Condition()
        self.session = WatchSession(space, problem, resident, self._changed)
        self._first = 0.0

    def _changed(self) -> None:
        with self._news:
            if self.session.state.checks and not self._first:
                self._first = time.perf_counter()
            self._news.notify_all()

    def verdict(self, other_than: Report | None) -> Report:
        """The next verdict."""
        with self._news:
            self._news.wait_for(lambda: self._has_news(other_than), LONGEST)
            state = self.session.state
            if state.report is None or state.report is other_than:
                reason = "the code has changed" if state.outdated else state.error or f"nothing within {LONGEST:g} s"
                sys.exit(f"no verdict on problem {state.problem.label}: {reason}")
            return state.report

    def _has_news(self, other_than: Report | None) -> bool:
        state = self.session.state
        return not state.grading and (state.report is not other_than or state.outdated or bool(state.error))

    def save(self, text: str) -> tuple[float, float, Report]:
        """The seconds from this save to the whole verdict, those to the first check, and the verdict."""
        before, self._first = self.session.state.report, 0.0
        start = time.perf_counter()
        self.session.file.write_text(text)
        report = self.verdict(before)
        return time.perf_counter() - start, self._first - start, report


def versions(problem: Problem, rng: random.Random) -> tuple[str, str]:
    """A right and a wrong text, with a constant that no text before had."""
    find, put = FACTORS[problem.number]
    source = catalog.reference_sources(problem)[problem.name]
    factor = repr(1 + rng.randrange(1, 20) * 2**-22)  # too little for a check to see
    right = source.replace(find, put.replace("{}", factor), 1)
    ideas = (idea for idea in catalog.misconceptions(problem) if right.count(idea.find) == 1)
    wrong = next(text for idea in ideas for text in idea.variants(right).values())
    return right, wrong


def measure(problem: Problem, rounds: int, resident: Resident, rng: random.Random) -> dict[str, list[float]]:
    """The times of a problem, each divided by that of an import just before."""
    ratios: dict[str, list[float]] = {"right": [], "wrong": [], "unchanged": [], "first check": []}
    with tempfile.TemporaryDirectory() as folder:
        space = Workspace(Path(folder))
        for name, text in catalog.reference_sources(problem).items():
            (space.folder / f"{name}.py").write_text(text)
        saves = Saves(space, problem, resident)
        saves.session.start()
        saves.verdict(None)
        for number in range(rounds + 1):
            texts = dict(zip(("right", "wrong"), versions(problem, rng), strict=True))
            for kind, text in {**texts, "unchanged": texts["wrong"]}.items():
                time.sleep(REST)
                floor = seconds(IMPORT)
                elapsed, first, report = saves.save(text)
                if (report.verdict is Verdict.PASS) != (kind == "right"):
                    sys.exit(f"problem {problem.label}, {kind}: {report.verdict}")
                if number:
                    ratios[kind].append(elapsed / floor)
                if number and kind != "unchanged":
                    ratios["first check"].append(first / floor)
        saves.session.close()
    return ratios


def main() -> None:
    only_smoke = smoke()
    rounds = 1 if only_smoke else int(sys.argv[1]) if len(sys.argv) > 1 else 3
    rng, medians = random.Random(), list[dict[str, float]]()
    with Resident() as resident:
        for problem in [catalog.find("04")] if only_smoke else [catalog.find(str(number)) for number in FACTORS]:
            ratios = measure(problem, rounds, resident, rng)
            ratios["changed"] = ratios["right"] + ratios["wrong"]
            row = {kind: statistics.median(each) for kind, each in ratios.items()}
            medians.append(row)
            print(f"{problem.label}  " + "   ".join(f"{kind} {ratio:.2f}" for kind, ratio in row.items()), flush=True)
    print()
    for kind in ("right", "wrong", "first check", "unchanged"):
        print(
            f"{kind:12} {statistics.median(row[kind] for row in medians):.2f} of the import, median over the problems"
        )
    result = statistics.median(row["changed"] for row in medians)
    print(f"save to verdict / import: {result:.2f} (bar {BAR:.2f})")


if __name__ == "__main__":
    main()
