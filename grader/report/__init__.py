"""A verdict as text for a terminal, as JSON, redacted, and in the formats of other systems.

Called by cli and batch.
Imports judge's verdict and course; never JAX.
"""
