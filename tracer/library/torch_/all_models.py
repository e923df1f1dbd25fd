"""Imports every module of models of torch, which registers them."""

from tracer.library.torch_ import (  # noqa: F401
    answers,
    autograd_,
    autograd_functions,
    compiling,
    creation,
    distributed_,
    distributions_,
    flex_attention,
    higher_order,
    metadata,
    modules,
    numbers,
    optimizers,
    overrides,
    pytree_,
    state,
    tensor_functions,
    tensor_hooks,
    transforms,
    wrappers,
)
