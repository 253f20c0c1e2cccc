"""Starts a command. Imports little, because a Ctrl-C while the command is being imported must also end in one sentence."""

import sys
from importlib import import_module

INTERRUPTED = 130  # the exit code after Ctrl-C, as shells have it


def start(module: str) -> None:
    """Imports the module of a command and runs its `main`."""
    try:
        import_module(module).main()
    except KeyboardInterrupt:
        say_interrupted()
        sys.exit(INTERRUPTED)


def say_interrupted() -> None:
    """Prints that the command was interrupted, below the ^C of a terminal."""
    sys.stderr.write("\nInterrupted.\n" if sys.stderr.isatty() else "Interrupted.\n")
