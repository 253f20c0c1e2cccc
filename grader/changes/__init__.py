"""Changes to review: draws one, runs the learner's tests against programs, and keeps the answers. May import practice.

`change.py` is the change, `drawing.py` draws one, `testing.py` judges a test, `reviewing.py` is a learner's review.
"""
