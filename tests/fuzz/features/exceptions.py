"""Exceptions and with blocks."""

from __future__ import annotations

from tests.fuzz.grammar import REFUSED, Writer, statement

_ERRORS = ("ValueError", "KeyError", "TypeError", "Custom", "LookupError", "RuntimeError", "StopIteration", "ZeroDivisionError")


@statement("try / except", 1.5)
def _(w: Writer) -> str | None:
    if w.flat:
        return REFUSED
    kind = w.pick(*_ERRORS)
    with w.block("try:"):
        w.body(1)
        with w.block(f"if {w.expr('bool')}:"):
            w.mark()
            w.line(f"raise {kind}({w.expr('str')}, {w.expr('int')})" if w.chance(0.8) else f"raise {kind}")
        w.body(1)
    with w.block(f"except {w.pick(kind, f'({kind}, OSError)', 'Exception')} as error:"):
        w.mark()
        w.line(
            w.pick("LOG.append(error.args)", "LOG.append(repr(error))", "LOG.append(type(error).__name__)", "KEPT.append(error)")
        )
        w.body(1)
    if w.chance(0.3):
        with w.block("else:"):
            w.body(1)
    if w.chance(0.3):
        with w.block("finally:"):
            w.body(1)
    return None


@statement("try / finally", 1)
def _(w: Writer) -> str | None:
    if w.flat:
        return REFUSED
    with w.block("try:"):
        w.body()
    with w.block("finally:"):
        w.body(1)
    return None


@statement("return through finally", 0.6)
def _(w: Writer) -> str | None:
    if w.flat:
        return REFUSED
    name = w.fresh("f")
    with w.function(f"def {name}(a):", int="a"):
        with w.block(f"for i in range({w.number(1, 3)}):", int="i"):
            with w.block("try:"):
                w.body(1)
                with w.block(f"if {w.expr('bool')}:"):
                    w.mark()
                    w.line(f"{w.pick('return i', 'continue', 'break')}")
            with w.block("finally:"):
                w.mark()
                w.line(f"LOG.append(({w.expr('int')}, 'finally'))")
        w.line(f"return {w.expr('int')}")
    w.assign("int", f"({name}({w.expr('int')}) or 0)")
    return None


@statement("raise from", 0.8)
def _(w: Writer) -> str | None:
    if w.flat:
        return REFUSED
    with w.block("try:"):
        with w.block("try:"):
            w.mark()
            w.line(w.pick("raise KeyError('inner')", f"LOG.append({{}}[{w.expr('int')}])", "raise Custom('inner', 1)"))
        with w.block("except (KeyError, Custom) as inner:"):
            w.mark()
            w.line(
                w.pick("raise ValueError('outer') from inner", "raise ValueError('outer')", "raise ValueError('outer') from None")
            )
    with w.block("except ValueError as outer:"):
        w.line(w.pick("KEPT.append(outer)", "LOG.append((outer.__cause__, outer.__context__, outer.__suppress_context__))"))
        w.mark()
    return None


@statement("re-raise", 0.8)
def _(w: Writer) -> str | None:
    if w.flat:
        return REFUSED
    with w.block("try:"):
        with w.block("try:"):
            w.body(1)
            w.line(f"raise Custom({w.expr('int')}, {w.expr('tensor')})")
        with w.block("except Custom as error:"):
            w.mark()
            if w.chance(0.5):
                w.line(f"error.add_note({w.expr('str')})")
            w.line(w.pick("raise", "raise error"))
        if w.chance(0.5):
            with w.block("finally:"):
                w.line("LOG.append('re-raised')")
    with w.block("except Exception as again:"):
        w.line("LOG.append(again.args[0])")
        if w.chance(0.3):
            w.line("KEPT.append(again)")
    return None


@statement("exception group", 0.8)
def _(w: Writer) -> str | None:
    if w.flat:
        return REFUSED
    with w.block("try:"):
        w.mark()
        second = w.pick("TypeError(2)", "KeyError(3)", "ExceptionGroup('inner', [ValueError(5)])")
        w.line(f"raise ExceptionGroup('several', [ValueError({w.expr('int')}), {second}])")
    with w.block("except* ValueError as group:"):
        w.line("LOG.append(len(group.exceptions))")
        w.mark()
    with w.block("except* (TypeError, KeyError) as rest:"):
        w.line("LOG.append([type(e).__name__ for e in rest.exceptions])")
        w.body(1)
    return None


@statement("exception crosses frames", 1)
def _(w: Writer) -> str | None:
    if not w.may_define or w.flat:
        return REFUSED
    inner, outer = w.fresh("f"), w.fresh("f")
    with w.module_level():
        with w.function(f"def {inner}(a):", int="a"):
            w.body(1)
            with w.block(f"if a > {w.number(-5, 3)}:"):
                w.mark()
                w.line(f"raise Custom('deep', a, {w.expr('int')})")
            w.line("return a")
        with w.function(f"def {outer}(a):", int="a"):
            with w.block("try:"):
                w.mark()
                w.line(f"return {inner}(a) + 1")
            with w.block(w.pick("except KeyError:", "finally:")):
                w.line("LOG.append('passing')")
            w.line("return 0")
    with w.block("try:"):
        w.assign("int", f"{outer}({w.expr('int')})")
        w.body(1)
    with w.block("except Custom as error:"):
        w.line(w.pick("LOG.append(error.args)", "LOG.append(str(error))", "KEPT.append(error)"))
    return None


@statement("exception leaves", 0.35)
def _(w: Writer) -> str | None:
    with w.block(f"if {w.expr('bool')} and {w.expr('bool')} and {w.expr('bool')}:"):
        w.line(f"LOG.append({w.expr(w.pick('int', 'tensor'))})")
        w.mark()
        w.line(f"raise Custom({w.expr(w.pick('int', 'str', 'list'))})")
    return None


@statement("with: user class", 1.2)
def _(w: Writer) -> str | None:
    if w.flat:
        return REFUSED
    name = w.fresh("m")
    with w.block(f"with {w.pick('Managed', 'Swallows')}({w.expr('int')}) as {name}:", int=name):
        w.body()
        if w.chance(0.3):
            with w.block(f"if {w.expr('bool')}:"):
                w.line("raise KeyError('in with')")
    w.line("LOG.append('after')")
    return None


@statement("with: several", 0.6)
def _(w: Writer) -> str | None:
    if w.flat:
        return REFUSED
    a, b = w.fresh("m"), w.fresh("m")
    with w.block(f"with Managed({w.expr('int')}) as {a}, managed({w.expr('int')}) as {b}:", int=f"{a} {b}"):
        w.body()
    return None


@statement("with: contextmanager", 1.2)
def _(w: Writer) -> str | None:
    if w.flat:
        return REFUSED
    name = w.fresh("m")
    with w.block(f"with managed({w.expr('int')}) as {name}:", int=name):
        w.body()
    return None


@statement("contextmanager of its own", 0.8)
def _(w: Writer) -> str | None:
    if not w.may_define or w.flat:
        return REFUSED
    name, held = w.fresh("cm"), w.fresh("m")
    with w.module_level():
        w.line("@contextlib.contextmanager")
        with w.function(f"def {name}(a):", int="a"):
            w.body(1)
            with w.block("try:"):
                w.mark()
                w.line(f"yield {w.expr('int')}")
            with w.block("finally:"):
                w.mark()
                w.line(f"LOG.append({w.expr('int')})")
    with w.block(f"with {name}({w.expr('int')}) as {held}:", int=held):
        w.body()
    return None


@statement("ExitStack, nullcontext and suppress", 0.8)
def _(w: Writer) -> str | None:
    if w.flat:
        return REFUSED
    form = w.number(0, 2)
    if form == 0:
        with w.block("with contextlib.ExitStack() as stack:"):
            w.line(f"stack.enter_context(Managed({w.expr('int')}))")
            w.line(f"stack.callback(LOG.append, {w.expr('int')})")
            w.body()
    elif form == 1:
        name = w.fresh("m")
        with w.block(f"with contextlib.nullcontext({w.expr('int')}) as {name}:", int=name):
            w.body()
    else:
        with w.block("with contextlib.suppress(KeyError, IndexError):"):
            w.body(1)
            w.line(w.pick("LOG.append({}['none'])", f"LOG.append({w.expr('list')}[7])", "pass"))
    return None
