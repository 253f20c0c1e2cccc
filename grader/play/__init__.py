"""Plays: a learner's file at work in a real model, as exhibits. May import the judge and the course; no verdict depends
on it.

`play_session.py` is the judge's side; it starts a confined worker and reads exhibits. `play_worker.py` runs in that
worker. `comparison.py` says how the exhibits of a file differ from those of the reference.
"""
