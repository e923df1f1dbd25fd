"""Graph breaks at parts of torch, and in backends."""

from __future__ import annotations

from tracer.graph_breaks.reasons import register, topic

TOPIC = topic("torch", "torch and backends")
register(
    "operator-failed-in-trace",
    "{operator} failed on fake tensors",
    "Tracing runs each operation on fake tensors, which have no data. With real ones it most likely raises the same error.",
    "look at the error below; run eagerly to see it with real tensors.",
    topic=TOPIC,
)
register(
    "offset-in-storage",
    "{operator} has a storage_offset, and its input does not begin where its storage begins",
    "The offset counts from the beginning of the storage. Inductor counts it from the beginning of the input, and would read "
    "other elements. `eager` runs the operator as it is.",
    "clone the input first, or leave storage_offset out.",
    topic=TOPIC,
)
register(
    "operator-not-compliant",
    "Operator {operator} is not PT2 compliant",
    "config.only_allow_pt2_compliant_ops is set, and the operator's author did not tag it `torch.Tag.pt2_compliant_tag`.",
    "test the operator with torch.library.opcheck and tag it, or leave that setting off.",
    topic=TOPIC,
)
register(
    "operator-result",
    "{operator} gave a {cls}, which a graph cannot hold",
    "Only tensors, numbers and containers of those can come out of an operation of the graph.",
    "call it outside the traced function.",
    topic=TOPIC,
)
register(
    "layout-of-out",
    "{operator} resizes the tensor that is passed as `out`, and its new strides are not known",
    "A resized tensor gets the strides of a new result, which follow those of the operands where these are not contiguous.",
    "use the result of the call without `out`, or pass an `out` that has the sizes of the result.",
    topic=TOPIC,
)
register(
    "write-over-itself",
    "{operator} writes to one element at several places, of an expanded tensor or of tensors that overlap",
    "Compilers turn a write into a computation of new values, and lose it where several places share one element.",
    "write to the tensor that was expanded, or to a `clone()` of the expanded one; give each tensor of a list once.",
    topic=TOPIC,
)
register(
    "unsupported-tensor",
    "{value} is a tensor of a kind that cannot be traced",
    "No fake tensor behaves exactly as sparse, quantised and some wrapper tensors do, and nested ones with the strided layout.",
    "convert it to a plain tensor, or keep it out of the traced function.",
    topic=TOPIC,
)
register(
    "tensor-subclass",
    "The tensor subclass {cls} cannot be traced ({source})",
    "Two kinds of subclass are traced through: those whose __torch_function__ is a class method, and wrappers (made by "
    "_make_wrapper_subclass) with a __torch_dispatch__. A backend that compiles is given those that __tensor_flatten__ takes "
    "apart and __tensor_unflatten__ puts together as they were. Even these are not if they are not strided, have data beside "
    "their __torch_dispatch__, or define operators, __getattr__ and the like themselves.",
    "pass a plain tensor, or override __torch_function__ alone.",
    topic=TOPIC,
)
register(
    "effect-in-subgraph",
    "{name} cannot become part of the graph: {value}",
    "The function would become a graph inside the graph, which may run later, or not at all.",
    "return what it computes instead of storing it.",
    topic=TOPIC,
)
register(
    "autograd-in-trace",
    "{name} cannot be put into the graph",
    "Backward passes, hooks and functions with gradients of their own are in the graph only where everything that they do is "
    "known. For a backward pass, that means gradients of leaf tensors without hooks.",
    "call it outside the traced function, or use leaf tensors without hooks.",
    topic=TOPIC,
)
register(
    "unsupported-module",
    "The module {value} cannot be traced through",
    "Its call runs hooks or wrappers implemented in a way that cannot be followed.",
    "decorate the modules inside it instead.",
    topic=TOPIC,
)
register(
    "random-state",
    "{name} reads or sets the state of a random number generator",
    "After a call, the state has to be that of an eager run; a graph can neither save nor restore it.",
    "seed outside the traced function.",
    topic=TOPIC,
)
register(
    "distributed",
    "{name} communicates between processes",
    "Only the functional collectives can be part of a graph.",
    "use torch.distributed._functional_collectives, or let the graph break here.",
    topic=TOPIC,
)
register(
    "backend-failed",
    "The backend {name} could not compile the graph",
    "The error of the backend is given below; the frame runs in CPython.",
    "try backend='eager' to see whether the graph itself runs.",
    topic=TOPIC,
)
register(
    "open-dual-level",
    "The graph would end inside of a level of forward AD",
    "Tangents live as long as the level (`torch.autograd.forward_ad.dual_level`) in which they were made. A graph leaves the "
    "levels that it enters, so a level is captured as a whole or not at all.",
    "leave the level in the function that enters it, and keep what breaks the graph out of it.",
    topic=TOPIC,
)
