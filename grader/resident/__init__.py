"""Grades file after file: the processes that watch mode and the studio keep running between two saves.

Imports judge, course and isolation; never JAX and never worker.
"""
