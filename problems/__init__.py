"""What a learner receives: a page, a stub and a definition for each problem."""
