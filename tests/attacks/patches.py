"""Changes NumPy, JAX, Python or the worker's own modules, to make a wrong result look right."""

from tests.attacks.attack import Attack, in_call

# Each patch calls `ran` last, so an attack whose target no longer exists does not count as run.
_FIND = """
modules = {name: module for name, module in sys.modules.items() if name.startswith('grader')}

def instances(name):
    gc.unfreeze()  # the worker hides its imports from the garbage collector
    objects = [item for item in gc.get_objects() if type(item).__name__ == name]
    assert objects, name
    return objects

"""

ATTACKS = {
    "numpy finds everything equal": Attack(
        "import numpy as np\nfor name in ('allclose', 'array_equal', 'isclose', 'testing'):\n"
        "    setattr(np, name, lambda *a, **k: True)\nran()\n"
    ),
    "numpy returns zeros": Attack("import numpy as np\nnp.asarray = lambda *a, **k: 0\nran()\n", ("FAIL", "ERROR")),
    "jax compiles nothing": Attack("import jax\njax.jit = lambda f, **k: f\nran()\n", ("FAIL", "ERROR")),
    "jax differentiates nothing": Attack(
        "import jax\njax.vjp = jax.grad = lambda f, *a, **k: f\nran()\n", ("FAIL", "ERROR")
    ),
    "jax flattens nothing": Attack(
        "import jax\njax.tree_util.tree_flatten_with_path = lambda *a, **k: ([], None)\nran()\n", ("FAIL", "ERROR")
    ),
    "builtins": Attack(
        "import builtins\nbuiltins.abs = lambda x: 0\nbuiltins.isinstance = lambda *a: True\n"
        "builtins.len = lambda x: 0\nran()\n",
        ("FAIL", "ERROR"),
    ),
    "json": Attack(
        "_dumps = json.dumps\njson.dumps = lambda value, **k: _dumps({'kind': 'reading', 'fields': {'verdict': 'PASS',"
        " 'notes': [], 'numeric': False}, 'leaves': []})\nran()\n",
        ("FAIL", "ERROR"),
    ),
    "the worker's leaves": Attack(
        _FIND + "assert modules['grader.worker.main'].to_leaves\n"
        "modules['grader.worker.main'].to_leaves = lambda arrays: []\nran()\n",
        ("FAIL", "ERROR"),
    ),
    "the worker's encoder": Attack(
        _FIND + "assert modules['grader.wire.channel'].encode\n"
        "modules['grader.wire.channel'].encode = lambda frame: b'PASS'\nran()\n",
        ("FAIL", "ERROR", "TIMEOUT"),
        timeout=3,
    ),
    "the worker's dtypes": Attack(
        _FIND + "modules['grader.wire.channel'].WIRE_DTYPES['float32'] = 'O'\nran()\n", ("FAIL", "ERROR", "MEMORY")
    ),
    "the probes": Attack(
        _FIND + "from types import SimpleNamespace\n"
        "for state in instances('WorkerState'):\n"
        "    probes = state.runtime.probes\n    assert 'values' in probes\n"
        "    for name in list(probes): probes[name] = lambda *a, **k: SimpleNamespace(arrays={}, notes=['PASS'], "
        "numeric=True)\n"
        "ran()\n",
        ("FAIL", "ERROR"),
    ),
    "the worker's answers": Attack(
        _FIND + "for state in instances('WorkerState'):\n    assert state.answer\n"
        "    type(state).answer = lambda self, request: modules['grader.wire.channel'].Frame('PASS')\nran()\n",
        ("FAIL", "ERROR"),
    ),
    "the socket": Attack("socket.socket.sendall = lambda *a: None\nran()\n", ("ERROR", "TIMEOUT", "FAIL"), timeout=3),
    "a trace function": Attack(
        "def trace(frame, event, arg):\n    for name in list(frame.f_locals):\n"
        "        if name == 'arrays': frame.f_locals[name] = {}\n"
        "    return trace\nsys.settrace(trace)\nran()\n",
        ("FAIL", "ERROR"),
        timeout=60,
    ),
    "the tolerance": Attack(
        _FIND + "for tolerance in instances('Tolerance'): object.__setattr__(tolerance, 'atol', 1e9)\nran()\n"
    ),
    "the points": Attack(
        _FIND + "for check in instances('Check'):\n    object.__setattr__(check, 'points', 0)\n"
        "    object.__setattr__(check, 'cases', '')\nran()\n"
    ),
    "the inputs of the case": Attack(
        in_call("ran()", "import jax.numpy as jnp", "return _right(jnp.zeros_like(logits), token_ids * 0, pad_id)"),
        ("FAIL",),
    ),
}
