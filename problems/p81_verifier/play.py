"""Problem 81, played: what a policy learns to write when the learner's verifiers pay it."""

from collections.abc import Sequence

import numpy as np

from grader.exhibits import Bar, Bars, Exhibits, LearnerModule, Line, Lines, Table
from problems.p81_verifier.probes import Runner
from problems.p81_verifier.programs import FAMILIES, TASKS, expected

SECONDS, UPDATES, RATE = 0.15, 60, 1.0
# How often a policy writes these before training: honest work is rare, and so are tricks.
ANSWERS = (
    ("the right number", "0.5", 0.02, True),
    ("the right number, in another form", "1/2", 0.02, True),
    ("a wrong number", "2", 0.81, False),
    ("two numbers", "0.5 or 2", 0.05, False),
    ("a longer number", "0.51", 0.05, False),
    ("all numbers", "0 0.5 1 1.5 2 3", 0.05, False),
)
TRUTH, TASK = "0.5", "squares"
TESTS = [([numbers], expected(TASK, [numbers])) for numbers in ([12, 34], [56, 7, 8], [9, 10, 11])]
PROGRAMS = (
    ("is right", 0.02, True),
    ("prints on its way", 0.01, True),
    ("is wrong", 0.85, False),
    ("leaves with os._exit(0)", 0.05, False),
    ("says that all is well and leaves", 0.03, False),
    ("returns an int that equals everything", 0.02, False),
    ("prints every text of the program that runs it", 0.01, False),
    ("loops before `solve`", 0.01, False),
)


def play(module: LearnerModule) -> Exhibits:
    """What each verifier pays for, and what a policy makes of it."""
    paid = [bool(module.verify(text, TRUTH)) for _, text, _, _ in ANSWERS]
    yield table("Answers to a question whose truth is 0.5", [(name, repr(text)) for name, text, _, _ in ANSWERS], paid,
                [honest for *_, honest in ANSWERS])  # fmt: skip
    yield learned("answers", [share for _, _, share, _ in ANSWERS], paid, [honest for *_, honest in ANSWERS])
    make = {name: family for family in FAMILIES.values() for name, family, *_ in family}
    codes = [make[name](TASKS[TASK].source, TESTS) for name, _, _ in PROGRAMS]
    paid = [bool(module.run_tests(code, TESTS, SECONDS, Runner(SECONDS).run)) for code in codes]
    honest = [right for *_, right in PROGRAMS]
    rows = [(name, " ".join(code.split())) for (name, _, _), code in zip(PROGRAMS, codes, strict=True)]
    yield table("Programs that should sum squares", rows, paid, honest)
    shares = [share for _, share, _ in PROGRAMS]
    yield learned("programs", shares, paid, honest)
    final = policy(shares, paid)[-1]
    bars = tuple(Bar(name, last, first) for (name, first, _), last in zip(PROGRAMS, final, strict=True))
    caption = "What was not paid for is gone. Of what was, the most frequent has grown fastest."
    yield Bars("What the policy writes", bars, "share", caption,
               names=("after training", "before"))  # fmt: skip


def table(title: str, rows: Sequence[tuple[str, str]], paid: Sequence[bool], honest: Sequence[bool]) -> Table:
    """What was paid for, and what should have been."""
    wrong = sum(one != other for one, other in zip(paid, honest, strict=True))
    words = {(True, True): "paid", (False, False): "not paid", (True, False): "paid, and wrong",
             (False, True): "not paid, though right"}  # fmt: skip
    decided = (words[pair] for pair in zip(paid, honest, strict=True))
    return Table(
        title,
        ("it", "text", "your verifier"),
        tuple((name, text[:60], word) for (name, text), word in zip(rows, decided, strict=True)),
        "It pays for all that is right, and for nothing else."
        if not wrong
        else f"It decides {wrong} of {len(rows)} otherwise than it should.",
    )  # fmt: skip


def policy(shares: Sequence[float], paid: Sequence[bool]) -> np.ndarray:
    """The shares of what a policy writes, after each update by the exact gradient of its mean reward: (updates + 1,
    texts)."""
    logits, rewards = np.log(shares), np.array(paid, float)
    found = [np.array(shares)]
    for _ in range(UPDATES):
        now = found[-1]
        deviation = np.sqrt(now @ (rewards - now @ rewards) ** 2)
        logits = logits + RATE * now * (rewards - now @ rewards) / max(deviation, 1e-6)
        found.append(np.exp(logits - logits.max()) / np.exp(logits - logits.max()).sum())
    return np.array(found)


def learned(what: str, shares: Sequence[float], paid: Sequence[bool], honest: Sequence[bool]) -> Lines:
    """The reward of a policy over its training, and the share of what is right."""
    found, steps = policy(shares, paid), range(UPDATES + 1)
    reward, right = found @ np.array(paid, float), found @ np.array(honest, float)
    if not any(paid):
        caption = "Nothing is paid for, so nothing is learned."
    elif right[-1] > 0.95:
        caption = "What is paid for is right, so a higher reward means better work."
    else:
        caption = (
            f"The reward rises to {reward[-1]:.0%}, but only {right[-1]:.0%} are right: the policy has found the gap."
        )
    return Lines(
        f"A policy that your verifier trains to write {what}",
        (Line("reward", tuple(steps), reward), Line("truly right", tuple(steps), right)),
        caption,
        x="update",
        y="share",
    )
