"""The commands of `harness`: for training, for trained models, and for data and settings.

Called by the shell and by `python -m harness`. Imports every other package, as late as possible.
"""
