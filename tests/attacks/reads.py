"""Searches for the solution, or for the judge's data: on disk, in memory, in other processes, in the import system."""

from tests.attacks.attack import Attack

_SYSCALLS = """
NUMBERS = {"x86_64": dict(ptrace=101, readv=310, mount=165, unshare=272, open_by_handle=304, chroot=161),
           "aarch64": dict(ptrace=117, readv=270, mount=40, unshare=97, open_by_handle=265,
                           chroot=51)}[os.uname().machine]
"""

ATTACKS = {
    "opens the solution": Attack("attempt(lambda: open('@ROOT@/solutions/p07_next_token_loss.py').read())\n"),
    "lists the solutions": Attack("attempt(lambda: os.listdir('@ROOT@/solutions'))\n"),
    "opens the problem definition": Attack(
        "attempt(lambda: open('@ROOT@/problems/p07_next_token_loss/problem.py').read())\n"
    ),
    "opens a file of the judge's user": Attack("attempt(lambda: open('@CANARY@').read())\n"),
    "searches the disk": Attack(
        "def search():\n"
        "    return [os.path.join(top, name) for start in ('/', '/root', '/home', '/tmp', '/var', '/etc', '@ROOT@')"
        " for top, _, names in os.walk(start) if top.count('/') < 5 for name in names if name.startswith('p07_')]\n"
        "attempt(search)\n"
    ),
    "imports the solutions": Attack("attempt(lambda: importlib.import_module('solutions.p07_next_token_loss'))\n"),
    "adds the course to its path": Attack(
        "sys.path.insert(0, '@ROOT@')\nattempt(lambda: importlib.import_module('solutions.p07_next_token_loss'))\n"
    ),
    "locates the installed package": Attack(
        "import importlib.metadata\n"
        "attempt(lambda: "
        "open(json.loads(importlib.metadata.distribution('gpt-kata').read_text('direct_url.json'))['url'][7:]"
        " + '/solutions/p07_next_token_loss.py').read())\n"
    ),
    "reads the reference cache": Attack("attempt(lambda: glob.glob('@CACHE@/references/*/*'))\n"),
    "lists the program cache": Attack("attempt(lambda: [name for name in os.listdir('@CACHE@/programs')][1:])\n"),
    "searches the garbage collector": Attack(
        "def search():\n    gc.unfreeze()\n"
        "    return [item for item in gc.get_objects() if type(item).__name__ in ('Reference', 'Comparison', "
        "'Misconception')]\n"
        "attempt(search)\n"
    ),
    "searches the stack frames": Attack(
        "def search():\n    frame, seen = sys._getframe(), []\n    while frame:\n"
        "        seen += [name for name in frame.f_locals if 'expected' in name]\n"
        "        frame = frame.f_back\n    return seen\nattempt(search)\n"
    ),
    "searches loaded modules": Attack(
        "attempt(lambda: [name for name in sys.modules if name.startswith('solutions')])\n"
    ),
    "searches cached source lines": Attack(
        "import linecache\n"
        "attempt(lambda: [key for key, value in linecache.cache.items() if 'optax.softmax_cross_entropy' in str(value)"
        " and 'attempt' not in str(value)])\n"
    ),
    "searches its memory": Attack(
        # In two reversed parts, so that the search does not find itself.
        "def search():\n    first, second = b'@SECRET@'[:19:-1], b'@SECRET@'[19::-1]\n"
        "    with open('/proc/self/maps') as maps, open('/proc/self/mem', 'rb', 0) as memory:\n"
        "        for line in maps:\n            begin, end = (int(x, 16) for x in line.split()[0].split('-'))\n"
        "            if ' rw' not in line or end - begin > 1 << 26: continue\n"
        "            with contextlib.suppress(OSError, ValueError, OverflowError):\n"
        "                memory.seek(begin)\n                data, index = memory.read(end - begin), -1\n"
        "                while (index := data.find(first, index + 1)) >= 0:\n"
        "                    if data[index + len(first):].startswith(second): return line\n"
        "attempt(search)\n",
        timeout=60,
    ),
    "reads the judge's environment": Attack("attempt(lambda: open('/proc/@JUDGE@/environ').read())\n"),
    "reads its parent's environment": Attack("attempt(lambda: open(f'/proc/{os.getppid()}/environ').read())\n"),
    "reads its parent's memory": Attack(
        "attempt(lambda: open(f'/proc/{os.getppid()}/mem', 'rb').read(1) or 'opened')\n"
    ),
    "reads its parent's memory through a system call": Attack(
        _SYSCALLS
        + "data = ctypes.create_string_buffer(8)\nlocal = struct.pack('QQ', ctypes.addressof(data), 8)\n"
        + "attempt(lambda: call(NUMBERS['readv'], os.getppid(), local, 1, struct.pack('QQ', id(sys), 8), 1, 0))\n"
    ),
    "traces its parent": Attack(_SYSCALLS + "attempt(lambda: call(NUMBERS['ptrace'], 16, os.getppid(), 0, 0) == 0)\n"),
    "reaches the disk through its parent's root": Attack(
        "attempt(lambda: os.listdir(f'/proc/{os.getppid()}/root@ROOT@/solutions'))\n"
    ),
    "a symbolic link to the solution": Attack(
        "os.symlink('@ROOT@/solutions/p07_next_token_loss.py', 'link')\nattempt(lambda: open('link').read())\n"
    ),
    "a hard link to the solution": Attack(
        "attempt(lambda: os.link('@ROOT@/solutions/p07_next_token_loss.py', 'link') or open('link').read())\n"
    ),
    "mounts the disk elsewhere": Attack(
        _SYSCALLS + "os.mkdir('m')\n"
        "attempt(lambda: call(NUMBERS['mount'], b'@ROOT@', b'm', None, 4096, None) == 0 and os.listdir('m'))\n"
    ),
    "creates namespaces": Attack(_SYSCALLS + "attempt(lambda: call(NUMBERS['unshare'], 0x10000000) == 0)\n"),
    "makes rare system calls": Attack(
        _SYSCALLS
        + "def make(number):\n    libc().syscall(number, 0, 0, 0, 0, 0)\n    return ctypes.get_errno() not in (1, 38)\n"
        # open_tree_attr, quotactl_fd, io_setup, vmsplice, and modify_ldt or, where it does not exist, quotactl
        "RARE = {'x86_64': (467, 443, 206, 278, 154), 'aarch64': (467, 443, 0, 75, 60)}[os.uname().machine]\n"
        "attempt(lambda: [number for number in RARE if make(number)])\n"
    ),
    "opens a file by its handle": Attack(
        _SYSCALLS + "attempt(lambda: call(NUMBERS['open_by_handle'], -100, struct.pack('=Ii8s', 8, 1, b'\\2'), 0))\n"
    ),
    "searches its outermost frame": Attack(
        "def search():\n    frame = sys._getframe()\n    while frame.f_back: frame = frame.f_back\n"
        "    return [name for name in frame.f_globals if 'solution' in name.lower()]\nattempt(search)\n"
    ),
}
