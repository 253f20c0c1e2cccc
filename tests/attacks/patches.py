"""Changes NumPy, JAX, Python or the worker's own modules, so that whatever is looked at looks right."""

from tests.attacks.attack import Attack, in_call

_OURS = "ours = {name: module for name, module in sys.modules.items() if name.startswith('grader')}\nran()\n"

ATTACKS = {
    "numpy compares everything as equal": Attack(
        "import numpy as np\nran()\nfor name in ('allclose', 'array_equal', 'isclose', 'testing'):\n"
        "    setattr(np, name, lambda *a, **k: True)\n"
    ),
    "numpy gives zeros": Attack("import numpy as np\nran()\nnp.asarray = lambda *a, **k: 0\n", ("FAIL", "ERROR")),
    "jax compiles nothing": Attack("import jax\nran()\njax.jit = lambda f, **k: f\n"),
    "jax differentiates nothing": Attack(
        "import jax\nran()\njax.vjp = jax.grad = lambda f, *a, **k: f\n", ("FAIL", "ERROR")
    ),
    "jax flattens nothing": Attack(
        "import jax\nran()\njax.tree_util.tree_flatten_with_path = lambda *a, **k: ([], None)\n", ("FAIL", "ERROR")
    ),
    "builtins": Attack(
        "import builtins\nran()\nbuiltins.abs = lambda x: 0\nbuiltins.isinstance = lambda *a: True\nbuiltins.len = lambda x: 0\n",
        ("FAIL", "ERROR"),
    ),
    "json": Attack(
        "ran()\n_dumps = json.dumps\njson.dumps = lambda value, **k: _dumps({'kind': 'reading', 'fields': {'verdict': 'PASS',"
        " 'notes': [], 'numeric': False}, 'leaves': []})\n",
        ("FAIL", "ERROR"),
    ),
    "what the worker sends": Attack(_OURS + "ours['grader.worker'].to_leaves = lambda arrays: []\n", ("FAIL", "ERROR")),
    "how the worker encodes": Attack(
        _OURS + "ours['grader.channel'].encode = lambda frame: b'PASS'\n", ("FAIL", "ERROR", "TIMEOUT"), timeout=3
    ),
    "the worker's types of numbers": Attack(
        _OURS + "ours['grader.channel'].WIRE_DTYPES['float32'] = 'O'\n", ("FAIL", "ERROR", "MEMORY")
    ),
    "the probes": Attack(
        _OURS + "from types import SimpleNamespace\n"
        "for desk in [x for x in gc.get_objects() if type(x).__name__ == 'WorkerState']:\n"
        "    for name in list(desk.known): desk.known[name] = lambda *a, **k: SimpleNamespace(arrays={}, notes=['PASS'], numeric=True)\n",
        ("FAIL", "ERROR"),
    ),
    "the worker's answers": Attack(
        _OURS + "for desk in [x for x in gc.get_objects() if type(x).__name__ == 'WorkerState']:\n"
        "    type(desk).answer = lambda self, job: ours['grader.channel'].Frame('PASS')\n",
        ("FAIL", "ERROR"),
    ),
    "the socket": Attack("ran()\nsocket.socket.sendall = lambda *a: None\n", ("ERROR", "TIMEOUT", "FAIL"), timeout=3),
    "a trace of the worker's frames": Attack(
        "def trace(frame, event, arg):\n    for name in list(frame.f_locals):\n        if name == 'arrays': frame.f_locals[name] = {}\n"
        "    return trace\nran()\nsys.settrace(trace)\n",
        ("FAIL", "ERROR"),
        timeout=60,
    ),
    "the tolerance": Attack(
        _OURS + "import dataclasses\nfor item in gc.get_objects():\n    if type(item).__name__ == 'Tolerance':\n"
        "        object.__setattr__(item, 'atol', 1e9)\n"
    ),
    "the points": Attack(
        _OURS
        + "for item in gc.get_objects():\n    if type(item).__name__ == 'Check':\n        object.__setattr__(item, 'points', 0)\n"
        "        object.__setattr__(item, 'cases', '')\n"
    ),
    "the case it is given": Attack(
        in_call("ran()", "import jax.numpy as jnp", "return _right(jnp.zeros_like(logits), token_ids * 0, pad_id)"),
        ("FAIL",),
    ),
}
