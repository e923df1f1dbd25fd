"""Graph breaks at values that are known only when the graph runs."""

from __future__ import annotations

from tracer.graph_breaks.reasons import register, topic

TOPIC = topic("data", "Values that are known only when the graph runs")
register(
    "data-dependent-branch",
    "Branch on the value of a tensor ({value})",
    "The way that the program takes depends on numbers that exist only when the graph runs.",
    "use torch.where or torch.cond, paste the assumption if one is printed and holds for all calls, move the test out of the "
    "traced function, or let the graph break here.",
    topic=TOPIC,
)
register(
    "data-dependent-value",
    "A Python number is needed that depends on tensor data ({value})",
    "A size or a number taken from tensor data has no value while tracing, and something here needs one.",
    "say what is known with torch._check, keep the value in a tensor, or use torch.where.",
    topic=TOPIC,
)
register(
    "data-dependent-operator",
    "{operator} gives a result whose shape or value depends on data",
    "The size or value of the result is known only when the operator runs.",
    "set config.capture_scalar_outputs (item, tolist) or config.capture_dynamic_output_shape_ops (nonzero, masks), "
    "or use an operator whose result has a fixed shape, such as torch.where. Elements under a mask that are set again where they "
    "came from need neither: `x[mask] *= 2`, `x[mask] = y[mask]`.",
    topic=TOPIC,
)
register(
    "tensor-item",
    "{value}.item() reads a number out of a tensor",
    "The number is known only when the graph runs.",
    "keep it in a tensor, or set config.capture_scalar_outputs to carry it as an unbacked symbol.",
    topic=TOPIC,
)
register(
    "symbolic-arithmetic",
    "An operation on a symbolic number failed while tracing",
    "The operation is not defined for a number that stands for many values.",
    "mark the dim static with mark_static, or convert the number with int() to specialise on it.",
    topic=TOPIC,
)
register(
    "data-dependent-method",
    "Method {name} of {value} gives tensor data to Python",
    "tolist(), numpy(), int(), float() and the like need the data itself, which exists only when the graph runs.",
    "do it outside the traced function, or stay with tensor operations.",
    topic=TOPIC,
)
