"""Hands the course out: the learners' bundle, and autograders for course systems.

Imports judge and course; never JAX.
"""
