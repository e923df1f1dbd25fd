"""weakref, partialmethod, metaclasses, complex numbers, inspect, warnings, logging, re, string."""

from __future__ import annotations

from tests.fuzz.grammar import REFUSED, Writer, expression, statement


@statement("weakref", 0.4)
def _(w: Writer) -> None:
    reference = w.fresh("ref")
    w.line(f"{reference} = weakref.ref({w.pick('PAIR', 'NET', 'Pair', 'STATE')})")
    w.mark()
    w.line(f"LOG.append({reference}() is {w.pick('PAIR', 'NET', 'None')})")


@statement("partialmethod", 0.4)
def _(w: Writer) -> str | None:
    if not w.may_define:
        return REFUSED
    cls = w.fresh("Bound")
    with w.module_level(), w.function(f"class {cls}:"):
        with w.function("def scaled(self, v, by, plus=0):", int="v"):
            w.mark()
            w.line(f"return v * by + plus + {w.expr('int')} % 7")
        w.line(f"doubled = functools.partialmethod(scaled, by=2, plus={w.number(0, 9)})")
    w.assign("int", f"{cls}().doubled({w.expr('int')})")
    return None


@statement("metaclass", 0.4)
def _(w: Writer) -> str | None:
    if not w.may_define:
        return REFUSED
    meta, cls = w.fresh("Meta"), w.fresh("OfMeta")
    with w.module_level():
        with w.function(f"class {meta}(type):"):
            with w.function("def __getitem__(cls, v):", int="v"):
                w.mark()
                w.line(f"return v + cls.start + {w.number(0, 9)}")
            with w.function("def __len__(cls):"):
                w.line("return cls.start")
        with w.function(f"class {cls}(metaclass={meta}):"):
            w.line(f"start = {w.number(1, 5)}")
            with w.function("def __bool__(self):"):
                w.line(f"return self.start > {w.number(0, 6)}")
    w.assign("int", w.pick(f"{cls}[{w.expr('int')}]", f"len({cls})", f"(3 if {cls}() else 4)"))
    w.line(f"LOG.append((type({cls}).__name__, not {cls}()))")
    return None


@statement("complex numbers", 0.4)
def _(w: Writer) -> None:
    value = w.fresh("z")
    w.line(f"{value} = complex({w.expr('int')} % 9, {w.expr('int')} % 7) {w.pick('*', '+', '-')} 2j")
    w.line(f"LOG.append(({value}.real, {value}.conjugate(), abs({value}) > 3, {value} == 1))")


@expression("int", "inspect.signature", 0.3)
def _(w: Writer) -> str:
    return f"len(inspect.signature({w.pick('Pair', 'touch', 'managed')}).parameters)"


@statement("warnings and logging", 0.4)
def _(w: Writer) -> None:
    w.line(w.pick(f"warnings.warn(str({w.expr('int')}))", f"logging.getLogger('fuzz').info('%s', {w.expr('int')})"))


@expression("str", "re", 0.5)
def _(w: Writer) -> str:
    text = w.expr("str")
    return w.pick(
        f"re.sub('[aeiou]', '-', {text})",
        f"(re.match('([a-z]+) ?', {text}) or ['none'])[0]",
        f"'+'.join(re.findall('[a-z]', {text}))",
        f"'/'.join(re.split(' ', {text}))",
    )


@expression("str", "string", 0.3)
def _(w: Writer) -> str:
    return w.pick("string.ascii_lowercase[:3]", "string.capwords('an example')", f"{w.expr('str')}.strip(string.whitespace)")
