# The folder is a Python package, so that it can be installed. `grade` finds it by its entry point in pyproject.toml.
