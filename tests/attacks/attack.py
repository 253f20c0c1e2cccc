"""An attack: a submission for problem 07 that tries something, and prints whether it ran and whether it succeeded."""

from dataclasses import dataclass

from tests.conftest import ROOT

GOOD = (ROOT / "solutions" / "p07_next_token_loss.py").read_text()
WRONG = GOOD.replace("token_ids[1:]", "token_ids[:-1]")
assert WRONG != GOOD

# Every attack prints RAN. One that succeeds prints GOT; most attacks expect to be refused. The arena replaces words
# between at-signs: @ROOT@ by the course's folder, @PORT@ by a port of the judge, and so on.
PRELUDE = """
import contextlib, ctypes, gc, glob, importlib, json, os
import resource, signal, socket, struct, subprocess, sys, threading, time

def ran():
    print("RAN", flush=True)

def attempt(action):
    ran()
    try:
        result = action()
    except BaseException as error:
        print("refused:", type(error).__name__, flush=True)
        return None
    if result:
        print("GOT", repr(result)[:80], flush=True)
    return result

def libc():
    return ctypes.CDLL(None, use_errno=True)

def call(number, *args):
    result = libc().syscall(number, *args)
    if result < 0:
        raise OSError(ctypes.get_errno(), "refused")
    return result

"""


@dataclass(frozen=True)
class Attack:
    """One attack, added to the file `base`. `verdicts` are the honest ones. `message` must occur in the message of a
    check."""

    body: str
    verdicts: tuple[str, ...] = ("FAIL",)
    message: str = ""
    base: str = WRONG
    timeout: float = 20.0

    def text(self, facts: dict[str, str]) -> str:
        """The submission, with `facts` filled in."""
        body = self.body
        for name, value in facts.items():
            body = body.replace(f"@{name}@", value)
        return self.base + PRELUDE + body


def in_call(*lines: str) -> str:
    """The body of an attack that runs when the entry is called, not when the file is imported."""
    inner = "\n".join(f"    {line}" for line in lines)
    return (
        f"_right = next_token_loss\ndef next_token_loss(logits, token_ids, pad_id):\n{inner}\n"
        f"    return _right(logits, token_ids, pad_id)\n"
    )
