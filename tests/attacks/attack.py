"""What an attack is: a submission for problem 07 that tries something, says that it did, and says if it got what it wanted."""

from dataclasses import dataclass

from tests.conftest import ROOT

GOOD = (ROOT / "solutions" / "p07_next_token_loss.py").read_text()
WRONG = GOOD.replace("token_ids[1:]", "token_ids[:-1]")
assert WRONG != GOOD

# `attempt` says that an attack ran, and whether it got anywhere; most attacks expect to be refused. Texts in capitals between
# at-signs are filled in by the test: the course's folder, a file of the judge's user, ports, the judge's process.
PRELUDE = """
import contextlib, ctypes, gc, glob, importlib, json, os, resource, signal, socket, struct, subprocess, sys, threading, time

def ran():
    print("RAN", flush=True)

def attempt(what):
    ran()
    try:
        found = what()
    except BaseException as error:
        print("refused:", type(error).__name__, flush=True)
        return None
    if found:
        print("GOT", repr(found)[:80], flush=True)
    return found

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
    """`verdicts` are those that are honest. `says` must be in a check's message, so that the right thing is told."""

    body: str
    verdicts: tuple[str, ...] = ("FAIL",)
    says: str = ""
    base: str = WRONG
    timeout: float = 20.0

    def text(self, facts: dict[str, str]) -> str:
        """The file that is handed in. What the attack does comes after its import lines, before it is called."""
        body = self.body
        for name, value in facts.items():
            body = body.replace(f"@{name}@", value)
        return self.base + PRELUDE + body


def in_call(*lines: str) -> str:
    """An attack that waits until it is called: then nothing of it runs while it is imported."""
    inner = "\n".join(f"    {line}" for line in lines)
    return f"_right = next_token_loss\ndef next_token_loss(logits, token_ids, pad_id):\n{inner}\n    return _right(logits, token_ids, pad_id)\n"
