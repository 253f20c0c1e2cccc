"""The folder in which the grader is installed, and the course that it comes with."""

from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
