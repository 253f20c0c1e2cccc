"""Runs the learner's code: loads a file, traces its probes, and sends programs, files and short text.

The only room that imports JAX.

Started as a process by isolation. Imported by the probes of problems.
Imports course, wire and isolation; never judge.
"""
