"""Models of torch: what is not simply an operation of the graph."""
