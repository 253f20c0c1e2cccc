"""Runs the learner's code: loads a file, runs probes on it, and sends numbers. The only room that imports JAX.

Started as a process by isolation. Imported by the probes of problems.
Imports course, wire and isolation; never judge.
"""
