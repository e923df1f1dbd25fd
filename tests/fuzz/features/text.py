"""Strings and bytes."""

from __future__ import annotations

from tests.fuzz.grammar import Writer, expression


@expression("str", "f-string", 2)
def _(w: Writer) -> str:
    number = w.variable("int") or "7"
    text = w.variable("str") or "G"
    return w.pick(
        f"f'{{{number}}}'",
        f"f'<{{{number}:>4}}|{{{text}!r}}>'",
        f"f'{{{number}:03d}}-{{{text}}}'",
        f"f'{{{number}=}}'",
        f"f'{{{text}:*^{{abs({number}) % 9}}}}'",
        f"f'{{{number} + 1}}{{{number} * 0.5:.2f}}'",
    )


@expression("str", "string methods", 2)
def _(w: Writer) -> str:
    s = w.expr("str")
    return f"{s}" + w.pick(
        ".upper()",
        ".title()",
        ".swapcase()",
        ".strip('x ')",
        ".replace('a', 'bb')",
        ".center(9, '*')",
        ".zfill(6)",
        ".partition('b')[2]",
        ".rpartition(' ')[0]",
        ".removeprefix('a')",
        ".removesuffix('c')",
        ".ljust(5)",
        ".casefold()",
        ".expandtabs()",
        ".lstrip('a')",
        ".translate({97: 'A'})",
        ".capitalize()",
        ".encode().decode()",
    )


@expression("str", "string operators")
def _(w: Writer) -> str:
    s = w.expr("str")
    return w.pick(
        f"({s} + {w.expr('str')})[:40]",
        f"({s})[::-1]",
        f"({s})[1:3]",
        f"(({s})[:5] * 2)",
        f"('%s:%03d' % ({s}, {w.expr('int')}))",
        f"'{{}}/{{:>4}}'.format({s}, {w.expr('int')})",
    )


@expression("str", "str() and repr()")
def _(w: Writer) -> str:
    kind = w.pick("int", "bool", "list", "tuple", "dict", "float")
    return f"{w.pick('str', 'repr', 'ascii')}({w.expr(kind)})[:60]"


@expression("str", "join and split")
def _(w: Writer) -> str:
    return w.pick(
        f"'-'.join(str(i) for i in {w.expr('list')})",
        f"','.join(sorted({w.expr('dict')}))",
        f"'|'.join({w.expr('str')}.split())",
        f"''.join(map(str, {w.expr('tuple')}))",
    )


@expression("int", "numbers of strings", 0.7)
def _(w: Writer) -> str:
    s = w.expr("str")
    return w.pick(
        f"len({s})",
        f"({s}).count('a')",
        f"({s}).find('b')",
        f"int(({s}).isalpha())",
        f"len(({s}).split('x'))",
        f"len({w.expr('bytes')})",
        f"sum({w.expr('bytes')}) % 51",
    )


@expression("bool", "tests of strings", 0.7)
def _(w: Writer) -> str:
    s = w.expr("str")
    return w.pick(
        f"({s}).startswith(('a', 'T'))",
        f"({s}).endswith('c')",
        f"({s}).isdigit()",
        f"({s} < {w.expr('str')})",
        f"({s}).istitle()",
        f"bool({s})",
    )


@expression("bytes", "bytes methods")
def _(w: Writer) -> str:
    b = w.expr("bytes")
    return w.pick(
        f"({b} + b'!')[:30]",
        f"({b}).upper()",
        f"({b})[1:]",
        f"{w.expr('str')}.encode()",
        f"bytes({w.expr('list')}[:0] + [1, 2])",
        f"({b}).replace(b'a', b'zz')",
        f"bytes(bytearray({b}))",
    )


@expression("str", "bytes to text", 0.5)
def _(w: Writer) -> str:
    return w.pick(f"({w.expr('bytes')}).hex()", f"repr({w.expr('bytes')})")
