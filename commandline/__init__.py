"""What the two commands, `grade` and `harness`, have in common. Imports nothing of theirs."""
