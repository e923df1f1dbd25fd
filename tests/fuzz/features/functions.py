"""Functions: parameters, closures, recursion, lambdas, partials, decorators."""

from __future__ import annotations

from tests.fuzz.grammar import REFUSED, Writer, expression, statement


@statement("function at module level", 1.5)
def _(w: Writer) -> str | None:
    if not w.may_define:
        return REFUSED
    name, with_tensor = w.fresh("f"), w.chance(0.6)
    with w.module_level():
        with w.function(
            f"def {name}(a, b{': int = 2' if w.chance(0.3) else ''}):", int="b", **{"tensor" if with_tensor else "int ": "a"}
        ):
            if not with_tensor:
                w.bind("int", "a")
            w.body(3)
            w.mark()
            w.line(f"return {w.expr('tensor' if with_tensor else 'int')}")
    kind = "tensor" if with_tensor else "int"
    w.assign(kind, f"{name}({w.expr(kind)}, {w.expr('int')})")
    if w.chance(0.4):
        w.mark()
        w.assign(kind, f"{name}({w.expr(kind)}, b={w.expr('int')})")
    return None


@statement("defaults and keyword-only parameters")
def _(w: Writer) -> str | None:
    if not w.may_define:
        return REFUSED
    name = w.fresh("f")
    with w.module_level():
        with w.function(f"def {name}(a, /, b={w.number(1, 5)}, c=[], *, d=None, e={w.number(0, 3)}):", int="a b e", list="c"):
            w.mark()
            w.line("c.append(a)")
            w.body(1)
            w.line(f"return (a * 2 + b + e + (0 if d is None else d) + len(c)) % 101 + {w.expr('int')}")
    w.assign("int", f"{name}({w.expr('int')}, {w.pick('d=', 'e=', 'b=')}{w.expr('int')})")
    w.mark()
    w.assign("int", f"{name}({w.expr('int')}, {w.expr('int')}, {w.expr('list')}, d={w.expr('int')})")
    return None


@statement("*args and **kwargs", 1.2)
def _(w: Writer) -> str | None:
    if w.flat:
        return REFUSED
    name = w.fresh("f")
    with w.function(f"def {name}(first, *args, scale=1, **kwargs):", int="first scale", list="", tuple="args", dict="kwargs"):
        w.mark()
        w.line("LOG.append((args, kwargs))")
        w.body(1)
        w.line(f"return first + sum(args) * scale + sum(kwargs.values()) + {w.expr('int')} % 5")
    w.assign("int", f"{name}({w.expr('int')}, *{w.expr(w.pick('list', 'tuple'))}, **{w.expr('dict')})")
    w.mark()
    w.assign("int", f"{name}(*{w.expr('tuple')}, scale={w.expr('int')}, z=1, **{{**{w.expr('dict')}, 'y': 2}})")
    return None


@statement("wrong arguments", 0.3)
def _(w: Writer) -> str | None:
    if w.flat:
        return REFUSED
    name = w.fresh("f")
    with w.function(f"def {name}(a, *, b):"):
        w.line("return a")
    with w.block("try:"):
        w.line(f"{name}({w.pick('1', '1, 2, b=3', '1, b=2, c=3', 'b=1')})")
    with w.block("except TypeError as error:"):
        w.line("LOG.append(str(error))")
    return None


@statement("closure with nonlocal", 1.5)
def _(w: Writer) -> str | None:
    if w.flat:
        return REFUSED
    cell, name = w.fresh("cell"), w.fresh("f")
    tensor = w.chance(0.4)
    kind = "tensor" if tensor else "int"
    w.line(f"{cell} = {w.expr(kind)}")
    with w.function(f"def {name}(a):", int="a"):
        w.line(f"nonlocal {cell}")
        w.bind(kind, cell)
        w.mark()
        w.line(f"{cell} {'= ' + cell + ' * a' if tensor else '+= a'}")
        w.body(2)
        w.line(f"return {w.expr('int')}")
    w.bind(kind, cell)
    w.assign("int", f"{name}({w.expr('int')}) + {name}({w.expr('int')})")
    w.mark()
    w.line(f"LOG.append({cell})")
    return None


@statement("closures made in a loop", 0.8)
def _(w: Writer) -> str | None:
    if w.flat:
        return REFUSED
    made, i = w.fresh("fs"), w.fresh("i")
    w.line(f"{made} = []")
    with w.block(f"for {i} in range(3):", int=i):
        w.mark()
        w.line(w.pick(f"{made}.append(lambda a, i={i}: a + i)", f"{made}.append(lambda a: a + {i})"))
        if w.chance(0.4):
            w.body(1)
    w.mark()
    w.assign("int", f"sum(g({w.expr('int')}) for g in {made})")
    return None


@statement("counter made by a closure", 0.8)
def _(w: Writer) -> str | None:
    if not w.may_define:
        return REFUSED
    maker = w.fresh("make")
    with w.module_level():
        with w.function(f"def {maker}(start):", int="start"):
            w.line("held = [start]")
            w.bind("list", "held")
            with w.function("def step(by=1):", int="by"):
                w.line("nonlocal start")
                w.mark()
                w.line("start += by")
                w.line(f"held.append({w.expr('int')})")
                w.line("return start")
            with w.function("def look():"):
                w.line("return start, held")
            w.line("return step, look")
    step, look = w.fresh("step"), w.fresh("look")
    w.line(f"{step}, {look} = {maker}({w.expr('int')})")
    w.mark()
    w.assign("int", f"{step}() + {step}({w.expr('int')})")
    w.line(f"LOG.append({look}())")
    if w.chance(0.5):
        w.line(f"KEPT.append(({step}, {look}))")
    return None


@statement("recursion", 0.8)
def _(w: Writer) -> str | None:
    if not w.may_define:
        return REFUSED
    name = w.fresh("rec")
    tensor = w.chance(0.5)
    kind = "tensor" if tensor else "int"
    with w.module_level():
        names = {"tensor": "value"} if tensor else {"int": "value"}
        with w.function(f"def {name}(value, depth, seen=None):", **names):
            w.bind("int", "depth", assignable=False)
            w.mark()
            with w.block("if depth <= 0:"):
                w.line("return value")
            if w.chance(0.5):
                w.body(1)
            w.line(
                f"return {name}({'value * 0.5 + depth' if tensor else '(value * 3 + depth) % 101'}, depth - 1) + {w.expr('int')}"
            )
    w.assign(kind, f"{name}({w.expr(kind)}, {w.pick('2', '3', 'k % 4')})")
    return None


@statement("recursive inner function", 0.5)
def _(w: Writer) -> str | None:
    if w.flat:
        return REFUSED
    name = w.fresh("rec")
    with w.function(f"def {name}(d):"):
        w.bind("int", "d", assignable=False)
        w.mark()
        w.line(f"return 1 if d <= 0 else {name}(d - 1) + d * {w.expr('int')}")
    w.assign("int", f"{name}(3)")
    return None


@statement("decorator", 0.8)
def _(w: Writer) -> str | None:
    if w.flat or not w.may_define:
        return REFUSED
    wrap, name = w.fresh("deco"), w.fresh("f")
    with w.module_level():
        with w.function(f"def {wrap}(fn):"):
            w.line("@functools.wraps(fn)")
            with w.function("def inner(*args, **kwargs):"):
                w.mark()
                w.line("LOG.append(fn.__name__)")
                w.line(f"return fn(*args, **kwargs) + {w.expr('int')}")
            w.line("return inner")
    w.line(f"@{wrap}")
    with w.function(f"def {name}(a, b=1):", int="a b"):
        w.body(1)
        w.line(f"return {w.expr('int')}")
    w.assign("int", f"{name}({w.expr('int')}, b={w.expr('int')})")
    w.line(f"LOG.append({name}.__name__)")
    return None


@statement("partial", 0.8)
def _(w: Writer) -> str | None:
    if w.flat:
        return REFUSED
    name, made = w.fresh("f"), w.fresh("p")
    with w.function(f"def {name}(a, b, c=0):", int="a b c"):
        w.mark()
        w.line(f"return (a - b * c + {w.expr('int')}) % 89")
    w.line(f"{made} = functools.partial({name}, {w.expr('int')}, c={w.expr('int')})")
    w.mark()
    w.assign(
        "int",
        w.pick(f"{made}({w.expr('int')})", f"functools.partial({made}, {w.expr('int')})(c=2)", f"{made}(1) + len({made}.args)"),
    )
    if w.chance(0.3):
        w.line(f"LOG.append({made}.keywords)")
    return None


@statement("lambda", 0.8)
def _(w: Writer) -> str | None:
    name = w.fresh("g")
    tensor = w.chance(0.5)
    kind = "tensor" if tensor else "int"
    w.line(f"{name} = lambda v, s={w.expr('int')}: v {w.pick('+', '*')} s {w.pick('+', '-')} {w.expr('int')}")
    w.mark()
    w.assign(kind, f"{name}({w.expr(kind)})")
    if w.chance(0.4):
        w.assign("list", f"[*map({name}, {w.expr('list')})]")
    return None


@statement("functions in a container", 0.5)
def _(w: Writer) -> None:
    table = w.fresh("table")
    w.line(f"{table} = {{'neg': operator.neg, 'inc': lambda v: v + 1, 'abs': abs}}")
    w.mark()
    w.assign(w.pick("int"), f"{table}[{w.pick(repr('neg'), repr('inc'), repr('abs'))}]({w.expr('int')})")
    w.assign("tensor", f"{table}['inc']({w.expr('tensor')})")


@statement("call back from an opaque function", 0.3)
def _(w: Writer) -> str | None:
    if w.flat:
        return REFUSED
    name = w.fresh("f")
    with w.function(f"def {name}(a, t):", int="a", tensor="t"):
        w.body(2)
        w.line(f"return {w.expr('tensor')}")
    w.assign("tensor", f"calls({name}, {w.expr('int')}, {w.expr('tensor')})")
    w.used["break: call back"] += 1
    return None


@statement("globals of functions", 0.5)
def _(w: Writer) -> None:
    w.line(f"LOG.append(({w.pick('touch', 'shared')}.__name__, touch.__defaults__, shared.__code__.co_argcount))")


@expression("int", "immediately called lambda", 0.4)
def _(w: Writer) -> str:
    return f"(lambda a, *b, c=2: a + len(b) * c)({w.expr('int')}, *{w.expr('list')})"
