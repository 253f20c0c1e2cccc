"""The commands of `grade`: for learners, teachers and authors.

Called by the shell and by `python -m grader`.
Imports every room but worker, as late as possible.
"""
