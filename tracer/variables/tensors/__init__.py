"""Tensors, NumPy's arrays, parameters, and classes that override torch's functions."""
