"""The FX graph of a trace, fake tensors and symbolic numbers."""
