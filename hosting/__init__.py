"""GPT Kata for a class in a browser: the configuration of a JupyterHub, and the service that learners hand in to."""
