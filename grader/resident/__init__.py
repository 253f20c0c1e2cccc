"""Grades file after file: what watch mode and the studio keep running between two saves.

Called by watch, the studio and the command that grades one file. Imports judge, course and isolation; never JAX and never worker.
"""
