"""A verdict as text for a terminal, as JSON, redacted, and in the formats of other systems.

Imports judge's verdict and course; never JAX.
"""
