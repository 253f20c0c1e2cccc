"""Uses up the machine's resources, or keeps running after its time limit."""

from tests.attacks.attack import Attack, in_call

ATTACKS = {
    "a fork bomb": Attack(
        "ran()\nwhile True:\n    with contextlib.suppress(OSError): os.fork()\n", ("ERROR", "TIMEOUT"), timeout=5
    ),
    "a session bomb": Attack(
        "ran()\nfor _ in range(200):\n    if os.fork() == 0:\n        os.setsid()\n        time.sleep(1000)\n"
        "        os._exit(0)\n",
        ("ERROR",),
        timeout=10,
    ),
    "ten thousand threads": Attack(
        "ran()\ntry:\n"
        "    for _ in range(10_000): threading.Thread(target=time.sleep, args=[1000], daemon=True).start()\n"
        "except RuntimeError: print('refused')\n",
        ("FAIL", "ERROR", "MEMORY", "TIMEOUT"),
        timeout=10,
    ),
    "a daemon": Attack(
        "ran()\nif os.fork() == 0:\n    os.setsid()\n    if os.fork() == 0:\n        for s in range(1, 32):\n"
        "            with contextlib.suppress(OSError, ValueError): signal.signal(s, signal.SIG_IGN)\n"
        "        for number in range(64):\n            with contextlib.suppress(OSError): os.close(number)\n"
        "        time.sleep(1000)\n    os._exit(0)\n"
    ),
    "all signals ignored": Attack(
        "ran()\nfor s in range(1, 32):\n"
        "    with contextlib.suppress(OSError, ValueError): signal.signal(s, signal.SIG_IGN)\n"
        "while True:\n    try:\n        while True: time.sleep(1)\n    except BaseException: pass\n",
        ("TIMEOUT",),
        "no result within",
        timeout=2,
    ),
    "sleeps forever": Attack(in_call("ran()", "time.sleep(1e6)"), ("TIMEOUT",), "no result within", timeout=2),
    "computes forever": Attack(
        "import jax\n"
        + in_call("ran()", "return jax.lax.while_loop(lambda x: True, lambda x: x + 1, 0.0) + logits.sum()"),
        ("TIMEOUT", "FAIL"),
        timeout=3,
    ),
    "unlimited memory": Attack(
        in_call("ran()", "blocks = []", "while True: blocks.append(bytearray(1 << 26))"), ("MEMORY",)
    ),
    "memory of many processes": Attack(
        "ran()\nfor _ in range(8):\n    if os.fork() == 0:\n        block = bytearray(os.urandom(1 << 20) * 700)\n"
        "        time.sleep(1000)\n"
        "time.sleep(1000)\n",
        ("MEMORY",),
        timeout=20,
    ),
    "shared memory": Attack(
        "import mmap\nran()\nblocks = []\nwhile True:\n    block = mmap.mmap(-1, 1 << 27)\n"
        "    for offset in range(0, 1 << 27, 4096): block[offset] = 1\n    blocks.append(block)\n",
        ("MEMORY",),
        timeout=30,
    ),
    "memory in anonymous files": Attack(
        "def fill():\n    files = []\n    for _ in range(64):\n        files.append(os.memfd_create('x'))\n"
        "        for _ in range(8): os.write(files[-1], bytes(1 << 23))\n    return len(files)\nattempt(fill)\n",
        ("FAIL", "MEMORY"),
    ),
    "a giant file": Attack(
        "def fill():\n    with open('big', 'wb') as file:\n        for _ in range(1024): file.write(bytes(1 << 22))\n"
        "    return os.path.getsize('big')\n"
        "attempt(fill)\n",
        ("FAIL", "ERROR", "MEMORY"),
    ),
    "a sparse file": Attack(
        "attempt(lambda: os.truncate(os.open('big', os.O_RDWR | os.O_CREAT), 1 << 40) is None)\n", ("FAIL", "ERROR")
    ),
    "a hundred thousand files": Attack(
        "def fill():\n    for n in range(100_000): open(str(n), 'w').close()\n    return n\nattempt(fill)\n",
        ("FAIL", "ERROR"),
        timeout=40,
    ),
    "a deep folder": Attack("ran()\nfor _ in range(2000):\n    os.mkdir('inner')\n    os.chdir('inner')\n"),
    "memory hidden from the watchdog": Attack("attempt(lambda: libc().prctl(4, 0, 0, 0, 0) == 0)\n"),
    "a higher limit": Attack(
        "attempt(lambda: resource.setrlimit(resource.RLIMIT_DATA, (resource.RLIM_INFINITY,) * 2) is None)\n"
    ),
    "a higher priority": Attack("attempt(lambda: os.nice(-20) or True)\n"),
}
