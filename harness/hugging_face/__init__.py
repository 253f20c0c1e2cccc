"""Models in the formats of Hugging Face's transformers: GPT-2, GPT-NeoX and Llama.

Called by `run`, for runs that start from such a model, and by `harness export`. Imports `model` and `data`.
"""
