"""Writes stories that no run of an experiment has seen: `python -m tasks.held_out_stories SEED COUNT FILE`."""

import sys
from pathlib import Path

from harness.data import pocket

SEPARATOR = "\n<|endoftext|>\n"


def main() -> None:
    """Writes `COUNT` stories of a seed to `FILE`. The seed 0 is that of training, so it is moved away."""
    seed, count, path = int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3])
    path.write_text(SEPARATOR.join(pocket.stories(count, seed=seed + 1)), encoding="utf-8")


if __name__ == "__main__":
    main()
