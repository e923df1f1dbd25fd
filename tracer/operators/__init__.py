"""What the tracer knows about torch's operators: their effects, how their results lie in memory, and how to compute their
results on fake tensors.

Facts: `facts` derives them from schemas and tags, `table` has the exceptions, `probes` tries operators on small tensors. Rules
for results on fake tensors (`meta` registers them): `operator_rules` of operators of ATen; `function_rules` of functions of
torch, `pools` of pooling, `factories` of functions that make tensors. Strides: `layout`, `probed_strides`, `strides`,
`compiler_layouts`. What need not be computed again: `memo`, `operation_memo`, `same_shape`. `row_rules` says where the rows of
a batch are in a result, `graph_functions` which functions become one node of a graph.
"""
