"""`grade`, and `python -m grader`: the same from whichever copy of the course is the current folder."""

from commandline.start import start


def main() -> None:
    start("grader.cli.learner")


if __name__ == "__main__":
    main()
