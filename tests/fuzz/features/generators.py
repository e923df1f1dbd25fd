"""Generators in every form, and lazy iterators: consumed, half-consumed, left behind."""

from __future__ import annotations

from tests.fuzz.grammar import REFUSED, Writer, expression, statement


@statement("generator function", 1.5)
def _(w: Writer) -> str | None:
    if not w.may_define:
        return REFUSED
    name = w.fresh("gen")
    tensor = w.chance(0.4)
    kind = "tensor" if tensor else "int"
    with w.module_level():
        names = {"tensor": "value"} if tensor else {"int": "value"}
        with w.function(f"def {name}(value, times):", **names):
            with w.block("for i in range(times):", int="i"):
                w.mark()
                w.line(f"yield value {w.pick('+', '*')} i")
                w.mark()
                w.body(1)
            w.line(f"return {w.expr('int')}")
    call = f"{name}({w.expr(kind)}, {w.number(2, 4)})"
    if tensor:
        w.assign("tensor", w.pick(f"sum({call})", f"list({call})[-1]", f"functools.reduce(operator.add, {call})"))
    else:
        w.assign("list", w.pick(f"list({call})", f"[*{call}]", f"[v + 1 for v in {call}]", f"sorted({call})"))
    return None


@statement("generator half consumed", 1.2)
def _(w: Writer) -> str | None:
    if w.flat:
        return REFUSED
    name, it = w.fresh("gen"), w.fresh("it")
    with w.function(f"def {name}(a):", int="a"):
        w.line("LOG.append('started')")
        w.mark()
        w.line(f"yield {w.expr('int')}")
        w.body(1)
        w.line(f"yield {w.expr('tensor')}")
        w.line("yield a")
    w.line(f"{it} = {name}({w.expr('int')})")
    w.mark()
    w.line(f"LOG.append(next({it}))")
    if w.chance(0.5):
        w.mark()
        w.line(f"LOG.append(next({it}))")
    w.line(
        w.pick(
            f"KEPT.append({it})",
            f"LOG.append(list({it}))",
            f"{it}.close()",
            f"STATE.iterator = {it}",
            "pass",
            f"LOG.append([len(str(type(v))) for v in {it}])",
        )
    )
    return None


@statement("iterator kept between calls", 0.8)
def _(w: Writer) -> None:
    with w.block("if KEPT and hasattr(KEPT[-1], '__next__'):"):
        w.mark()
        w.line("LOG.append(next(KEPT[-1], 'end'))")


@statement("send and throw", 0.8)
def _(w: Writer) -> str | None:
    if not w.may_define:
        return REFUSED
    name, it = w.fresh("gen"), w.fresh("it")
    with w.module_level():
        with w.function(f"def {name}(total):", int="total"):
            with w.block("try:"):
                with w.block("while total < 90:"):
                    w.line("got = yield total")
                    w.mark()
                    w.line("total += 30 if got is None else abs(got) + 1")
            with w.block("except ValueError as error:"):
                w.mark()
                w.line("yield ('caught', str(error))")
            if w.chance(0.5):
                with w.block("finally:"):
                    w.line("LOG.append('closed')")
    w.line(f"{it} = {name}({w.expr('int')} % 9)")
    w.line(f"LOG.append(next({it}))")
    w.line(f"LOG.append({it}.send({w.expr('int')} % 20))")
    w.mark()
    w.line(
        w.pick(
            f"LOG.append({it}.throw(ValueError('thrown')))",
            f"{it}.close()",
            f"LOG.append(list({it}))",
            f"KEPT.append({it})",
            f"LOG.append({it}.send(3))",
        )
    )
    return None


@statement("yield from", 0.8)
def _(w: Writer) -> str | None:
    if not w.may_define:
        return REFUSED
    inner, outer = w.fresh("gen"), w.fresh("gen")
    with w.module_level():
        with w.function(f"def {inner}(a):", int="a"):
            w.line("yield a")
            w.mark()
            w.line(f"yield a + {w.expr('int')}")
            w.line("return a * 2")
        with w.function(f"def {outer}(a):", int="a"):
            w.line(f"got = yield from {inner}(a)")
            w.mark()
            w.line("yield got")
            w.line(f"yield from {w.expr(w.pick('list', 'tuple'))}")
    w.assign(
        "list",
        w.pick(
            f"list({outer}({w.expr('int')}))",
            f"[*itertools.islice({outer}({w.expr('int')}), 2)]",
            f"sorted({outer}({w.expr('int')}))",
        ),
    )
    return None


@statement("generator with try / finally", 0.8)
def _(w: Writer) -> str | None:
    if w.flat:
        return REFUSED
    name = w.fresh("gen")
    with w.function(f"def {name}():"):
        with w.block("try:"):
            w.line(f"yield {w.expr('int')}")
            w.mark()
            w.line(f"yield {w.expr('int')}")
        with w.block("finally:"):
            w.line("LOG.append('finally')")
    i = w.fresh("i")
    with w.block(f"for {i} in {name}():", int=i):
        w.body(1)
        if w.chance(0.5):
            w.line("break")
    return None


@expression("int", "generator expression")
def _(w: Writer) -> str:
    i = w.fresh("i")
    return w.pick(
        f"sum({i} + {w.expr('int')} for {i} in {w.expr('list')}) % 83",
        f"max(({i} for {i} in {w.expr('tuple')}), default=1)",
        f"next(({i} for {i} in {w.expr('list')} if {i} > 2), -1)",
    )


@statement("generator expression left behind", 0.7)
def _(w: Writer) -> None:
    it = w.fresh("it")
    w.line(f"{it} = (v + {w.expr('int')} for v in {w.expr('list')})")
    w.line(f"LOG.append(next({it}, None))")
    w.mark()
    w.line(w.pick(f"KEPT.append({it})", f"LOG.append(list({it}))", f"LOG.append(7 in {it})"))


@statement("lazy iterators", 1.5)
def _(w: Writer) -> None:
    it = w.fresh("it")
    w.line(
        f"{it} = "
        + w.pick(
            f"zip({w.expr('list')}, {w.expr('tuple')})",
            f"enumerate({w.expr('list')}, {w.number(0, 3)})",
            f"map(lambda a: a * 2, {w.expr('list')})",
            f"filter(None, {w.expr('list')})",
            f"reversed({w.expr('list')})",
            f"iter({w.expr('list')})",
            f"iter({w.expr('dict')}.items())",
            f"map(operator.add, {w.expr('list')}, {w.expr('tuple')})",
            f"filter(lambda a: a % 2, {w.expr('tuple')})",
            f"iter({w.expr('str')})",
            f"zip({w.expr('tensors')}, range(2))",
            "iter(lambda: STATE.items and STATE.items.pop(), 0)",
        )
    )
    w.line(f"LOG.append(next({it}, None))")
    w.mark()
    w.line(
        w.pick(
            f"KEPT.append({it})",
            f"LOG.append(list(itertools.islice({it}, 5)))",
            f"LOG.append(next({it}, 'end'))",
            f"STATE.iterator = {it}",
            "pass",
        )
    )


@statement("iterator shared by two loops", 0.6)
def _(w: Writer) -> str | None:
    if w.flat:
        return REFUSED
    it, i = w.fresh("it"), w.fresh("i")
    w.line(f"{it} = iter({w.expr('list')}[:5])")
    with w.block(f"for {i} in {it}:", int=i):
        w.mark()
        w.line(f"LOG.append(({i}, next({it}, None)))")
        w.body(1)
    return None


@statement("iterator class", 0.8)
def _(w: Writer) -> str | None:
    if not w.may_define:
        return REFUSED
    cls = w.fresh("Iter")
    with w.module_level():
        with w.function(f"class {cls}:"):
            with w.function("def __init__(self, n):"):
                w.line("self.n = n")
            with w.function("def __iter__(self):"):
                w.line("return self")
            with w.function("def __next__(self):"):
                w.mark()
                w.line("self.n -= 1")
                with w.block("if self.n < 0:"):
                    w.line("raise StopIteration")
                w.line(f"return self.n + {w.expr('int')}")
    w.assign(
        "list",
        w.pick(
            f"list({cls}({w.number(1, 3)}))",
            f"[a * 2 for a in {cls}(2)]",
            f"[*{cls}(3)]",
            f"list(zip({cls}(2), 'ab'))[0][:1] and [1]",
        ),
    )
    return None


@statement("unpacking of an iterator", 0.5)
def _(w: Writer) -> None:
    a, b = w.fresh("a"), w.fresh("b")
    w.line(
        f"{a}, *{b} = {w.pick('map(abs, [1, -2])', '(v for v in (3, 4, 5))', 'zip([1], [2])', 'enumerate([5, 6])', 'range(4)')}"
    )
    w.line(f"LOG.append(({a}, {b}))")
