"""`harness`, and `python -m harness`."""

from commandline.start import start


def main() -> None:
    start("harness.cli.main")


if __name__ == "__main__":
    main()
