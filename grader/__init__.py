"""Turns a learner's file into a verdict."""
