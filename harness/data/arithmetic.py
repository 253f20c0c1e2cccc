"""Sums as questions, and a text of them from a seeded generator in which most answers are guesses.

One in five writers works a sum out, digit by digit from the right. The others guess: they are near, and seldom right. A model of
this text has learned both ways. Reinforcement learning finds out which one is rewarded.
"""

import random

from harness.data.held_out import is_held_out

DIGITS = (1, 2, 3)  # of a number
WORKED = 0.2  # the share of writers who work a sum out
OFF = 10  # a guess is at most so far from the sum


def draw_sum(rng: random.Random, *, held_out: bool) -> tuple[int, int]:
    """Two numbers whose sum is held out, or is not. `a + b` and `b + a` are the same sum."""
    while True:
        a, b = (number(rng) for _ in range(2))
        if is_held_out(name(a, b)) == held_out:
            return a, b


def number(rng: random.Random) -> int:
    """A number whose count of digits is as likely as any other."""
    digits = rng.choice(DIGITS)
    return rng.randrange(10 ** (digits - 1), 10**digits)


def name(a: int, b: int) -> str:
    """What a sum is called where its order does not matter."""
    return f"{min(a, b)}+{max(a, b)}"


def question(a: int, b: int) -> str:
    """The beginning of a text: what a model is asked."""
    return f"What is {a} + {b}?"


def worked(a: int, b: int) -> str:
    """A sum digit by digit from the right: what is added in each place, with the carry, and what that gives."""
    steps, carry = [], 0
    while a or b:
        terms = [number % 10 for number in (a, b) if number] + [carry] * bool(carry)
        steps.append(f"{'+'.join(map(str, terms))}={sum(terms)}")
        a, b, carry = a // 10, b // 10, sum(terms) // 10
    return f" {', '.join(steps)}."


def answered(total: int) -> str:
    """The end of a text."""
    return f" The answer is {total}."


def text(index: int, held_out: bool) -> str:
    """Text `index` of the collection, about a sum that is held out, or is not."""
    rng = random.Random(index)  # noqa: S311 - not for cryptography
    a, b = draw_sum(rng, held_out=held_out)
    if rng.random() < WORKED:
        return question(a, b) + worked(a, b) + answered(a + b)
    return question(a, b) + answered(max(a + b + rng.randint(-OFF, OFF), 0))
