"""The course for a class in a browser. Knows the grader and the studio; they do not know it."""
