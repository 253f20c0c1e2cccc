"""Leaves something behind that would affect the judge or the next submission."""

from tests.attacks.attack import Attack, in_call

_WRITE = (
    "def write(path, text='raise SystemExit'):\n    with open(path, 'w') as file: file.write(text)\n    return path\n"
)

ATTACKS = {
    "a file outside the scratch folder": Attack(_WRITE + "attempt(lambda: write('@OUTSIDE@'))\n"),
    "a file in the course": Attack(_WRITE + "attempt(lambda: write('@ROOT@/grader/poison.py'))\n"),
    "an installed package": Attack(
        _WRITE
        + "import numpy\nattempt(lambda: write(os.path.dirname(os.path.dirname(numpy.__file__)) + '/poison_kata.py'))\n"
    ),
    "bytecode": Attack(
        _WRITE
        + "import optax\nattempt(lambda: write(os.path.dirname(optax.__file__) + '/__pycache__/poison_kata.pyc'))\n"
    ),
    "the reference cache": Attack(_WRITE + "attempt(lambda: write('@CACHE@/references/poison'))\n"),
    "the program cache": Attack(_WRITE + "attempt(lambda: write('@CACHE@/programs/poison'))\n"),
    "the system's temporary folder": Attack(_WRITE + "ran()\nwrite('/tmp/poison_kata')\n", ("FAIL", "ERROR")),
    "a file in shared memory": Attack(
        _WRITE + "ran()\nwith contextlib.suppress(OSError): write('/dev/shm/poison_kata')\n"
    ),
    "folders that are hard to remove": Attack(
        "ran()\nfor _ in range(1500):\n    os.mkdir('inner')\n    os.chmod('.', 0o300)\n    os.chdir('inner')\n",
        ("FAIL", "ERROR"),
    ),
    "modules that shadow packages": Attack(_WRITE + "ran()\nwrite('jax.py')\nwrite('optax.py')\n"),
    "loaded modules": Attack("import types\nran()\nsys.modules['optax'] = types.ModuleType('optax')\n"),
    "the import system": Attack("ran()\nsys.meta_path.clear()\nsys.path_hooks.clear()\n", ("FAIL", "ERROR")),
    "a signal to the judge": Attack("attempt(lambda: os.kill(@JUDGE@, 0) is None)\n"),
    "a signal to the judge from a descriptor": Attack(
        "import fcntl\nattempt(lambda: fcntl.fcntl(os.pipe()[0], fcntl.F_SETOWN, @JUDGE@) == 0)\n"
    ),
    "the judge's limits": Attack("attempt(lambda: resource.prlimit(@JUDGE@, resource.RLIMIT_NOFILE))\n"),
    "a signal to its parent": Attack(
        "ran()\nwith contextlib.suppress(OSError): os.kill(os.getppid(), signal.SIGKILL)\ntime.sleep(0.2)\n",
        ("FAIL", "ERROR"),
    ),
    "a signal to every process": Attack(
        "ran()\nwith contextlib.suppress(OSError): os.kill(-1, signal.SIGTERM)\ntime.sleep(0.2)\n", ("FAIL", "ERROR")
    ),
    "the host name": Attack("attempt(lambda: socket.sethostname('poison') is None)\n"),
    "the system clock": Attack("attempt(lambda: time.clock_settime(time.CLOCK_REALTIME, 0) is None)\n"),
    "state for the next submission": Attack(
        "import builtins\nran()\nbuiltins.LEFT_BEHIND = True\nos.environ['LEFT_BEHIND'] = '1'\n"
    ),
}

# Right on the public examples, wrong on all other cases.
_MEMORIZES = """
import jax, jax.numpy as jnp, numpy as np
SEEN = {@SEEN@}
def next_token_loss(logits, token_ids, pad_id):
    ran()
    shape = tuple(logits.shape)
    return jnp.float32(SEEN.get(shape, 0.0)) + 0 * logits.sum()
"""

ATTACKS |= {
    "memorizes the examples": Attack(_MEMORIZES),
    "searches for the seed": Attack(
        "attempt(lambda: [part for part in (*sys.argv, *os.environ.values()) if '@SEED@' in part])\n"
    ),
    "detects the grader": Attack(
        "GRADED = any(name.startswith('grader') for name in sys.modules)\n"
        + in_call("ran()", "if not GRADED: return 1 / 0")
    ),
}
