"""Open tasks: runs a submission and gives it a score and a class. May import the judge and the course.

`grading.py` is the judge's side. `task_worker.py` runs in the workers: in one, the submission offers programs, and in
another, which never saw it, they are weighed.
"""
