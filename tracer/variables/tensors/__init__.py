"""Tensors, NumPy arrays, parameters, and tensor classes that override torch's functions."""
