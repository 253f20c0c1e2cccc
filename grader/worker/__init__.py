"""Runs the learner's code: loads a file, runs probes on it, sends numbers. The only room that imports JAX.

Started as a process by isolation. The probes of problems import it.
Imports course, wire and isolation; never judge.
"""
