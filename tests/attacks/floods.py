"""Sends, prints or raises more than anybody can hold."""

from tests.attacks.attack import Attack, in_call
from tests.attacks.exits import _FRAME

ATTACKS = {
    "a giant result": Attack(
        "import jax.numpy as jnp\n" + in_call("ran()", "return jnp.zeros(1 << 27)"), says="far larger"
    ),
    "a giant broadcast": Attack(
        "import numpy as np\n" + in_call("ran()", "return np.broadcast_to(np.float32(0), (1 << 40,))"),
        ("FAIL", "ERROR", "MEMORY"),
    ),
    "ten thousand leaves": Attack(
        "import numpy as np\n" + in_call("ran()", "return [np.float32(0)] * 10_000"), timeout=60
    ),
    "a deep tree": Attack(
        in_call("ran()", "tree = 0.0", "for _ in range(100_000): tree = (tree,)", "return tree"),
        ("FAIL", "ERROR", "MEMORY"),
    ),
    "a tree that holds itself": Attack(
        in_call("ran()", "tree = []", "tree.append(tree)", "return tree"), ("FAIL", "ERROR", "MEMORY")
    ),
    "a frame of 2^60 bytes": Attack(
        in_call("ran()", "os.write(3, struct.pack('!IQ', 100, 1 << 60))", "time.sleep(100)"),
        ("ERROR",),
        "larger than a frame",
        timeout=5,
    ),
    "a header of 4 GiB": Attack(
        in_call("ran()", "os.write(3, struct.pack('!IQ', (1 << 32) - 1, 0))", "time.sleep(100)"),
        ("ERROR",),
        "larger than a frame",
        timeout=5,
    ),
    "a header that is no JSON": Attack(
        in_call("ran()", "os.write(3, struct.pack('!IQ', 4, 0) + b'PASS')", "time.sleep(100)"),
        ("ERROR",),
        "not JSON",
        timeout=5,
    ),
    "a deep header": Attack(
        in_call(
            "ran()",
            "text = b'[' * 500_000",
            "os.write(3, struct.pack('!IQ', len(text), 0))",
            "while text: text = text[os.write(3, text):]",
            "time.sleep(100)",
        ),
        ("ERROR",),
        timeout=5,
    ),
    "a shape that overflows": Attack(
        _FRAME
        + in_call(
            "ran()",
            "os.write(3, frame('reading', {}, [('output', 'float32', [1 << 62, 1 << 62, 4])]))",
            "time.sleep(100)",
        ),
        ("ERROR",),
        "larger than a frame",
        timeout=5,
    ),
    "a negative shape": Attack(
        _FRAME
        + in_call("ran()", "os.write(3, frame('reading', {}, [('output', 'float32', [-1])]))", "time.sleep(100)"),
        ("ERROR",),
        "list of sizes",
        timeout=5,
    ),
    "another type of numbers": Attack(
        _FRAME + in_call("ran()", "os.write(3, frame('reading', {}, [('output', 'object', [])]))", "time.sleep(100)"),
        ("ERROR",),
        "not one that travels",
        timeout=5,
    ),
    "a leaf twice": Attack(
        _FRAME
        + in_call(
            "ran()",
            "os.write(3, frame('reading', {}, [('output', 'float32', []), ('output', 'float32', [])], b'1234' * 2))",
            "time.sleep(100)",
        ),
        ("ERROR",),
        "same path",
        timeout=5,
    ),
    "surplus bytes": Attack(
        _FRAME
        + in_call(
            "ran()", "os.write(3, frame('reading', {}, [('output', 'float32', [])], b'1234' * 9))", "time.sleep(100)"
        ),
        ("ERROR",),
        "longer than its leaves",
        timeout=5,
    ),
    "half a gigabyte printed": Attack("ran()\nfor _ in range(512): sys.stdout.write('x' * (1 << 20))\n"),
    "errors printed": Attack("ran()\nfor _ in range(64): sys.stderr.write('x' * (1 << 20))\n"),
    "a giant message": Attack(in_call("ran()", "raise ValueError('x' * (1 << 26))"), ("ERROR",)),
    "a message that never ends": Attack(
        "class E(Exception):\n    def __str__(self):\n        while True: pass\n" + in_call("ran()", "raise E"),
        ("TIMEOUT",),
        timeout=2,
    ),
}
