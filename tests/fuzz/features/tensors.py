"""Operations on tensors, views, changes in place, sizes as numbers, branches on data."""

from __future__ import annotations

from tests.fuzz.grammar import REFUSED, Writer, expression, statement


@expression("tensor", "tensor arithmetic", 4)
def _(w: Writer) -> str:
    other = w.pick("int", "float", "tensor", "tensor", "scalar")
    return w.pick(
        f"({w.expr('tensor')} {w.pick('+', '-', '*')} {w.expr(other)})",
        f"({w.expr('int')} - {w.expr('tensor')})",
        f"({w.expr('tensor')} / 4)",
        f"(-{w.expr('tensor')})",
    )


@expression("tensor", "tensor functions", 3)
def _(w: Writer) -> str:
    t = w.expr("tensor")
    return w.pick(
        f"torch.relu({t})",
        f"{t}.sin()",
        f"torch.tanh({t})",
        f"{t}.clamp(-1, {w.number(1, 9)})",
        f"torch.abs({t})",
        f"{t}.cumsum(0)",
        f"{t}.sigmoid()",
        f"torch.nn.functional.relu({t})",
        f"{t}.sort(dim=1).values",
        f"{t}.double().float()",
        f"torch.where({t} > 0, {t}, {w.expr('float')})",
        f"{t}.masked_fill({t} > 1, 0.5)",
        f"torch.maximum({t}, {w.expr('tensor')})",
        f"({t} @ W)",
        f"torch.nn.functional.linear({t}, W)",
        f"{t}.softmax(-1)",
        f"torch.add({t}, 1, alpha=2)",
    )


@expression("tensor", "views", 1.5)
def _(w: Writer) -> str:
    t = w.expr("tensor")
    return w.pick(
        f"{t}.view(-1, 3)",
        f"{t}[:]",
        f"{t}.t().t()",
        f"{t}.flip(0)",
        f"{t}.reshape(({t}).shape[0], 3)",
        f"{t}.transpose(0, 1).transpose(1, 0)",
        f"{t}.unsqueeze(1).squeeze(1)",
        f"{t}.expand(-1, 3)",
        f"{t}.narrow(0, 0, len({t}))",
        f"{t}.contiguous()",
        f"{t}.clone()",
        f"{t}[..., [0, 2, 1]]",
        f"{t}.detach()",
        f"{t}[torch.arange(({t}).shape[0])]",
        f"{t}.flatten().view(-1, 3)",
    )


@expression("tensor", "stack and cat")
def _(w: Writer) -> str:
    t = w.expr("tensor")
    return w.pick(
        f"torch.stack([{t}, {t}]).sum(0)",
        f"torch.cat([{t}, {t}])[:({t}).shape[0]]",
        f"sum({w.expr('tensors')})",
        f"torch.cat(torch.chunk({t}, 3, dim=1), dim=1)",
        f"torch.stack({t}.unbind(1), dim=1)",
    )


@expression("tensor", "creation", 0.8)
def _(w: Writer) -> str:
    t = w.expr("tensor")
    return w.pick(
        f"torch.zeros_like({t})",
        f"torch.full_like({t}, {w.expr('float')})",
        f"torch.ones({t}.shape)",
        f"{t}.new_zeros({t}.size())",
        f"torch.zeros(({t}).shape[0], 3) + {w.expr('int')}",
        f"torch.arange(float(({t}).numel())).view(-1, 3)",
        f"torch.tensor([[1.0, 2.0, float({w.expr('int')})]])",
    )


@expression("tensor", "random numbers", 0.4)
def _(w: Writer) -> str:
    t = w.expr("tensor")
    return w.pick(
        f"torch.rand_like({t})", f"torch.nn.functional.dropout({t}, 0.5)", f"torch.randn({t}.shape)", f"({t} + torch.rand(1))"
    )


@expression("tensor", "item of a list of tensors", 0.8)
def _(w: Writer) -> str:
    return w.pick(f"{w.expr('tensors')}[0]", f"{w.expr('tensors')}[-1]", f"({w.expr('tensors')} + {w.expr('tensors')})[1]")


@expression("tensors", "lists of tensors")
def _(w: Writer) -> str:
    return w.pick(
        f"[{w.expr('tensor')}, {w.expr('tensor')}]", f"list(torch.stack([{w.expr('tensor')}] * 2))", f"{w.expr('tensors')}[::-1]"
    )


@expression("scalar", "reductions", 2)
def _(w: Writer) -> str:
    t = w.expr("tensor")
    return w.pick(f"{t}.sum()", f"{t}.mean()", f"torch.sum({t} * 2)", f"({t})[0, 0]", f"{t}.norm()", f"({t} > 0).sum()")


@expression("scalar", "scalar arithmetic")
def _(w: Writer) -> str:
    return f"({w.expr('scalar')} {w.pick('+', '*', '-')} {w.expr(w.pick('int', 'float', 'scalar'))})"


@expression("int", "sizes", 1.5)
def _(w: Writer) -> str:
    t = w.expr("tensor")
    return w.pick(
        f"({t}).shape[0]",
        f"({t}).size(0)",
        f"({t}).numel()",
        f"len({t})",
        f"({t}).dim()",
        f"({t}).shape[-1]",
        f"({t}).shape.numel()",
    )


@expression("bool", "properties of tensors", 0.6)
def _(w: Writer) -> str:
    t = w.expr("tensor")
    return w.pick(
        f"({t}).is_contiguous()",
        f"(({t}).dtype is torch.float32)",
        f"(({t}).shape == (2, 3))",
        f"({t}).is_floating_point()",
        f"({t}).requires_grad",
        f"(({t}).shape[0] > {w.expr('int')})",
        f"({t}.shape == {w.expr('tensor')}.shape)",
    )


@expression("tuple", "shape as a tuple", 0.6)
def _(w: Writer) -> str:
    t = w.expr("tensor")
    return w.pick(f"tuple({t}.shape)", f"(*{t}.size(), 1)", f"({t}.shape[0], {t}.numel())", f"({t}.stride())")


@statement("in-place operation", 2)
def _(w: Writer) -> str | None:
    t = w.variable("tensor")
    if t is None:
        return REFUSED
    w.line(
        w.pick(
            f"{t}.add_({w.expr('int')})",
            f"{t}.mul_({w.expr('float')})",
            f"{t}[0] = {w.expr('float')}",
            f"{t}[:, 1] += {w.expr('int')}",
            f"{t}.clamp_(min=-2)",
            f"{t}.copy_({w.expr('tensor')})",
            f"{t}[-1].mul_(2)",
            f"{t}.relu_()",
            f"{t}.zero_()",
            f"torch.nn.functional.relu({t}, inplace=True)",
            f"{t}[{t} > 1] = 0.25",
            f"{t}.add_({w.expr('tensor')}, alpha=2)",
        )
    )
    return None


@statement("view that is changed", 1.2)
def _(w: Writer) -> str | None:
    t = w.variable("tensor")
    if t is None:
        return REFUSED
    view = w.fresh("view")
    w.line(f"{view} = {t}" + w.pick("[0]", ".view(-1)", "[:, 1:]", ".t()", "[::2]", ".detach()", ".unsqueeze(0)", "[None]"))
    w.mark()
    w.line(w.pick(f"{view}.mul_({w.expr('int')})", f"{view} += {w.expr('float')}", f"{view}[...] = 0.75"))
    if w.chance(0.5):
        w.line(f"LOG.append({view})")
    return None


@statement("tensor branch", 0.15)
def _(w: Writer) -> str | None:
    if w.flat:
        return REFUSED
    with w.block(f"if {w.expr('scalar')} > {w.expr('int')}:"):
        w.body(1)
    if w.chance(0.5):
        with w.block("else:"):
            w.body(1)
    w.used["break: tensor branch"] += 1
    return None


@statement("loop over rows", 0.5)
def _(w: Writer) -> str | None:
    if w.flat:
        return REFUSED
    row, total = w.fresh("row"), w.fresh("total")
    w.line(f"{total} = 0")
    with w.block(f"for {row} in {w.expr('tensor')}:", row=row):
        w.mark()
        w.line(f"{total} = {total} + {row}.sum() * {w.expr('int')}")
    w.line(f"LOG.append({total})")
    return None


@statement("no_grad", 0.6)
def _(w: Writer) -> str | None:
    if w.flat:
        return REFUSED
    with w.block(f"with torch.{w.pick('no_grad()', 'enable_grad()', 'set_grad_enabled(False)')}:"):
        w.body()
    w.line(f"LOG.append(torch.is_grad_enabled() and {w.expr('tensor')}.requires_grad)")
    return None


@statement("graph raises", 0.4)
def _(w: Writer) -> str | None:
    if w.flat:
        return REFUSED
    bad = w.pick(
        "torch.ones(2, 2) @ torch.ones(3, 3)",
        f"{w.expr('tensor')}.view(-1, 5, 7)",
        f"{w.expr('tensor')} + torch.ones(7, 7)",
        f"{w.expr('tensor')}[torch.tensor([99])]",
        "torch.arange(3)[[0, 9]]",
        f"torch.nn.functional.embedding(torch.tensor([{w.expr('int')}]), W)",
    )
    if w.chance(0.7):
        with w.block("try:"):
            w.body(1)
            w.line(f"LOG.append({bad})")
        with w.block(f"except {w.pick('RuntimeError', 'Exception', '(IndexError, RuntimeError)')} as error:"):
            w.line("LOG.append(type(error).__name__)")
            w.mark()
    else:
        with w.block(f"if {w.expr('bool')} and {w.expr('bool')}:"):
            w.line(f"LOG.append({bad})")
    return None


@statement("module call", 0.6)
def _(w: Writer) -> None:
    w.assign(
        "tensor",
        w.pick(f"NET({w.expr('tensor')})", f"NET[0]({w.expr('tensor')})", f"torch.nn.Module.__call__(NET, {w.expr('tensor')})"),
    )
    if w.chance(0.4):
        w.line("LOG.append([(name, part.training) for name, part in NET.named_children()])")


@statement("attribute of a module", 0.4)
def _(w: Writer) -> None:
    w.line(
        w.pick(
            f"NET.calls = getattr(NET, 'calls', 0) + {w.expr('int')}",
            f"NET.last = {w.expr('tensor')}",
            "LOG.append(NET[0].in_features)",
        )
    )
