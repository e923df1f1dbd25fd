"""Imports every module of models of torch, which registers them."""

from tracer.library.torch_ import (  # noqa: F401
    autograd_,
    autograd_functions,
    compiling,
    constant_queries,
    creation,
    distributed_,
    distributions_,
    flex_attention,
    global_state,
    higher_order,
    metadata,
    modules,
    numbers,
    optimizers,
    overrides,
    pytree_,
    tensor_functions,
    tensor_hooks,
    transforms,
    wrappers,
)
