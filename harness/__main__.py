"""`harness`, and `python -m harness`."""

from commandline.start import start
from harness.memory import keep_freed_memory


def main() -> None:
    keep_freed_memory()
    start("harness.cli.main")


if __name__ == "__main__":
    main()
