"""What another user of the machine, such as the one that a learner's server runs as, can do to a class: nothing.

`test_hub.py` tries it with a real hub.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from grader.batch.store import Store
from grader.course.seed import create_seed
from hosting.class_folder import ClassFolder
from hosting.inbox import Inbox

pytestmark = [
    pytest.mark.fast,
    pytest.mark.skipif(not hasattr(os, "getuid") or os.getuid() != 0, reason="needs root, to be another user"),
]

NOBODY, P1 = 65534, "p01_token_embedding"
TRY = f"""
import os, sys
from pathlib import Path
os.setgroups([]); os.setgid({NOBODY}); os.setuid({NOBODY})
for name in sys.argv[1:]:
    for act in (Path.read_bytes, lambda path: list(path.iterdir()), Path.unlink, lambda path: (path / "x").mkdir()):
        try:
            act(Path(name))
            print("done", name)
        except PermissionError:
            pass
"""


def test_attempts_seed_and_marks_are_the_services_alone():
    """Also where the folder of the class, which somebody else made, is open to all."""
    with tempfile.TemporaryDirectory() as name:
        of = ClassFolder(Path(name))
        of.folder.chmod(0o755)
        hand_in = Inbox(of.hand_ins).receive("ada", P1, "a" * 32, {P1: "x = 1"}, lambda *_: None)
        Store(of.results).close()
        create_seed(of.results / "seed.txt")
        attempt = of.hand_ins / hand_in.folder
        secret = [of.hand_ins, attempt, attempt / f"{P1}.py", of.results, of.results / "seed.txt"]
        assert all(path.exists() for path in secret)
        command = [sys.executable, "-c", TRY, *map(str, secret)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        assert done.stdout == ""
        assert (attempt / f"{P1}.py").read_text() == "x = 1"
