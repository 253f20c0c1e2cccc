"""What a program costs: its bill, as a witness counts it, compared with other programs, and a learner's records.

Nothing here decides a verdict. May import everything up to `judge`.
"""
