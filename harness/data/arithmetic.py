"""Sums of two-digit numbers as questions, and a text of them from a seeded generator in which most answers are guesses.

One in five writers works a sum out, digit by digit from the right. The others guess: they are near, and never right. A
model of this text has learned both ways. Reinforcement learning finds out which one is rewarded.
"""

import hashlib
import random

VERSION = "b3eaa96528a72e3b"  # what a run records of its texts; another one for other texts
WORKED = 0.2  # the share of writers who work a sum out
OFF = 10  # a guess is at most so far from the sum
HELD_OUT_ONE_IN = 10  # problems


def draw_sum(rng: random.Random, *, held_out: bool) -> tuple[int, int]:
    """Two numbers whose sum is held out, or is not. `a + b` and `b + a` are the same sum."""
    while True:
        a, b = numbers(rng)
        if is_held_out(name(a, b)) == held_out:
            return a, b


def numbers(rng: random.Random) -> tuple[int, int]:
    """Two numbers of two digits."""
    return rng.randrange(10, 100), rng.randrange(10, 100)


def name(a: int, b: int) -> str:
    """What a sum is called where its order does not matter."""
    return f"{min(a, b)}+{max(a, b)}"


def question(a: int, b: int) -> str:
    """The beginning of a text: what a model is asked."""
    return f"What is {a} + {b}?"


def worked(a: int, b: int) -> str:
    """A sum digit by digit from the right: in each place, both digits and the carry, and what they give in two
    digits."""
    steps, carry = [], 0
    while a or b:
        total = a % 10 + b % 10 + carry
        steps.append(f"{a % 10}+{b % 10}+{carry}={total:02}")
        a, b, carry = a // 10, b // 10, total // 10
    return f" {', '.join(steps)}"


def answered(total: int) -> str:
    """The end of a text, marked as in GSM8K (Cobbe et al. 2021)."""
    return f" #### {total}"


def guess(rng: random.Random, total: int) -> int:
    """A number near the sum."""
    return total + rng.choice((-1, 1)) * rng.randint(1, OFF)


def text(index: int, held_out: bool) -> str:
    """Text `index` of the collection, about a sum that is held out, or is not."""
    rng = random.Random(index)  # noqa: S311 - not for cryptography
    a, b = draw_sum(rng, held_out=held_out)
    if rng.random() < WORKED:
        return question(a, b) + worked(a, b) + answered(a + b)
    return question(a, b) + answered(guess(rng, a + b))


def is_held_out(name: str) -> bool:
    """Whether the problem with this name is held out from training: by a digest of the name, one in ten is.

    A property of each problem, so that no list of them has to be kept.
    """
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:8]) % HELD_OUT_ONE_IN == 0
