"""Where the course is installed."""

from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PROBLEMS = ROOT / "problems"
SOLUTIONS = ROOT / "solutions"
FORGERIES = ROOT / "tests" / "attacks" / "forgeries"  # programs that claim work which they do not do
STYLES = ROOT / "tests" / "problems" / "styles"  # correct programs in other styles than the references
