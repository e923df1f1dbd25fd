"""Models of torch's functions that are not simply operations of the graph."""
