"""The course in a browser: reads and grades the files of a workspace. Knows the grader and the harness; they do not
know it."""
