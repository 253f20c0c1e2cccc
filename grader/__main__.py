"""`python -m grader`: the same as `grade`, from whichever copy of the course is the current folder."""

from grader.cli.learner import main

main()
