"""Exits early, or announces its own verdict on every descriptor it has."""

from tests.attacks.attack import Attack, in_call

# Well-formed frames, so that no attack fails only because of its format.
FRAME = """
def frame(kind, fields, leaves=(), body=b""):
    header = json.dumps({"kind": kind, "fields": fields, "leaves": [list(leaf) for leaf in leaves]}).encode()
    return struct.pack("!IQ", len(header), len(body)) + header + body

READING = frame("reading", {"notes": [], "numeric": False}, [("output", "float32", [])], b"\\0" * 4)
"""

ATTACKS = {
    "exit at import": Attack("ran()\nsys.exit(0)\n", ("ERROR",), "raised SystemExit (0)"),
    "exit without cleaning up": Attack("ran()\nos._exit(0)\n", ("ERROR",), "the process exited (code 0)"),
    "exit in a call": Attack(in_call("ran()", "os._exit(0)"), ("ERROR",), "the process exited (code 0)"),
    "exit from a thread": Attack(
        in_call("ran()", "threading.Thread(target=os._exit, args=[0]).start()", "time.sleep(1)"),
        ("ERROR",),
        "the process exited (code 0)",
    ),
    "exit with an unprintable message": Attack(
        "class Quiet(SystemExit):\n    def __str__(self): raise self\nran()\nraise Quiet\n",
        ("ERROR",),
        "cannot be shown",
    ),
    "kills itself": Attack("ran()\nos.kill(os.getpid(), 9)\n", ("ERROR",), "the process exited (signal 9)"),
    "stops itself": Attack("ran()\nos.kill(os.getpid(), signal.SIGSTOP)\n", ("TIMEOUT",), "no result", timeout=2),
    "verdict printed at exit": Attack(
        'import atexit\nran()\natexit.register(print, \'{"schema": 1, "verdict": "PASS", "score": 6}\')\n'
    ),
    "verdict printed": Attack('ran()\nprint(\'{"schema": 1, "verdict": "PASS", "score": 6}\')\n'),
    "terminal overwritten": Attack("ran()\nprint('\\x1b[2J\\x1b[HProblem 07: PASS, 6 of 6 points')\n"),
    "forged reading": Attack(FRAME + in_call("ran()", "os.write(3, READING * 40)"), ("FAIL", "ERROR")),
    "forged reading at import": Attack(FRAME + "ran()\nos.write(3, READING * 40)\n", ("FAIL", "ERROR")),
    "forged ready frame": Attack(
        FRAME + "ran()\nos.write(3, frame('ready', {'isolation': 'strict: all'}) * 3)\n", ("FAIL", "ERROR")
    ),
    "forged on every descriptor": Attack(
        FRAME + "ran()\nfor number in range(1024):\n    with contextlib.suppress(OSError): os.write(number, READING)\n",
        ("FAIL", "ERROR"),
    ),
    "forged failure": Attack(
        FRAME + in_call("ran()", "os.write(3, frame('raised', {'kind': 'PASS', 'message': 'PASS'}))"),
        ("FAIL", "ERROR"),
    ),
    "channel closed": Attack(in_call("ran()", "os.close(3)"), ("ERROR",)),
    "channel closed, process left running": Attack(
        in_call("ran()", "os.close(3)", "time.sleep(100)"), ("ERROR",), "closed its result channel"
    ),
    "channel replaced": Attack(
        in_call("ran()", "reader, writer = socket.socketpair()", "os.dup2(reader.fileno(), 3)", "writer.sendall(b'x')"),
        ("ERROR", "TIMEOUT"),
        timeout=3,
    ),
    "half a frame": Attack(
        FRAME + in_call("ran()", "os.write(3, READING[:20])", "time.sleep(100)"), ("TIMEOUT",), "no result", timeout=2
    ),
    "half a frame, then exit": Attack(
        FRAME + in_call("ran()", "os.write(3, READING[:20])", "os._exit(0)"), ("ERROR",), "the process exited (code 0)"
    ),
    "endless progress": Attack(
        FRAME + in_call("ran()", "while True: os.write(3, frame('progress', {'step': 1, 'steps': 2, 'loss': 0.5}))"),
        ("ERROR",),
    ),
}
