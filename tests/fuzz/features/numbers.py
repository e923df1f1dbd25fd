"""Numbers and truth."""

from __future__ import annotations

from tests.fuzz.grammar import Writer, expression


@expression("int", "int arithmetic", 2)
def _(w: Writer) -> str:
    return f"({w.expr('int')} {w.pick('+', '-', '*')} {w.expr('int')}) % {w.number(11, 97)}"


@expression("int", "int division")
def _(w: Writer) -> str:
    return f"({w.expr('int')} {w.pick('//', '%')} {w.pick('3', '-4', '7')})"


@expression("int", "int bits", 0.5)
def _(w: Writer) -> str:
    return w.pick(
        f"({w.expr('int')} {w.pick('&', '|', '^')} {w.expr('int')})",
        f"(({w.expr('int')}) % 64 << 2)",
        f"({w.expr('int')} >> 1)",
        f"(~{w.expr('int')} % 50)",
    )


@expression("int", "int builtins")
def _(w: Writer) -> str:
    a, b = w.expr("int"), w.expr("int")
    return w.pick(
        f"max({a}, {b})",
        f"min({a}, {b}, 5)",
        f"abs({a})",
        f"divmod({a}, 3)[1]",
        f"pow({a} % 7, 2)",
        f"int({w.expr('bool')})",
        f"int({w.expr('float')})",
        f"round({w.expr('float')})",
        f"({a}).bit_length()",
        f"hash({a}) % 31",
        f"ord({w.expr('str')}[:1] or 'q')",
        f"-({a})",
    )


@expression("int", "conditional expression")
def _(w: Writer) -> str:
    return f"({w.expr('int')} if {w.expr('bool')} else {w.expr('int')})"


@expression("int", "and / or of values", 0.7)
def _(w: Writer) -> str:
    return f"({w.expr('int')} {w.pick('and', 'or')} {w.expr('int')})"


@expression("int", "walrus")
def _(w: Writer) -> str:
    if w.depth == 0 and not w.scope.own:
        return w.plain("int")
    name = w.fresh("w")
    return f"(({name} := {w.expr('int')}) + {name})"


@expression("float", "float arithmetic")
def _(w: Writer) -> str:
    return w.pick(
        f"({w.expr('float')} {w.pick('+', '-', '*')} {w.expr('float')})",
        f"({w.expr('int')} / 4)",
        f"({w.expr('float')} * {w.expr('int')})",
    )


@expression("float", "float functions")
def _(w: Writer) -> str:
    a = w.expr("float")
    return w.pick(
        f"abs({a})",
        f"round({a}, 1)",
        f"float({w.expr('int')})",
        f"min({a}, 8.0)",
        f"({a}).__trunc__() / 2",
        f"float(f'{{{w.expr('int')}}}')",
        f"sum([{a}, 1.0])",
    )


@expression("bool", "comparison", 2)
def _(w: Writer) -> str:
    return f"({w.expr('int')} {w.pick('<', '<=', '>', '>=', '==', '!=')} {w.expr('int')})"


@expression("bool", "chained comparison")
def _(w: Writer) -> str:
    return f"({w.expr('int')} {w.pick('<', '<=', '!=')} {w.expr('int')} {w.pick('<', '<=', '==')} {w.expr('int')})"


@expression("bool", "boolean operators")
def _(w: Writer) -> str:
    return w.pick(
        f"(not {w.expr('bool')})",
        f"({w.expr('bool')} {w.pick('and', 'or')} {w.expr('bool')})",
        f"({w.expr('bool')} {w.pick('^', '&', '|')} {w.expr('bool')})",
        f"bool({w.expr('int')})",
    )


@expression("bool", "membership and identity")
def _(w: Writer) -> str:
    many = w.pick("list", "tuple", "set")
    return w.pick(
        f"({w.expr('int')} in {w.expr(many)})",
        f"({w.expr('int')} not in {w.expr(many)})",
        f"({w.pick(repr('a'), repr('zz'))} in {w.expr('dict')})",
        f"({w.expr('list')} is {w.expr('list')})",
        f"({w.expr('tensor')} is not {w.expr('tensor')})",
        f"('a' in {w.expr('str')})",
    )


@expression("bool", "isinstance and friends")
def _(w: Writer) -> str:
    return w.pick(
        f"isinstance({w.expr('int')}, (bool, int))",
        f"isinstance({w.expr('tensor')}, torch.Tensor)",
        f"issubclass(type({w.expr('list')}), list)",
        f"callable({w.expr('int')})",
        f"hasattr({w.expr('dict')}, 'items')",
        f"(type({w.expr('int')}) is int)",
    )


@expression("bool", "any and all")
def _(w: Writer) -> str:
    item = w.fresh("i")
    return w.pick(
        f"any({item} > {w.expr('int')} for {item} in {w.expr('list')})",
        f"all({w.expr('list')})",
        f"any([{w.expr('bool')}, {w.expr('bool')}])",
    )


@expression("bool", "equality of containers")
def _(w: Writer) -> str:
    kind = w.pick("list", "tuple", "dict", "set")
    return f"({w.expr(kind)} {w.pick('==', '!=')} {w.expr(kind)})"
