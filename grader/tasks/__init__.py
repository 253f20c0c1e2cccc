"""Open tasks: runs a submission and gives it a score and a class. May import the judge and the course.

`grading.py` is the judge's side. In the worker of `offer_worker.py`, the submission offers programs. In that of
`evidence_worker.py`, which never saw it, they are weighed.
"""
