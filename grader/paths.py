"""Where the course is installed."""

from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PROBLEMS = ROOT / "problems"
SOLUTIONS = ROOT / "solutions"
STYLES = ROOT / "tests" / "problems" / "styles"  # correct programs in other styles than the references
