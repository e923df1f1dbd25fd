"""Fake tensors: what stands for the program's tensors while a frame is traced."""
