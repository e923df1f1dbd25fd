"""itertools, functools, operator, math, copy, random."""

from __future__ import annotations

from tests.fuzz.grammar import Writer, expression, statement


@expression("list", "itertools", 1.5)
def _(w: Writer) -> str:
    a, b = w.expr("list"), w.expr("tuple")
    return w.pick(
        f"list(itertools.chain({a}, {b}))",
        f"list(itertools.islice(itertools.count({w.expr('int')}), 3))",
        f"list(itertools.accumulate({a}))",
        f"[p + q for p, q in itertools.pairwise({a})]",
        f"[sum(p) for p in itertools.product({a}[:2], {b}[:2])]",
        f"list(itertools.takewhile(lambda v: v < 5, {a}))",
        f"list(itertools.dropwhile(lambda v: v > 1, {a}))",
        f"[len(list(g)) for _, g in itertools.groupby(sorted({a}))]",
        f"list(itertools.compress({a}, [1, 0, 1]))",
        f"[sum(c) for c in itertools.combinations({a}[:4], 2)]",
        f"[p or 0 for p, q in itertools.zip_longest({a}, {b})]",
        f"list(itertools.starmap(operator.add, [({w.expr('int')}, 1)]))",
        "list(itertools.islice(itertools.cycle([1, 2]), 3))",
        f"list(itertools.repeat({w.expr('int')}, 2))",
        f"list(itertools.filterfalse(None, {a}))",
        f"list(itertools.chain.from_iterable([{a}, {b}]))",
        f"[len(p) for p in itertools.permutations({b}[:2])]",
    )


@expression("int", "functools.reduce")
def _(w: Writer) -> str:
    return w.pick(
        f"functools.reduce(lambda a, b: (a * 2 + b) % 67, {w.expr('list')}, {w.expr('int')})",
        f"functools.reduce(operator.add, {w.expr('tuple')})",
    )


@expression("int", "operator")
def _(w: Writer) -> str:
    a, b = w.expr("int"), w.expr("int")
    return w.pick(
        f"operator.add({a}, {b})",
        f"operator.sub({a}, {b})",
        f"operator.mod({a}, 5)",
        f"operator.neg({a})",
        f"operator.itemgetter(0)({w.expr('tuple')})",
        "operator.attrgetter('count')(STATE)",
        f"int(operator.lt({a}, {b}))",
        f"operator.methodcaller('count', 1)({w.expr('list')})",
        f"operator.index({a})",
        f"operator.getitem({w.expr('tuple')}, 0)",
        f"operator.xor({a}, {b})",
        f"operator.length_hint({w.expr('list')})",
    )


@expression("tensor", "operator on tensors", 0.5)
def _(w: Writer) -> str:
    return w.pick(
        f"operator.add({w.expr('tensor')}, {w.expr('int')})",
        f"operator.mul({w.expr('tensor')}, {w.expr('tensor')})",
        f"operator.neg({w.expr('tensor')})",
    )


@expression("int", "math")
def _(w: Writer) -> str:
    a = w.expr("int")
    return w.pick(
        f"math.floor({w.expr('float')})",
        f"math.ceil({w.expr('float')})",
        f"math.gcd({a}, 12)",
        f"math.isqrt(abs({a}))",
        f"math.trunc({w.expr('float')})",
        f"math.comb(5, abs({a}) % 5)",
        f"math.prod({w.expr('tuple')}) % 51",
        f"int(math.sqrt(abs({a})))",
        f"math.factorial(abs({a}) % 5)",
        f"math.lcm(3, abs({a}) + 1)",
    )


@expression("float", "math of floats", 0.8)
def _(w: Writer) -> str:
    a = w.expr("float")
    return w.pick(
        f"math.sin({a})",
        f"math.fabs({a})",
        f"math.sqrt(abs({a}))",
        f"math.copysign(1.5, {a})",
        f"math.hypot({a}, 1)",
        f"math.fmod({a}, 2)",
        "math.pi",
        f"math.fsum([{a}, 1])",
    )


@statement("random of Python", 0.4)
def _(w: Writer) -> None:
    w.assign("int", w.pick("random.randint(0, 9)", "random.choice([1, 2, 3])", "int(random.random() * 10)"))


@statement("copies", 0.6)
def _(w: Writer) -> None:
    kind = w.pick("list", "dict", "tuple", "set")
    w.assign(kind, f"copy.{w.pick('copy', 'deepcopy')}({w.expr(kind)})")


@statement("cached functions", 0.5)
def _(w: Writer) -> None:
    w.assign("int", f"cached({w.expr('int')}) + cached({w.expr('int')})")


@statement("results of caches that are read", 0.7)
def _(w: Writer) -> None:
    key = w.pick("1", "2", "'a'", w.expr("int"))
    text = w.pick(
        f"len(cached_list({key}, 2)) + cached_list(3, scale=2)[0]",
        f"len(cached_table({key})) + cached_table('b')['size']",
        "int(cached_tensor(3).sum()) + cached_tensor(4).shape[0]",
        f"noted({w.pick('1', '2', w.expr('int'))})",
        "settings()['count'] + len(settings()['names'])",
    )
    w.assign("int", text)


@statement("results of caches whose identity shows", 0.5)
def _(w: Writer) -> None:
    value = w.expr("int")
    w.line(
        w.pick(
            f"LOG.append(cached_list(1, 2) is cached_list({w.pick('1', '2')}, 2))",
            f"cached_list(7).append({value})",
            f"settings()['count'] += {value}",
            f"settings()['names'].append({value})",
            "LOG.append(cached_table('c'))",
            "cached_tensor(5).add_(1)",
            f"LOG.append(cached_list(7)[-1] + {value})",
        )
    )


@statement("singledispatch and total_ordering", 0.4)
def _(w: Writer) -> None:
    w.line(
        w.pick(
            f"LOG.append(dispatched({w.expr(w.pick('int', 'str', 'list', 'tensor'))}))",
            "LOG.append(sorted([3, 1, 2], key=functools.cmp_to_key(lambda a, b: b - a)))",
        )
    )


@statement("types at run time", 0.5)
def _(w: Writer) -> None:
    kind = w.pick("int", "list", "dict", "str", "tensor", "bool")
    w.line(
        w.pick(
            f"LOG.append(type({w.expr(kind)}).__name__)",
            f"LOG.append(isinstance({w.expr(kind)}, int | str))",
            f"LOG.append(type({w.expr('list')})(({w.expr('int')},)))",
            f"LOG.append(typing.cast(int, {w.expr('int')}))",
        )
    )
