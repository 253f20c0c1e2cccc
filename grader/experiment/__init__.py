"""Experiments that learners design, run and report. May import course, isolation and wire; runs the harness in
processes of its own.

`claim.py` is what a learner says before any run, `arms.py` the runs that the claim asks for, `report_file.py` the
numbers and the verdict of the report, `typed.py` the numbers that a learner may not type, `judging.py` the evidence,
the score and what comes next.
"""
