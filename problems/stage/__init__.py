"""What plays share: trained weights, the tokenizer, stories, and exhibits made of them.

`weights.py` loads the weights and puts them into modules by name, `model.py` is the trained model with a learner's part in it,
`telling.py` tells stories. All files are read when these are imported, because a confined worker cannot read them later.
`make_weights.py` is the script that trained the weights.
"""
