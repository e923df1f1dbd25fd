"""Branches, loops, match, unpacking, del."""

from __future__ import annotations

from tests.fuzz.grammar import REFUSED, Writer, expression, statement

_KINDS = (
    "int",
    "float",
    "bool",
    "str",
    "list",
    "tuple",
    "dict",
    "set",
    "tensor",
    "tensor",
    "tensor",
    "scalar",
    "tensors",
    "bytes",
)


@statement("assignment", 4)
def _(w: Writer) -> None:
    kind = w.pick(*_KINDS)
    w.assign(kind, w.expr(kind))


@statement("reassignment", 2)
def _(w: Writer) -> str | None:
    kind = w.pick("int", "int", "tensor", "list", "str", "bool")
    name = w.variable(kind, assignable=True)
    if name is None:
        return REFUSED
    w.line(f"{name} = {w.expr(kind)}")
    return None


@statement("augmented assignment", 2)
def _(w: Writer) -> str | None:
    kind = w.pick("int", "tensor", "list", "str", "float")
    name = w.variable(kind, assignable=True)
    if name is None:
        return REFUSED
    if kind == "int":
        w.line(f"{name} {w.pick('+=', '-=')} {w.expr('int')}")
    elif kind == "tensor":
        w.line(f"{name} {w.pick('+=', '-=', '*=')} {w.expr(w.pick('int', 'float', 'tensor'))}")
    elif kind == "list":
        w.line(f"{name} += {w.expr(w.pick('list', 'tuple'))}[:3]")
    elif kind == "str":
        w.line(f"{name} += {w.expr('str')}[:9]")
    else:
        w.line(f"{name} *= 0.5")
    return None


@statement("if / elif / else", 2)
def _(w: Writer) -> str | None:
    if w.flat:
        return REFUSED
    with w.block(f"if {w.expr('bool')}:"):
        w.body()
    if w.chance(0.3):
        with w.block(f"elif {w.expr('bool')}:"):
            w.body()
    if w.chance(0.5):
        with w.block("else:"):
            w.body()
    return None


@statement("truth of containers", 0.5)
def _(w: Writer) -> str | None:
    if w.flat:
        return REFUSED
    with w.block(f"if {w.expr(w.pick('list', 'dict', 'str', 'int', 'set'))}:"):
        w.body(1)
    return None


@statement("for over range", 1.5)
def _(w: Writer) -> str | None:
    if w.flat:
        return REFUSED
    i = w.fresh("i")
    with w.block(f"for {i} in range({w.pick('2', '3', 'k % 3 + 1', '1, 6, 2', '3, 0, -1')}):", int=i):
        w.body()
    return None


@statement("for over a container", 1.5)
def _(w: Writer) -> str | None:
    if w.flat:
        return REFUSED
    i = w.fresh("i")
    if w.chance(0.3):
        with w.block(f"for {i} in {w.expr('tensors')}[:3]:", tensor=i):
            w.body()
        return None
    kind = w.pick("list", "tuple", "set")
    text = {"list": f"{w.expr('list')}[:3]", "tuple": f"{w.expr('tuple')}[:4]", "set": f"sorted({w.expr('set')})[:3]"}[kind]
    with w.block(f"for {i} in {text}:", int=i):
        w.body()
    return None


@statement("for / break / continue / else")
def _(w: Writer) -> str | None:
    if w.flat:
        return REFUSED
    i = w.fresh("i")
    with w.block(f"for {i} in itertools.islice({w.expr('list')}, 4):", int=i):
        with w.block(f"if {w.expr('bool')}:"):
            w.mark()
            w.line(w.pick("break", "continue"))
        w.body(1)
    with w.block("else:"):
        w.body(1)
    return None


@statement("while")
def _(w: Writer) -> str | None:
    if w.flat:
        return REFUSED
    count = w.fresh("c")
    w.line(f"{count} = {w.number(0, 2)}")
    with w.block(f"while {count} < {w.number(2, 4)}:"):
        w.line(f"{count} += 1")
        w.bind("int", count, assignable=False)
        if w.chance(0.4):
            with w.block(f"if {w.expr('bool')}:"):
                w.line(w.pick("break", "continue"))
        w.body()
    if w.chance(0.4):
        with w.block("else:"):
            w.body(1)
    return None


@statement("while True", 0.6)
def _(w: Writer) -> str | None:
    if w.flat:
        return REFUSED
    count = w.fresh("c")
    w.line(f"{count} = 0")
    with w.block("while True:"):
        with w.block(f"if (({count} := {count} + 1) > 2) or {w.expr('bool')}:"):
            w.mark()
            w.line("break")
        w.body(1)
    w.bind("int", count)
    return None


@statement("loop over a live container", 0.6)
def _(w: Writer) -> str | None:
    if w.flat:
        return REFUSED
    i, items = w.fresh("i"), w.assign("list", f"list({w.expr('list')}[:4])")
    with w.block(f"for {i} in {items}:", int=i):
        w.mark()
        with w.block(f"if len({items}) < 6:"):
            w.line(w.pick(f"{items}.append({i} + 1)", f"{items}.insert(0, {i})"))
        with w.block(f"if len({items}) > 20:"):  # the body may lengthen the list too, under another name
            w.line("break")
        w.body(1)
    return None


@statement("return", 0.3)
def _(w: Writer) -> str | None:
    if w.in_function or w.flat:
        return REFUSED
    with w.block(f"if {w.expr('bool')} and {w.expr('bool')} and {w.expr('bool')}:"):
        w.mark()
        w.line(f"return {w.expr(w.pick('int', 'tensor', 'list'))}")
    return None


@statement("match", 1.5)
def _(w: Writer) -> str | None:
    if w.flat:
        return REFUSED
    a, b, rest = w.fresh("a"), w.fresh("b"), w.fresh("r")
    subject = w.pick("int", "list", "tuple", "dict", "str")
    with w.block(f"match {w.expr(subject)}:"):
        if subject == "int":
            with w.block(f"case {w.number(0, 3)} | {w.number(4, 9)}:"):
                w.body(1)
            with w.block(f"case int({a}) if {a} > {w.expr('int')}:", int=a):
                w.body(1)
        elif subject in ("list", "tuple"):
            with w.block(f"case [{a}]:", int=a):
                w.body(1)
            with w.block(f"case [{a}, {w.pick('_', b)}, *{rest}]{w.pick('', f' if {a} > 2')}:", int=a, list=rest):
                w.body(1)
        elif subject == "dict":
            with w.block(f"case {{'a': {a}, **{rest}}}:", int=a, dict=rest):
                w.body(1)
            with w.block(f"case {{'b': int({b})}}:", int=b):
                w.body(1)
        else:
            with w.block(f"case {w.pick(repr('abc'), repr(''))} as {a}:", str=a):
                w.body(1)
            with w.block(f"case str({b}):", str=b):
                w.body(1)
        with w.block("case _:"):
            w.body(1)
    return None


@statement("unpacking", 1.5)
def _(w: Writer) -> None:
    a, b, c = w.fresh("u"), w.fresh("u"), w.fresh("u")
    form = w.number(0, 5)
    if form == 0:
        w.line(f"{a}, {b} = {w.expr('int')}, {w.expr('int')}")
        kinds = {"int": (a, b)}
    elif form == 1:
        w.line(f"{a}, *{c} = [{w.expr('int')}, *{w.expr(w.pick('list', 'tuple'))}]")
        kinds = {"int": (a,), "list": (c,)}
    elif form == 2:
        w.line(f"*{c}, {b} = (*{w.expr('list')}, {w.expr('int')})")
        kinds = {"int": (b,), "list": (c,)}
    elif form == 3:
        w.line(f"{a}, ({b}, {c}) = {w.expr('int')}, ({w.expr('tensor')}, {w.expr('int')})")
        kinds = {"int": (a, c), "tensor": (b,)}
    elif form == 4:
        w.line(f"{a}, {b} = {w.expr('tensor')}, {w.expr('tensor')}")
        w.line(f"{a}, {b} = {b}, {a}")
        kinds = {"tensor": (a, b)}
    else:
        w.line(f"{a} = {c} = {w.expr('list')}")
        kinds = {"list": (a, c)}
    for kind, names in kinds.items():
        for name in names:
            w.bind(kind, name)


@statement("del", 0.6)
def _(w: Writer) -> str | None:
    if w.in_loop or w.depth:
        return REFUSED
    kind = w.pick("int", "tensor", "list", "str")
    name = w.assign(kind, w.expr(kind))
    w.mark()
    w.line(f"LOG.append({name})")
    w.line(f"del {name}")
    w.unbind(name)
    if w.chance(0.2):
        with w.block("try:"):
            w.line(f"LOG.append({name})")
        with w.block("except UnboundLocalError as gone:"):
            w.line("LOG.append(str(gone))")
    return None


@statement("assert", 0.5)
def _(w: Writer) -> None:
    w.line(f"assert {w.expr('bool')} or True, {w.expr('str')}")


@statement("import inside", 0.3)
def _(w: Writer) -> None:
    w.line(w.pick("import math as m_", "from operator import add as m_", "import collections.abc as m_"))
    w.line("LOG.append(m_.__name__)")


@expression("int", "sum of a comprehension")
def _(w: Writer) -> str:
    i = w.fresh("i")
    return f"sum([{i} * {w.pick('2', i)} for {i} in {w.expr('list')} if {i} != {w.expr('int')}]) % 71"


@expression("list", "list comprehension", 1.5)
def _(w: Writer) -> str:
    i, j = w.fresh("i"), w.fresh("j")
    return w.pick(
        f"[{i} + {w.expr('int')} for {i} in {w.expr('list')}]",
        f"[{i} for {i} in range({w.number(1, 5)}) if {i} % 2]",
        f"[{i} * {j} for {i} in range(3) for {j} in {w.expr('tuple')}[:2]]",
        f"[{i} if {i} > 1 else {j} for {i}, {j} in zip({w.expr('list')}, range(9))]",
        f"[sum({j} for {j} in range({i})) for {i} in range(4)]",
    )


@expression("dict", "dict comprehension")
def _(w: Writer) -> str:
    i = w.fresh("i")
    return w.pick(
        f"{{str({i}): {i} + {w.expr('int')} for {i} in {w.expr('list')}}}",
        f"{{{i}: len({i}) for {i} in {w.expr('str')}.split()}}",
    )


@expression("set", "set comprehension", 0.7)
def _(w: Writer) -> str:
    i = w.fresh("i")
    return f"{{{i} % 5 for {i} in {w.expr('list')}}}"


@expression("tensors", "comprehension of tensors")
def _(w: Writer) -> str:
    i = w.fresh("i")
    return w.pick(f"[{w.expr('tensor')} * {i} for {i} in range(2)]", f"[{i} + 1 for {i} in {w.expr('tensors')}]")
