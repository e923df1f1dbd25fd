"""Built-in containers and those of `collections`, with their methods."""

from __future__ import annotations

from tests.fuzz.grammar import REFUSED, Writer, expression, statement


@expression("list", "list expressions", 1.5)
def _(w: Writer) -> str:
    return w.pick(
        f"[{w.expr('int')}, *{w.expr(w.pick('list', 'tuple'))}]",
        f"({w.expr('list')} + {w.expr('list')})[:8]",
        f"{w.expr('list')}[::-1]",
        f"{w.expr('list')}[1:{w.number(2, 4)}]",
        f"(({w.expr('list')})[:3] * 2)",
        f"sorted({w.expr(w.pick('list', 'set', 'tuple'))})",
        f"list({w.expr('tuple')})",
        f"{w.expr('list')}.copy()",
        f"list(dict.fromkeys({w.expr('list')}))",
        f"list({w.expr('dict')}.values())",
        f"list(reversed({w.expr('list')}))",
        f"sorted({w.expr('list')}, key=lambda v: -v, reverse=True)",
    )


@expression("int", "items of containers", 1.5)
def _(w: Writer) -> str:
    return w.pick(
        f"{w.expr('tuple')}[0]",
        f"({w.expr('list')} or [4])[0]",
        f"({w.expr('list')} + [1])[-1]",
        f"{w.expr('dict')}.get('a', {w.expr('int')})",
        f"len({w.expr(w.pick('list', 'tuple', 'dict', 'set'))})",
        f"sum({w.expr(w.pick('list', 'tuple', 'set'))}) % 61",
        f"max({w.expr('list')}, default=0)",
        f"min({w.expr('tuple')})",
        f"{w.expr('list')}.count({w.expr('int')})",
        f"({w.expr('int')}, 3).index(3)",
    )


@expression("tuple", "tuple expressions", 1.5)
def _(w: Writer) -> str:
    return w.pick(
        f"({w.expr('int')}, {w.expr('int')})",
        f"({w.expr('tuple')} + (1,))[:6]",
        f"(*{w.expr('list')}, 0)",
        f"{w.expr('tuple')}[:] ",
        f"tuple({w.expr('list')} + [1])",
        f"divmod({w.expr('int')}, 7)",
        f"(0, *sorted({w.expr('set')}))",
    )


@expression("dict", "dict expressions", 1.5)
def _(w: Writer) -> str:
    return w.pick(
        f"{{'a': {w.expr('int')}, **{w.expr('dict')}}}",
        f"({w.expr('dict')} | {{'z': {w.expr('int')}}})",
        f"dict({w.expr('dict')}, b=3)",
        f"dict(zip('abc', {w.expr('list')}))",
        f"{w.expr('dict')}.copy()",
        f"dict(sorted({w.expr('dict')}.items()))",
        f"dict([('p', {w.expr('int')}), ('q', 2)])",
        f"dict.fromkeys('xy', {w.expr('int')})",
    )


@expression("set", "set expressions")
def _(w: Writer) -> str:
    return w.pick(
        f"({w.expr('set')} {w.pick('|', '&', '-', '^')} {w.expr('set')})",
        f"set({w.expr('list')})",
        f"{{{w.expr('int')}, {w.expr('int')}}}",
        f"{w.expr('set')}.union({w.expr('list')})",
        f"set(range({w.number(1, 4)}))",
        f"{w.expr('set')}.copy()",
    )


@expression("bool", "set tests", 0.5)
def _(w: Writer) -> str:
    return w.pick(
        f"{w.expr('set')}.issubset({w.expr('set')})",
        f"{w.expr('set')}.isdisjoint({w.expr('list')})",
        f"({w.expr('set')} >= {w.expr('set')})",
        f"(frozenset({w.expr('list')}) == {w.expr('set')})",
    )


@statement("list methods", 2)
def _(w: Writer) -> str | None:
    items = w.variable("list")
    if items is None:
        return REFUSED
    w.line(
        w.pick(
            f"{items}.append({w.expr('int')})",
            f"{items}.extend({w.expr(w.pick('list', 'tuple'))}[:3])",
            f"{items}.insert({w.number(-2, 3)}, {w.expr('int')})",
            f"{items}.reverse()",
            f"{items}.sort()",
            f"{items}.sort(key=lambda v: (v % 3, v), reverse={w.expr('bool')})",
            f"{items}[:] = {w.expr('list')}",
            f"{items}[1:2] = [{w.expr('int')}, {w.expr('int')}]",
            f"del {items}[:1]",
            f"{items}.clear()",
            f"LOG.append({items}.pop() if {items} else None)",
            f"{items}[::2] = [0 for _ in {items}[::2]]",
            f"{items}.remove({items}[0]) if {items} else None",
        )
    )
    return None


@statement("list errors", 0.5)
def _(w: Writer) -> str | None:
    if w.flat:
        return REFUSED
    items = w.expr("list")
    with w.block("try:"):
        w.mark()
        w.line(
            w.pick(
                f"LOG.append({items}[{w.expr('int')}])",
                f"{items}.remove({w.expr('int')})",
                f"LOG.append({items}.index({w.expr('int')}))",
                f"LOG.append({w.expr('dict')}[{w.expr('str')}])",
                f"LOG.append({w.expr('tuple')}[5])",
                f"{w.expr('set')}.remove({w.expr('int')})",
                "LOG.append([].pop())",
                "LOG.append(min([]))",
                f"LOG.append(int({w.expr('str')}))",
                f"LOG.append({w.expr('list')} + {w.expr('tuple')})",
                f"LOG.append({w.expr('int')} // ({w.expr('int')} % 2))",
                "LOG.append({[]: 1})",
                f"a, b = {items}",
            )
        )
    with w.block("except (IndexError, ValueError, KeyError, TypeError, ZeroDivisionError) as error:"):
        w.line("LOG.append((type(error).__name__, error.args))")
    return None


@statement("dict methods", 2)
def _(w: Writer) -> str | None:
    table = w.variable("dict")
    if table is None:
        return REFUSED
    w.line(
        w.pick(
            f"{table}['c'] = {w.expr('int')}",
            f"{table}.update(e={w.expr('int')})",
            f"{table}.update({w.expr('dict')})",
            f"{table}.setdefault('f', {w.expr('int')})",
            f"LOG.append({table}.pop('a', None))",
            f"LOG.append({table}.popitem() if {table} else 0)",
            f"{table} |= {w.expr('dict')}" if table in w.scope.own else f"{table}.clear()",
            f"{table}['a'] = {table}.get('a', 0) + 1",
            f"{table}.pop('b', 0); {table}['b'] = {w.expr('int')}",
            f"{table}.clear()",
        )
    )
    return None


@statement("dict order and views", 1.2)
def _(w: Writer) -> str | None:
    table = w.assign("dict", w.expr("dict"))
    view = w.fresh("view")
    w.line(f"{view} = {table}.{w.pick('keys()', 'values()', 'items()')}")
    w.line(f"{table}['late'] = {w.expr('int')}")
    w.mark()
    w.line(
        w.pick(
            f"LOG.append(list({view}))",
            f"LOG.append(list(reversed({view})))",
            f"LOG.append(len({view}))",
            f"LOG.append([*{view}][-1])",
        )
    )
    if not w.flat and w.chance(0.5):
        key, value = w.fresh("key"), w.fresh("v")
        with w.block(f"for {key}, {value} in {w.pick('list', 'sorted', '')}({table}.items()):", str=key, int=value):
            w.mark()
            w.line(f"{table}[{key}] = {value} + {w.expr('int')}")
    return None


@statement("set methods", 1)
def _(w: Writer) -> str | None:
    items = w.variable("set") or w.assign("set", w.expr("set"))
    w.line(
        w.pick(
            f"{items}.add({w.expr('int')})",
            f"{items}.discard({w.expr('int')})",
            f"{items}.update({w.expr('list')})",
            f"{items}.intersection_update({w.expr('set')})",
            f"{items}.symmetric_difference_update({{1, 2}})",
            f"{items}.clear()",
            f"LOG.append(sorted({items}))",
            f"LOG.append(len({items} - {w.expr('set')}))",
        )
    )
    return None


@statement("frozenset keys", 0.4)
def _(w: Writer) -> None:
    w.line(f"TABLE[frozenset({w.expr('list')})] = {w.expr('int')}")
    w.line(f"TABLE[{w.expr('tuple')}] = TABLE.get({w.expr('tuple')}, 0)")


@statement("deque")
def _(w: Writer) -> None:
    name = w.fresh("queue")
    w.line(f"{name} = collections.deque({w.expr('list')}{w.pick('', ', maxlen=4', ', 2')})")
    w.mark()
    for _ in range(w.number(1, 3)):
        w.line(
            w.pick(
                f"{name}.append({w.expr('int')})",
                f"{name}.appendleft({w.expr('int')})",
                f"{name}.rotate({w.number(-2, 2)})",
                f"{name}.extend({w.expr('list')})",
                f"{name}.extendleft({w.expr('tuple')})",
                f"LOG.append({name}.pop() if {name} else 0)",
                f"LOG.append({name}.popleft() if {name} else 0)",
                f"{name}.reverse()",
            )
        )
    w.line(
        w.pick(
            f"LOG.append({name})",
            f"LOG.append(list({name}))",
            f"LOG.append(({name}.maxlen, len({name})))",
            f"KEPT.append({name})",
        )
    )


@statement("defaultdict")
def _(w: Writer) -> None:
    name = w.fresh("table")
    factory = w.pick("list", "int", "lambda: [7]")
    w.line(f"{name} = collections.defaultdict({factory})")
    if factory == "int":
        w.line(f"{name}[{w.expr('int')}] += {w.expr('int')}")
    else:
        w.line(f"{name}[{w.expr('str')}].append({w.expr(w.pick('int', 'tensor'))})")
        w.mark()
        w.line(f"{name}['k'].extend({w.expr('list')})")
    w.line(
        w.pick(
            f"LOG.append({name})",
            f"LOG.append((len({name}), 'k' in {name}, {name}.get('none')))",
            f"LOG.append(list({name}.items()))",
        )
    )


@statement("Counter")
def _(w: Writer) -> None:
    name = w.fresh("counter")
    w.line(f"{name} = collections.Counter({w.expr(w.pick('list', 'str', 'dict'))})")
    w.mark()
    w.line(
        w.pick(
            f"{name}.update({w.expr('list')})",
            f"{name}[{w.expr('int')}] += 2",
            f"{name}.subtract([1, 2])",
            f"{name} = {name} + collections.Counter([1, 1])",
        )
    )
    w.line(
        w.pick(
            f"LOG.append({name})",
            f"LOG.append({name}.most_common(2))",
            f"LOG.append({name}[99])",
            f"LOG.append(sum({name}.values()))",
            f"LOG.append(list({name}.elements())[:5])",
        )
    )


@statement("OrderedDict")
def _(w: Writer) -> None:
    name = w.fresh("ordered")
    w.line(f"{name} = collections.OrderedDict({w.expr('dict')}, m={w.expr('int')})")
    w.mark()
    w.line(
        w.pick(
            f"{name}.move_to_end('m', last=False)",
            f"{name}['n'] = {w.expr('int')}",
            f"LOG.append({name}.popitem(last={w.expr('bool')}))",
            f"del {name}['m']",
            f"{name}.update({w.expr('dict')})",
        )
    )
    w.line(w.pick(f"LOG.append({name})", f"LOG.append(list(reversed({name})))", f"LOG.append({name} == dict({name}))"))


@statement("ChainMap", 0.8)
def _(w: Writer) -> None:
    name = w.fresh("chain")
    w.line(f"{name} = collections.ChainMap({w.expr('dict')}, {w.expr('dict')})")
    w.mark()
    w.line(
        w.pick(
            f"{name}['n'] = {w.expr('int')}",
            f"{name} = {name}.new_child({{'a': {w.expr('int')}}})",
            f"{name}.maps[0].pop('a', 0)",
        )
    )
    w.line(
        w.pick(
            f"LOG.append({name})",
            f"LOG.append(sorted({name}))",
            f"LOG.append({name}.get('a'))",
            f"LOG.append(({name}.parents, len({name})))",
        )
    )


@statement("namedtuple", 1)
def _(w: Writer) -> str | None:
    if not w.may_define:
        return REFUSED
    cls, name = w.fresh("Point"), w.fresh("p")
    with w.module_level():
        if w.chance(0.5):
            w.line(f"{cls} = collections.namedtuple('{cls}', ['a', 'b'], defaults=[{w.number(1, 9)}])")
        else:
            with w.function(f"class {cls}(typing.NamedTuple):"):
                w.line("a: int")
                w.line(f"b: int = {w.number(1, 9)}")
                with w.function("def total(self):"):
                    w.mark()
                    w.line(f"return self.a + self.b * {w.expr('int')}")
    w.line(f"{name} = {cls}({w.expr('int')}, b={w.expr('int')})")
    w.mark()
    w.line(
        w.pick(
            f"LOG.append({name})",
            f"LOG.append({name}._replace(a={w.expr('tensor')}))",
            f"LOG.append({name}._asdict())",
            f"STATE.point = {name}",
            f"LOG.append({cls}._make([1, 2]))",
            f"LOG.append({cls}(b=1, a={w.expr('int')}) == {name})",
        )
    )
    w.assign(
        "int",
        w.pick(
            f"{name}.a + {name}[1]", f"{name}.b", f"sum({name})", f"len({name}._fields)", f"getattr({name}, 'total', lambda: 3)()"
        ),
    )
    return None


@statement("subclass of a container", 0.8)
def _(w: Writer) -> str | None:
    if not w.may_define:
        return REFUSED
    cls, name = w.fresh("Special"), w.fresh("s")
    base = w.pick("list", "dict", "tuple", "str", "int")
    with w.module_level():
        with w.function(f"class {cls}({base}):"):
            if base == "dict":
                with w.function("def __missing__(self, key):"):
                    w.mark()
                    w.line(f"return {w.expr('int')}")
            elif base == "list":
                with w.function("def append(self, value):"):
                    w.line("LOG.append('append')")
                    w.mark()
                    w.line("super().append(value)")
            with w.function("def extra(self):"):
                w.mark()
                w.line(f"return len(str(self)) + {w.expr('int')}")
    content = {"list": "[1, 2]", "dict": "{'a': 1}", "tuple": "(1, 2)", "str": "'text'", "int": w.expr("int")}[base]
    w.line(f"{name} = {cls}({content})")
    w.mark()
    w.line(
        {
            "list": f"{name}.append({w.expr('int')})",
            "dict": f"LOG.append({name}['none'])",
            "tuple": f"LOG.append({name}[0])",
            "str": f"LOG.append({name}.upper())",
            "int": f"LOG.append({name} + 1)",
        }[base]
    )
    if w.chance(0.5):
        w.line(f"{name}.note = {w.expr('int')}")
    w.line(f"LOG.append(({name}, {name}.extra()))")
    return None


@statement("nested containers", 1)
def _(w: Writer) -> None:
    name = w.fresh("nest")
    parts = f"'l': [{w.expr('list')}, {w.expr('tensor')}], 'd': {{1: {w.expr('dict')}}}"
    w.line(f"{name} = {{{parts}, 't': ({w.expr('int')}, [{w.expr('int')}])}}")
    w.mark()
    w.line(
        w.pick(
            f"{name}['l'][0].append({w.expr('int')})",
            f"{name}['d'][1]['x'] = {w.expr('tensor')}",
            f"{name}['t'][1][0] += {w.expr('int')}",
            f"{name}['l'][1] += {w.expr('int')}",
            f"{name}['l'][1].add_(1)",
        )
    )
    w.line(w.pick(f"LOG.append({name})", f"LOG.append(copy.deepcopy({name}['t']))", f"LOG.append(copy.copy({name}))"))
