"""Where the grader is installed, with the course that it comes with."""

from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
