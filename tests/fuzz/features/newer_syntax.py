"""What Python 3.12 brings: type parameters and aliases (PEP 695), f-strings that hold any text (PEP 701), comprehensions that run
in the frame around them (PEP 709). What 3.13 brings: defaults of type parameters (PEP 696), a `locals()` that is new at each call
(PEP 667). What 3.14 brings: t-strings (PEP 750), annotations that are evaluated when they are asked for (PEP 649), `except`
without parentheses (PEP 758). Older versions write none of it."""

from __future__ import annotations

import sys

from tests.fuzz.grammar import FEATURES, REFUSED, Writer, expression, statement

if sys.version_info >= (3, 12):

    @statement("generic function", 0.7)
    def _(w: Writer) -> str | None:
        if not w.may_define:
            return REFUSED
        name, parameters = w.fresh("f"), w.pick("T", "T: int", "T: (int, str), *Ts", "**P, T")
        with w.module_level():
            with w.function(f"def {name}[{parameters}](a: T, b: T = {w.number(1, 5)}) -> T:", int="a b"):
                w.mark()
                w.body(2)
                w.line(f"return a + b * 2 + {w.expr('int')}")
        w.assign("int", f"{name}({w.expr('int')})")
        if w.chance(0.5):
            w.line(f"LOG.append([each.__name__ for each in {name}.__type_params__])")
        return None

    @statement("generic function inside", 0.7)
    def _(w: Writer) -> str | None:
        if w.flat:
            return REFUSED
        name = w.fresh("f")
        with w.function(f"def {name}[T](a: T, b: int = {w.expr('int')}) -> list[T]:", int="a b"):
            w.mark()
            w.line(f"return a + b + {w.expr('int')} % 7")
        w.assign("int", f"{name}({w.expr('int')})")
        return None

    @statement("generic class", 0.7)
    def _(w: Writer) -> str | None:
        if w.flat:
            return REFUSED
        name = w.fresh("C")
        start = w.expr("int")
        w.line(f"class {name}[T]:")
        w.line(f"    first = {start}")
        w.line("    def __init__(self, value: T) -> None:")
        w.line("        self.value = value")
        w.line("    def with_[U](self, other: U) -> tuple[T, U]:")
        w.line("        return self.value, other, self.first")
        if w.chance(0.5):
            derived = w.fresh("C")
            w.line(f"class {derived}[T]({name}[T]):")
            w.line("    def with_(self, other):")
            w.line("        return super().with_(other)[::-1]")
            name = derived
        w.mark()
        w.assign("tuple", f"{name}({w.expr('int')}).with_({w.expr('int')})")
        return None

    @statement("type alias", 0.4)
    def _(w: Writer) -> str | None:
        if w.flat:
            return REFUSED
        name = w.fresh("A")
        w.line(f"type {name}{w.pick('', '[T]')} = dict[str, {w.pick('int', 'list[int]', name)}]")
        w.mark()
        w.line(f"LOG.append(({name}.__name__, len({name}.__type_params__)))")
        return None

    @expression("str", "f-string with quotes of its own kind", 0.7)
    def _(w: Writer) -> str:
        number = w.variable("int") or "7"
        return w.pick(
            f'''f"{{", ".join(["a", str({number})])}}"''',
            f"""f'{{f'{{{number}:>{{3}}}}' + 'b'}}'""",
            f'''f"{{{{"k": {number}}}["k"]:03d}}"''',
            f"""f'{{'\\n'.join([str({number}), 'c'])!r}}'""",
        )

    @expression("list", "comprehension whose names are those around it", 0.7)
    def _(w: Writer) -> str:
        name = w.variable("int") or "n"
        return w.pick(
            f"[{name} + 1 for {name} in {w.expr('list')}]",
            f"[{name} for {name} in [{name} * 2 for {name} in {w.expr('list')}] if {name} % 2]",
            f"list({{{name}: (lambda: {name})() for {name} in {w.expr('list')}}}.values())",
        )


if sys.version_info >= (3, 13):

    @statement("type parameters with defaults", 0.7)
    def _(w: Writer) -> str | None:
        if w.flat:
            return REFUSED
        name, default = w.fresh("f"), w.pick("int", "list[int]", "(LOG.append('evaluated'), str)[1]")
        with w.function(
            f"def {name}[S, T = {default}{w.pick('', ', **P = [T]')}](a: S, b: T = {w.expr('int')}) -> T:", int="a b"
        ):
            w.mark()
            w.line(f"return a * 2 + b + {w.expr('int')} % 7")
        w.assign("int", f"{name}({w.expr('int')})")
        if w.chance(0.5):
            w.line(f"LOG.append({name}.__type_params__[1].{w.pick('__default__', 'has_default()', '__name__')})")
        return None

    @statement("generic class with defaults", 0.7)
    def _(w: Writer) -> str | None:
        if w.flat:
            return REFUSED
        name, derived = w.fresh("C"), w.fresh("C")
        w.line(f"class {name}[T, S = {w.pick('int', 'list[T]', 'dict[str, T]')}]:")
        w.line("    def both(self, value: T, other: S) -> tuple[T, S]:")
        w.line(f"        return value, other, {w.expr('int')}")
        w.mark()
        w.line(f"class {derived}({name}[{w.pick('int', 'int, str', 'list[int]')}]): ...")
        w.assign("tuple", f"{derived}().both({w.expr('int')}, {w.expr('int')})")
        if w.chance(0.4):
            w.line(f"LOG.append({name}[int] == {name}[{w.pick('int', 'str', 'int, int')}])")
        return None

    @expression("dict", "locals() twice", 0.4)
    def _(w: Writer) -> str:
        return w.pick(
            "(lambda a, b: [locals(), b := 3, locals()][0])(1, 2)",
            "(lambda a: [locals(), (table := locals()).update(a=9), {**table, 'b': a}][2])(4)",
        )


if sys.version_info >= (3, 14):

    @statement("t-string", 0.7)
    def _(w: Writer) -> str | None:
        if w.flat:
            return REFUSED
        name = w.fresh("template")
        first, second = (f"({w.expr(kind)})" for kind in ("int", w.pick("str", "list", "bool")))
        parts = (f"{{{first}{w.pick('', '=', '!r', ':>3', '!s:{3}')}}}", f"{{{second}{w.pick('', '!r', '!a')}}}")
        text = w.pick("", "text ") + parts[0] + w.pick("", " and {{it}} ") + parts[1]
        w.line(f'{name} = t"{text}"' + w.pick("", " + t'{1}'"))
        w.mark()
        told = "part if isinstance(part, str) else (part.value, part.expression, part.conversion, part.format_spec)"
        w.line(f"LOG.append({w.pick(f'({name}.strings, {name}.values)', f'[{told} for part in {name}]')})")
        return None

    _ANNOTATIONS = ("int", "list[int]", "missing", "(LOG.append('asked'), int)[1]", "dict[str, n]", "'later'", "type(n)")

    @statement("annotations of a function", 0.7)
    def _(w: Writer) -> str | None:
        if w.flat:
            return REFUSED
        name, first, last = w.fresh("f"), w.pick(*_ANNOTATIONS), w.pick(*_ANNOTATIONS)
        with w.function(f"def {name}(a: {first}, b: int = {w.expr('int')}) -> {last}:", int="a b"):
            w.mark()
            w.line(f"return a + b * 2 + {w.expr('int')} % 7")
        w.assign("int", f"{name}({w.expr('int')})")
        _asked_for(w, name)
        return None

    @statement("annotations of a class", 0.7)
    def _(w: Writer) -> str | None:
        if w.flat:
            return REFUSED
        name = w.fresh("C")
        w.line(f"class {name}:")
        w.line(f"    kind = {w.pick('int', 'float')}")
        w.line(f"    first: {w.pick('kind', *_ANNOTATIONS)}")
        w.line(f"    second: {w.pick('kind', *_ANNOTATIONS)} = {w.expr('int')}")
        if w.chance(0.3):
            w.line(f"    if {w.expr('bool')}:")
            w.line(f"        third: {w.pick('kind', *_ANNOTATIONS)}")
        w.mark()
        _asked_for(w, name)
        w.assign("int", f"{name}.second")
        return None

    def _asked_for(w: Writer, name: str) -> None:
        """Often a name is missing."""
        with w.block("try:"):
            read = f"{name}.__annotations__"
            w.line(
                f"LOG.append({w.pick(f'str({read})', f'{name}.__annotate__(1) == {read}', f'{read} is {read}', f'len({read})')})"
            )
            w.mark()
            w.line(f"LOG.append(sorted({name}.__annotations__))")
        with w.block("except NameError as error:"):
            w.line("LOG.append(str(error))")

    @statement("except without parentheses", 0.7)
    def _(w: Writer) -> str | None:
        if w.flat:
            return REFUSED
        star, error = w.pick("", "", "*"), w.pick("KeyError('k')", "ValueError(2)", "Custom(1, 2)")
        with w.block("try:"):
            w.mark()
            with w.block(f"if {w.expr('bool')}:"):
                w.line(f"raise {error}")
            w.body(1)
        with w.block(f"except{star} ValueError, KeyError:"):
            w.body(1)
        with w.block(f"except{star} Custom as error:"):
            w.line(f"LOG.append({w.pick('error.exceptions[0].args', 'len(error.exceptions)') if star else 'error.args'})")
        return None


#: The features of this file.
NAMES = frozenset(name for name, feature in FEATURES.items() if feature.write.__module__ == __name__)
