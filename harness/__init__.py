"""A trainer for small GPTs on simple stories: what the pieces of the course add up to."""
