"""What plays share: trained weights, the tokenizer, stories, and exhibits made of them.

`weights.py` loads the weights and puts them into modules by name, `model.py` is the trained model with a learner's part
in it, `telling.py` tells stories. All files are read when these are imported, because a confined worker cannot read
them later. `tuning.py` tunes the trained model by a learner's loss, and `runs.py` has small runs to save, place and
resume. `devices.py` shows what lies on which device and what a program sends, `programs.py` how large programs are.
`make_weights.py` is the script that trained the weights.
"""
