"""What a learner receives of the open tasks: a page, a stub and a definition for each."""
