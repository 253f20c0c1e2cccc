"""Starts a command. Imports little, because a Ctrl-C while the command is being imported must also end in one
sentence."""

import sys
from importlib import import_module
from typing import Any

INTERRUPTED = 130  # the exit code after Ctrl-C, as shells have it


def start(module: str) -> None:
    """Imports the module of a command and runs its `main`."""
    try:
        import_module(module).main()
    except KeyboardInterrupt:
        say_interrupted()
        sys.exit(INTERRUPTED)


def repeat_lost_interrupts() -> None:
    """Sends a Ctrl-C again if it came where Python ignores exceptions: in a finalizer, or while libraries watch the
    search for garbage, as JAX and Hypothesis do."""
    usual = sys.unraisablehook

    def hook(unraisable: Any) -> None:
        if isinstance(unraisable.exc_value, KeyboardInterrupt):
            import signal
            import threading

            main = threading.main_thread().ident
            threading.Timer(0.01, signal.pthread_kill, (main, signal.SIGINT)).start()  # here, it would be lost again
        else:
            usual(unraisable)

    sys.unraisablehook = hook


def say_interrupted() -> None:
    """Prints that the command was interrupted, below the ^C of a terminal."""
    sys.stderr.write("\nInterrupted.\n" if sys.stderr.isatty() else "Interrupted.\n")
