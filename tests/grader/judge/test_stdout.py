"""What libraries log is not what the submission printed."""

import pytest

from grader.judge.stdout import without_logs

pytestmark = pytest.mark.fast


@pytest.mark.parametrize(
    "logged",
    [
        "WARNING:absl:Sharding info not provided when restoring.\n",
        "ERROR:asyncio:Task exception was never retrieved\nfuture: <Task finished>\n"
        "Traceback (most recent call last):\n"
        '  File "x.py", line 1, in f\nValueError: no\n',
        "INFO:orbax.checkpoint.handlers:saved\n",
        "I0000 00:00:1700000000.123456  12 cpu_compiler.cc:12] compiled\n",
        "W1122 14:00:00.123456 12 x.py:3] careful\n",
        "WARNING: All log messages before absl::InitializeLog() is called are written to STDERR\n",
    ],
)
def test_logs_of_libraries_are_left_out(logged):
    assert without_logs(f"before\n{logged}loss 0.5\n") == "before\nloss 0.5\n"


@pytest.mark.parametrize(
    "text", ["", "WARNING: mine\n", "ERROR:mine:no\n", "  indented\ntask: 3\nIndex 0\n", "UserWarning: x\n"]
)
def test_everything_else_is_kept(text):
    assert without_logs(text) == text
