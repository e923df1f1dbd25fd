"""Symbolic numbers as PyTorch sees them: nodes behind torch.SymInt, and the adapter to `shapes.ShapeEnv`."""
