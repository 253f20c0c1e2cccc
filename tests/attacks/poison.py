"""Leaves something behind for the next submission, or for the judge."""

from tests.attacks.attack import Attack, in_call

_WRITE = (
    "def write(path, text='raise SystemExit'):\n    with open(path, 'w') as file: file.write(text)\n    return path\n"
)

ATTACKS = {
    "a file for everybody": Attack(_WRITE + "attempt(lambda: write('@OUTSIDE@'))\n"),
    "the course itself": Attack(_WRITE + "attempt(lambda: write('@ROOT@/grader/poison.py'))\n"),
    "a package for everybody": Attack(
        _WRITE
        + "import numpy\nattempt(lambda: write(os.path.dirname(os.path.dirname(numpy.__file__)) + '/poison_kata.py'))\n"
    ),
    "bytecode": Attack(
        _WRITE
        + "import optax\nattempt(lambda: write(os.path.dirname(optax.__file__) + '/__pycache__/poison_kata.pyc'))\n"
    ),
    "the cache of references": Attack(_WRITE + "attempt(lambda: write('@CACHE@/references/poison'))\n"),
    "others' programs": Attack(_WRITE + "attempt(lambda: write('@CACHE@/programs/poison'))\n"),
    "the system's temporary folder": Attack(_WRITE + "ran()\nwrite('/tmp/poison_kata')\n", ("FAIL", "ERROR")),
    "a module of the same name": Attack(_WRITE + "ran()\nwrite('jax.py')\nwrite('optax.py')\n"),
    "loaded modules": Attack("import types\nran()\nsys.modules['optax'] = types.ModuleType('optax')\n"),
    "the import system": Attack("ran()\nsys.meta_path.clear()\nsys.path_hooks.clear()\n", ("FAIL", "ERROR")),
    "the judge": Attack("attempt(lambda: os.kill(@JUDGE@, 0) is None)\n"),
    "its parent": Attack(
        "ran()\nwith contextlib.suppress(OSError): os.kill(os.getppid(), signal.SIGKILL)\ntime.sleep(0.2)\n",
        ("FAIL", "ERROR"),
    ),
    "everybody": Attack(
        "ran()\nwith contextlib.suppress(OSError): os.kill(-1, signal.SIGTERM)\ntime.sleep(0.2)\n", ("FAIL", "ERROR")
    ),
    "the host's name": Attack("attempt(lambda: socket.sethostname('poison') is None)\n"),
    "the clock": Attack("attempt(lambda: time.clock_settime(time.CLOCK_REALTIME, 0) is None)\n"),
    "the answer to the next call": Attack(
        "import builtins\nran()\nbuiltins.LEFT = 'behind'\nos.environ['LEFT'] = 'behind'\n"
    ),
}

# Right on the examples that a learner sees, and wrong on all others.
_REMEMBERS = """
import jax, jax.numpy as jnp, numpy as np
SEEN = {@SEEN@}
def next_token_loss(logits, token_ids, pad_id):
    ran()
    shape = tuple(logits.shape)
    return jnp.float32(SEEN.get(shape, 0.0)) + 0 * logits.sum()
"""

ATTACKS |= {
    "remembers the examples": Attack(_REMEMBERS),
    "asks for the seed": Attack(
        "attempt(lambda: [part for part in (*sys.argv, *os.environ.values()) if '@SEED@' in part])\n"
    ),
    "notices the grader": Attack(
        "GRADED = any(name.startswith('grader') for name in sys.modules)\n"
        + in_call("ran()", "if not GRADED: return 1 / 0")
    ),
}
