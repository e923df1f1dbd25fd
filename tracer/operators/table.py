"""Facts of ATen's operators that neither their schemas nor their tags say: one row for each operator, whose fields give reasons.

There is no row for what a probe finds (`probes`). A probe cannot find these:
  - `layout`: sizes and dims are among the arguments, so that there are no small stand-ins for those of a call, and to run every
    operator at the sizes of every call costs more than it finds.
  - `fails`: the data that make an operator fail are not known, and kernels that do not check theirs would end the process.
"""

from __future__ import annotations

from typing import NamedTuple

MOST_ELEMENTS = 2**22

SMALL_DIMS = "dims of size 0 or 1 of arguments that are not contiguous: PyTorch's rule for fakes says their strides otherwise"
ORDER = "the dims come in another order than PyTorch's rule for fakes says"
UNTAGGED = "it goes through its operands element by element, and has no tag that says so"
UNSAID = "its schema does not say so"
STEP_BY_STEP = "compilers have no code for it, and write it out for each step of the sequence"
CONSTANTS = "a tensor that is made of a constant is the constant's copy, whose data are known"

# Layouts of results that have a rule of their own (`Row.lies`), so that they can be expressions of symbols.
AS_ITS_ARGUMENT = "with the strides of its argument, where that has no gaps"
CHANNELS = "the first result is contiguous, or has its channels last if those of the first argument are"
BATCH = "the same; contiguous where the first argument is both"
IN_LINE = "all results are contiguous"

# Overlaps in memory that an operator refuses, beside elements that it would write twice (aten/src/ATen/MemoryOverlap.cpp).
PARTLY = "what it reads and writes, unless the two are the same view: elementwise operators that write refuse these, too"
ANYWHERE = "all that it reads and writes"


class Row(NamedTuple):
    """The exceptions of one operator. Each text is the reason for an exception; where it is empty, there is none."""

    layout: str = ""  # the strides of its results are found by running it on zeros
    most: int = MOST_ELEMENTS  # it is not run if an argument has more elements
    contiguous_too: bool = False  # it is run for contiguous arguments, too
    lies: str = ""  # one of the four layouts above
    kernels: str = ""  # the C++ that chooses one by sizes: whichever it is, contiguous arguments give a contiguous result
    fails: str = ""  # what of its data makes it raise when the graph runs
    elementwise: str = ""
    overlap: str = ""  # it raises where its operands overlap in memory: one of the two texts above
    statistics: str = ""  # it updates `running_mean` and `running_var`
    writes: str = ""
    lifts: str = ""  # its results do not follow from metadata alone
    unrolled: str = ""  # the graph that compilers make of it grows with a size of its argument
    floats: str = ""  # arguments that are floats in its schema, and on which only elements of its results depend
    turns: tuple[float, ...] = ()  # values of these at which it may do something else


NO_ROW = Row()

ROWS: dict[str, Row] = {
    "_assert_async": Row(fails="what it asserts"),
    "_assert_scalar": Row(fails="what it asserts"),
    "_batch_norm_with_update": Row(layout=ORDER, lies=BATCH),
    "_fft_c2c": Row(layout=SMALL_DIMS),
    "_fft_c2r": Row(layout=SMALL_DIMS),
    "_fft_r2c": Row(layout=SMALL_DIMS),
    "_fused_adagrad_": Row(floats="lr lr_decay weight_decay eps"),
    "_fused_adam_": Row(floats="lr beta1 beta2 weight_decay eps"),
    "_fused_adamw_": Row(floats="lr beta1 beta2 weight_decay eps"),
    "_fused_sgd_": Row(floats="weight_decay momentum lr dampening"),
    "_histogramdd_bin_edges": Row(fails="bounds that are not finite"),
    "_linalg_check_errors": Row(fails="what a solver says of a matrix"),
    "_linalg_eigh": Row(fails="numbers that are not finite"),
    "_linalg_solve_ex": Row(fails="a singular matrix, with check_errors"),
    "_linalg_svd": Row(fails="numbers that are not finite"),
    "_log_softmax": Row(layout=SMALL_DIMS),
    "_native_batch_norm_legit": Row(layout=ORDER, lies=BATCH, statistics=UNSAID),
    "_native_batch_norm_legit_no_training": Row(layout=ORDER, lies=BATCH),
    "_no_grad_embedding_renorm_": Row(writes=UNSAID),
    "_pack_padded_sequence": Row(fails="lengths below one"),
    "_prelu_kernel": Row(layout=SMALL_DIMS),
    "_to_copy": Row(elementwise=UNTAGGED),
    "_unsafe_view": Row(layout=SMALL_DIMS),
    "_upsample_nearest_exact2d": Row(layout=SMALL_DIMS),
    "addr": Row(layout=SMALL_DIMS),
    "alpha_dropout": Row(floats="p", turns=(0.0, 1.0)),
    "amax": Row(layout=SMALL_DIMS),
    "amin": Row(layout=SMALL_DIMS),
    "aminmax": Row(layout=SMALL_DIMS),
    "batch_norm": Row(floats="momentum eps"),
    "batch_norm_gather_stats": Row(statistics=UNSAID),
    "batch_norm_gather_stats_with_counts": Row(statistics=UNSAID),
    "batch_norm_update_stats": Row(statistics=UNSAID),
    "bernoulli": Row(fails="a probability outside of [0, 1]"),
    "bernoulli_": Row(floats="p"),
    "binary_cross_entropy": Row(fails="a probability outside of [0, 1]"),
    "binary_cross_entropy_with_logits": Row(layout=SMALL_DIMS),
    "bincount": Row(fails="a number below zero"),
    "bucketize": Row(fails="bounds of several dims, which fakes let pass"),
    "cauchy_": Row(floats="median sigma"),
    "channel_shuffle": Row(layout=ORDER),
    "cholesky": Row(fails="a matrix that is not positive-definite"),
    "cholesky_inverse": Row(fails="a singular matrix"),
    "complex": Row(layout=SMALL_DIMS),
    "convolution": Row(layout=SMALL_DIMS, most=2**16, kernels="ATen/native/Convolution.cpp"),
    "copy_": Row(overlap=PARTLY),
    "cosine_embedding_loss": Row(floats="margin"),
    "cosine_similarity": Row(floats="eps"),
    "cross_entropy": Row(floats="label_smoothing", turns=(0.0,)),
    "cross_entropy_loss": Row(floats="label_smoothing", turns=(0.0,)),
    "cudnn_batch_norm": Row(statistics=UNSAID),
    "diag_embed": Row(layout=SMALL_DIMS, contiguous_too=True),
    "dropout": Row(floats="p", turns=(0.0, 1.0)),
    "dropout1d": Row(floats="p", turns=(0.0, 1.0)),
    "dropout2d": Row(floats="p", turns=(0.0, 1.0)),
    "dropout3d": Row(floats="p", turns=(0.0, 1.0)),
    "empty_like": Row(lies=AS_ITS_ARGUMENT),
    "exponential_": Row(floats="lambd"),
    "feature_alpha_dropout": Row(floats="p", turns=(0.0, 1.0)),
    "feature_dropout": Row(floats="p", turns=(0.0, 1.0)),
    "fill": Row(layout=SMALL_DIMS),
    "flip": Row(layout=SMALL_DIMS),
    "floor_divide": Row(elementwise=UNTAGGED),
    "full_like": Row(lies=AS_ITS_ARGUMENT),
    "geometric_": Row(floats="p"),
    "glu": Row(layout=SMALL_DIMS),
    "group_norm": Row(floats="eps"),
    "gru": Row(unrolled=STEP_BY_STEP),
    "hinge_embedding_loss": Row(floats="margin"),
    "histc": Row(fails="bounds that are not finite"),
    "histogram": Row(fails="bounds that are not finite"),
    "huber_loss": Row(layout=SMALL_DIMS, floats="delta"),
    "im2col": Row(layout=ORDER),
    "index": Row(layout=SMALL_DIMS),
    "index_add": Row(layout=SMALL_DIMS),
    "index_add_": Row(overlap=ANYWHERE),
    "index_copy": Row(layout=SMALL_DIMS),
    "index_copy_": Row(overlap=ANYWHERE),
    "index_put": Row(layout=SMALL_DIMS),
    "index_reduce_": Row(overlap=ANYWHERE),
    "instance_norm": Row(floats="momentum eps"),
    "isin": Row(layout=ORDER),
    "layer_norm": Row(floats="eps"),
    "lift": Row(lifts=CONSTANTS),
    "lift_fresh": Row(lifts=CONSTANTS),
    "lift_fresh_copy": Row(lifts=CONSTANTS),
    "linalg_cholesky_ex": Row(fails="a matrix that is not positive-definite, with check_errors"),
    "linalg_eig": Row(fails="numbers that are not finite"),
    "linalg_inv_ex": Row(fails="a singular matrix, with check_errors"),
    "linalg_ldl_factor_ex": Row(fails="a singular matrix, with check_errors"),
    "linalg_ldl_solve": Row(fails="pivots out of range"),
    "linalg_lu_factor_ex": Row(fails="a singular matrix, with check_errors"),
    "linalg_lu_solve": Row(fails="pivots out of range"),
    "log_normal_": Row(floats="mean std"),
    "log_sigmoid_forward": Row(layout=ORDER, lies=IN_LINE),
    "logit": Row(floats="eps"),
    "lstm": Row(unrolled=STEP_BY_STEP),
    "lu_unpack": Row(fails="pivots out of range"),
    "margin_ranking_loss": Row(floats="margin"),
    "masked_scatter": Row(fails="fewer elements than the mask asks for"),
    "masked_select": Row(fails="a mask that is not of bools, which fakes let pass"),
    "max_unpool2d": Row(lies=CHANNELS),
    "miopen_batch_norm": Row(statistics=UNSAID),
    "multi_margin_loss": Row(fails="a class out of range"),
    "multilabel_margin_loss_forward": Row(fails="a class out of range"),
    "multinomial": Row(fails="weights below zero, or infinite"),
    "nan_to_num": Row(floats="nan posinf neginf"),
    "native_batch_norm": Row(layout=ORDER, lies=BATCH, statistics=UNSAID),
    "native_channel_shuffle": Row(layout=ORDER),
    "native_group_norm": Row(layout=SMALL_DIMS),
    "native_layer_norm": Row(layout=SMALL_DIMS),
    "nll_loss2d_forward": Row(lies=IN_LINE, fails="a class out of range"),
    "nll_loss_forward": Row(fails="a class out of range"),
    "normal": Row(lies=IN_LINE, fails="a deviation below zero", floats="mean std"),
    "normal_": Row(floats="mean std"),
    "ones_like": Row(lies=AS_ITS_ARGUMENT),
    "pairwise_distance": Row(floats="eps"),
    "pixel_unshuffle": Row(layout=SMALL_DIMS),
    "poisson": Row(layout=ORDER, fails="a rate below zero"),
    "poisson_nll_loss": Row(floats="eps"),
    "polar": Row(layout=SMALL_DIMS),
    "put_": Row(overlap=ANYWHERE),
    "rand_like": Row(lies=AS_ITS_ARGUMENT),
    "randint_like": Row(lies=AS_ITS_ARGUMENT),
    "randn_like": Row(lies=AS_ITS_ARGUMENT),
    "reflection_pad3d": Row(layout=ORDER),
    "renorm": Row(layout=SMALL_DIMS),
    "repeat_interleave": Row(fails="a count below zero"),
    "replication_pad3d": Row(layout=ORDER),
    "rms_norm": Row(floats="eps"),
    "rnn_relu": Row(unrolled=STEP_BY_STEP),
    "rnn_tanh": Row(unrolled=STEP_BY_STEP),
    "roll": Row(layout=SMALL_DIMS),
    "rot90": Row(layout=SMALL_DIMS),
    "rrelu_with_noise": Row(layout=ORDER),
    "rsub": Row(elementwise=UNTAGGED),
    "scaled_dot_product_attention": Row(floats="dropout_p scale", turns=(0.0,)),
    "scatter_": Row(overlap=ANYWHERE),
    "scatter_add_": Row(overlap=ANYWHERE),
    "scatter_reduce_": Row(overlap=ANYWHERE),
    "searchsorted": Row(fails="a sorter out of range"),
    "smooth_l1_loss": Row(floats="beta", turns=(0.0,)),
    "sort": Row(layout=SMALL_DIMS),
    "split_with_sizes": Row(fails="sizes that data decide and that have another sum"),
    "sum": Row(layout=SMALL_DIMS),
    "tril": Row(layout=SMALL_DIMS),
    "triplet_margin_loss": Row(floats="margin eps"),
    "triu": Row(layout=SMALL_DIMS),
    "uniform_": Row(floats="from to"),
    "upsample_bicubic2d": Row(layout=SMALL_DIMS),
    "upsample_bilinear2d": Row(layout=SMALL_DIMS),
    "upsample_nearest2d": Row(layout=SMALL_DIMS),
    "upsample_trilinear3d": Row(layout=SMALL_DIMS),
    "var": Row(layout=SMALL_DIMS),
    "var_mean": Row(layout=SMALL_DIMS),
    "view": Row(layout=SMALL_DIMS),
    "zeros_like": Row(lies=AS_ITS_ARGUMENT),
}
