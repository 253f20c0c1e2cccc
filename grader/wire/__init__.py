"""Everything that crosses between processes: frames, and flat vectors with their one comparison.

Called by judge and worker, which never import each other.
Imports NumPy and the definition of a problem; never JAX.
"""
