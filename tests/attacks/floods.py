"""Sends, prints or raises too much, or something malformed."""

from tests.attacks.attack import Attack, in_call
from tests.attacks.exits import FRAME

ATTACKS = {
    "a giant result": Attack(
        "import jax.numpy as jnp\n" + in_call("ran()", "return jnp.zeros(1 << 27)"), message="far larger"
    ),
    "a giant broadcast": Attack(
        "import numpy as np\n" + in_call("ran()", "return np.broadcast_to(np.float32(0), (1 << 40,))"),
        ("FAIL", "ERROR", "MEMORY"),
    ),
    "ten thousand leaves": Attack(
        "import numpy as np\n" + in_call("ran()", "return [np.float32(0)] * 10_000"), message="far more"
    ),
    "a deep tree": Attack(
        in_call("ran()", "tree = 0.0", "for _ in range(100_000): tree = (tree,)", "return tree"),
        ("FAIL", "ERROR", "MEMORY"),
    ),
    "a tree that contains itself": Attack(
        in_call("ran()", "tree = []", "tree.append(tree)", "return tree"), ("FAIL", "ERROR", "MEMORY")
    ),
    "a frame of 2^60 bytes": Attack(
        in_call("ran()", "os.write(3, struct.pack('!IQ', 100, 1 << 60))", "time.sleep(100)"),
        ("ERROR",),
        "announces more bytes than the size limit",
        timeout=5,
    ),
    "a header of 4 GiB": Attack(
        in_call("ran()", "os.write(3, struct.pack('!IQ', (1 << 32) - 1, 0))", "time.sleep(100)"),
        ("ERROR",),
        "announces more bytes than the size limit",
        timeout=5,
    ),
    "a header that is not JSON": Attack(
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
        FRAME
        + in_call(
            "ran()",
            "os.write(3, frame('reading', {}, [('output', 'float32', [1 << 62, 1 << 62, 4])]))",
            "time.sleep(100)",
        ),
        ("ERROR",),
        "a leaf exceeds the size limit",
        timeout=5,
    ),
    "a negative shape": Attack(
        FRAME + in_call("ran()", "os.write(3, frame('reading', {}, [('output', 'float32', [-1])]))", "time.sleep(100)"),
        ("ERROR",),
        "list of sizes",
        timeout=5,
    ),
    "an unknown dtype": Attack(
        FRAME + in_call("ran()", "os.write(3, frame('reading', {}, [('output', 'object', [])]))", "time.sleep(100)"),
        ("ERROR",),
        "dtype cannot be sent",
        timeout=5,
    ),
    "a duplicate leaf": Attack(
        FRAME
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
        FRAME
        + in_call(
            "ran()", "os.write(3, frame('reading', {}, [('output', 'float32', [])], b'1234' * 9))", "time.sleep(100)"
        ),
        ("ERROR",),
        "longer than its leaves",
        timeout=5,
    ),
    "half a gigabyte of output": Attack("ran()\nfor _ in range(512): sys.stdout.write('x' * (1 << 20))\n"),
    "a flood of error output": Attack("ran()\nfor _ in range(64): sys.stderr.write('x' * (1 << 20))\n"),
    "a giant message": Attack(in_call("ran()", "raise ValueError('x' * (1 << 26))"), ("ERROR",)),
    "an infinite loop in a message": Attack(
        "class E(Exception):\n    def __str__(self):\n        while True: pass\n" + in_call("ran()", "raise E"),
        ("TIMEOUT",),
        timeout=2,
    ),
}
