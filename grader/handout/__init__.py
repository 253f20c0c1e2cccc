"""Hands the course out: the learners' bundle, and autograders for course systems.

Called by cli.
Imports judge and course; never JAX.
"""
