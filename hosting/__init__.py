"""GPT Kata for a class in a browser: the configuration of a JupyterHub, the service that learners hand in to, and a
tool for learning platforms. Knows the grader and the studio; they do not know it."""
