"""Models in the formats of Hugging Face's transformers: GPT-2, GPT-NeoX, those of Llama's kind, and Gemma 3.

Imports `model` and `data`.
"""
