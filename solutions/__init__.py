"""What a learner does not receive: the reference for each problem, and the ideas it refutes."""
