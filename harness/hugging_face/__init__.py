"""Models in the formats of Hugging Face's transformers: GPT-2, GPT-NeoX and Llama.

Imports `model` and `data`.
"""
