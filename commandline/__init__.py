"""Code that both commands, `grade` and `harness`, use. It imports neither of them."""
