"""Runs that went wrong, and diagnoses of them. May import course, isolation and wire; trains in processes
of its own.

`case.py` is one run of a learner and what the log holds of it, `form.py` the diagnosis that they file, `judging.py` the
prediction that is put to the test, the score and what comes next.
"""
