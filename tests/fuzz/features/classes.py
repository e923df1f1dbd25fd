"""Classes: dunders, properties, super, slots, dataclasses, enums, class state."""

from __future__ import annotations

from tests.fuzz.grammar import REFUSED, Writer, statement


@statement("class with methods", 1.2)
def _(w: Writer) -> str | None:
    if not w.may_define:
        return REFUSED
    cls, name = w.fresh("Cls"), w.fresh("o")
    with w.module_level():
        with w.function(f"class {cls}:"):
            w.line(f"made = {w.number(0, 5)}")
            with w.function("def __init__(self, v, t):", int="v", tensor="t"):
                w.mark()
                w.line("self.v, self.t = v, t")
                w.line("self.items = [v]")
                w.line(f"{cls}.made += 1")
            with w.function("def step(self, by):", int="by"):
                w.mark()
                w.line("self.v += by")
                w.body(1)
                w.line(f"self.items.append({w.expr('int')})")
                w.line("return self.v")
            with w.function("def apply(self, x):", tensor="x"):
                w.line(f"self.t = self.t + {w.expr('int')}")
                w.mark()
                w.line("return x * self.v + self.t.sum()")
            w.line("@classmethod")
            with w.function("def build(cls, v):", int="v"):
                w.mark()
                w.line(f"return cls(v + cls.made, {w.expr('tensor')})")
            w.line("@staticmethod")
            with w.function("def twice(v):", int="v"):
                w.line("return v * 2")
            with w.function("def __repr__(self):"):
                w.line(f"return f'{cls}({{self.v}})'")
    w.line(w.pick(f"{name} = {cls}({w.expr('int')}, {w.expr('tensor')})", f"{name} = {cls}.build(2)"))
    w.mark()
    w.assign(
        "int",
        w.pick(f"{name}.step({w.expr('int')})", f"{cls}.twice({w.expr('int')})", f"{name}.twice(1) + {name}.made", f"{name}.v"),
    )
    w.assign("tensor", w.pick(f"{name}.apply({w.expr('tensor')})", f"{name}.t", f"{cls}.apply({name}, {w.expr('tensor')})"))
    w.line(
        w.pick(
            f"LOG.append({name})",
            f"STATE.held = {name}",
            f"LOG.append({name}.items)",
            f"LOG.append(repr({name}))",
            f"KEPT.append({name}.step)",
            f"{name}.v = {w.expr('int')}",
        )
    )
    return None


@statement("properties", 1)
def _(w: Writer) -> str | None:
    if not w.may_define:
        return REFUSED
    cls, name = w.fresh("Prop"), w.fresh("o")
    with w.module_level():
        with w.function(f"class {cls}:"):
            with w.function("def __init__(self, v):"):
                w.line("self._v = v")
            w.line("@property")
            with w.function("def v(self):"):
                w.mark()
                w.line(f"return self._v + {w.expr('int')}")
            w.line("@v.setter")
            with w.function("def v(self, value):", int="value"):
                w.mark()
                w.line("LOG.append(('set', value))")
                w.line("self._v = value")
            w.line("@functools.cached_property")
            with w.function("def slow(self):"):
                w.mark()
                w.line("LOG.append('computed')")
                w.line("return self._v * 3")
    w.line(f"{name} = {cls}({w.expr('int')})")
    w.mark()
    w.line(w.pick(f"{name}.v = {w.expr('int')}", f"{name}.v += 1", f"LOG.append({name}.slow)", f"LOG.append({name})"))
    w.assign("int", w.pick(f"{name}.v", f"{name}.slow + {name}.slow"))
    return None


@statement("inheritance and super", 1)
def _(w: Writer) -> str | None:
    if not w.may_define:
        return REFUSED
    base, mixin, cls, name = w.fresh("Base"), w.fresh("Mixin"), w.fresh("Sub"), w.fresh("o")
    with w.module_level():
        with w.function(f"class {base}:"):
            with w.function("def __init__(self, v):"):
                w.line("self.v = v")
            with w.function("def step(self, by):", int="by"):
                w.mark()
                w.line(f"return self.v + by + {w.expr('int')}")
        with w.function(f"class {mixin}:"):
            with w.function("def step(self, by):", int="by"):
                w.mark()
                w.line("return super().step(by) * 2")
        with w.function(f"class {cls}({mixin}, {base}):"):
            with w.function("def __init__(self, v, extra=1):"):
                w.line("super().__init__(v)")
                w.line("self.extra = extra")
            with w.function("def step(self, by):", int="by"):
                w.line("LOG.append(__class__.__name__)")
                w.mark()
                w.line(
                    w.pick(
                        "return super().step(by + self.extra)",
                        f"return super({cls}, self).step(by)",
                        f"return {base}.step(self, by)",
                    )
                )
    w.line(f"{name} = {cls}({w.expr('int')})")
    w.mark()
    w.assign("int", f"{name}.step({w.expr('int')})")
    w.line(
        w.pick(
            f"LOG.append(isinstance({name}, {mixin}))",
            f"LOG.append([c.__name__ for c in {cls}.__mro__])",
            f"LOG.append({name})",
            f"LOG.append(issubclass({cls}, {base}))",
        )
    )
    return None


def _special_methods(w: Writer, cls: str) -> None:
    for name, text in (
        ("__add__", f"{cls}(self.v + getattr(other, 'v', other))"),
        ("__radd__", f"{cls}(other + self.v)"),
        ("__mul__", "NotImplemented"),
        ("__eq__", f"isinstance(other, {cls}) and self.v == other.v"),
        ("__lt__", "self.v < other.v"),
        ("__getitem__", "self.v + other"),
        ("__contains__", "other == self.v"),
        ("__matmul__", f"other * {w.number(1, 3)}"),
        ("__rsub__", "other - 1"),
    ):
        with w.function(f"def {name}(self, other):"):
            w.mark()
            w.line(f"return {text}")
    with w.function("def __hash__(self):"):
        w.line("return hash(self.v)")
    with w.function("def __len__(self):"):
        w.mark()
        w.line("return abs(self.v)")
    with w.function("def __neg__(self):"):
        w.line(f"return {cls}(-self.v)")
    with w.function("def __iadd__(self, other):"):
        w.mark()
        w.line("self.v += other")
        w.line("return self")
    with w.function("def __call__(self, x, *more):", int="x"):
        w.mark()
        w.line(f"return x + self.v + len(more) * {w.expr('int')}")
    with w.function("def __setitem__(self, key, value):"):
        w.mark()
        w.line("self.v = key + value")
    with w.function("def __iter__(self):"):
        w.line("yield self.v")
        w.mark()
        w.line("yield 2")
    with w.function("def __str__(self):"):
        w.line("return f'<{self.v}>'")
    w.line("__repr__ = __str__")


@statement("operator dunders", 1.2)
def _(w: Writer) -> str | None:
    if not w.may_define:
        return REFUSED
    cls, a, b = w.fresh("Op"), w.fresh("o"), w.fresh("o")
    with w.module_level():
        with w.function(f"class {cls}:"):
            with w.function("def __init__(self, v):"):
                w.line("self.v = v")
            _special_methods(w, cls)
    w.line(f"{a}, {b} = {cls}({w.expr('int')}), {cls}({w.expr('int')})")
    for _ in range(w.number(1, 3)):
        w.mark()
        w.line(
            w.pick(
                f"LOG.append({a} + {b})",
                f"LOG.append({w.expr('int')} + {a})",
                f"{a} += {w.expr('int')}",
                f"{a}[1] = {w.expr('int')}",
                f"LOG.append({a} == {b})",
                f"LOG.append({a} < {b})",
                f"LOG.append([*{a}])",
                f"LOG.append(bool({a}))",
                f"LOG.append(sorted([{a}, {b}])[0])",
                f"LOG.append({w.expr('int')} in {a})",
                f"LOG.append(f'{{{a}}}')",
                f"TABLE[{a}] = 1",
                f"LOG.append({{{a}: 1, {b}: 2}}[{b}])",
                f"LOG.append(sum({a}))",
                f"LOG.append(len({a}) if {a} else -1)",
            )
        )
    w.assign("int", w.pick(f"{a}({w.expr('int')}, 1)", f"{a}[{w.expr('int')}]", f"(-{b}).v", f"{a}.v"))
    if w.chance(0.5):
        w.assign("tensor", f"{a} @ {w.expr('tensor')}")
    return None


@statement("unsupported operands", 0.4)
def _(w: Writer) -> str | None:
    if w.flat:
        return REFUSED
    with w.block("try:"):
        left, right = w.expr(w.pick("int", "list", "str", "dict")), w.expr(w.pick("list", "str", "set", "dict"))
        w.line(f"LOG.append({left} {w.pick('-', '/', '@')} {right})")
    with w.block("except TypeError as error:"):
        w.line("LOG.append(str(error))")
    return None


@statement("slots", 0.8)
def _(w: Writer) -> str | None:
    if not w.may_define:
        return REFUSED
    cls, name = w.fresh("Slot"), w.fresh("o")
    with w.module_level():
        with w.function(f"class {cls}:"):
            w.line("__slots__ = ('a', 'b')")
            with w.function("def __init__(self, a):"):
                w.mark()
                w.line("self.a = a")
            with w.function("def total(self):"):
                w.mark()
                w.line(f"return self.a + getattr(self, 'b', 1) + {w.expr('int')}")
    w.line(f"{name} = {cls}({w.expr('int')})")
    if w.chance(0.5):
        w.line(f"{name}.b = {w.expr('int')}")
    w.mark()
    w.assign("int", f"{name}.total()")
    if w.chance(0.4) and not w.flat:
        with w.block("try:"):
            w.line(w.pick(f"{name}.c = 1", f"del {name}.b", f"LOG.append({name}.b)"))
        with w.block("except AttributeError as error:"):
            w.line("LOG.append(str(error))")
    w.line(f"LOG.append({name})")
    return None


@statement("dataclass", 1.2)
def _(w: Writer) -> str | None:
    if not w.may_define:
        return REFUSED
    cls, name = w.fresh("Data"), w.fresh("o")
    option = w.pick("", "(frozen=True)", "(order=True)", "(eq=False)", "(slots=True)", "(kw_only=True)")
    with w.module_level():
        w.line(f"@dataclasses.dataclass{option}")
        with w.function(f"class {cls}:"):
            w.line("a: int")
            w.line(f"b: int = {w.number(1, 9)}")
            w.line("items: list = dataclasses.field(default_factory=list)")
            w.line("t: object = dataclasses.field(default=None, compare=False, repr=False)")
            if w.chance(0.5):
                with w.function("def __post_init__(self):"):
                    w.mark()
                    w.line(f"LOG.append(('post', self.a, {w.expr('int')}))")
            with w.function("def total(self, x):", int="x"):
                w.mark()
                w.line(f"return self.a + self.b * x + len(self.items) + {w.expr('int')}")
    w.line(
        f"{name} = {cls}(a={w.expr('int')}, t={w.expr('tensor')})"
        if option == "(kw_only=True)"
        else f"{name} = {cls}({w.expr('int')}, t={w.expr('tensor')})"
    )
    w.mark()
    w.assign("int", w.pick(f"{name}.total({w.expr('int')})", f"{name}.a"))
    w.line(
        w.pick(
            f"LOG.append(dataclasses.replace({name}, a={w.expr('int')}))",
            f"LOG.append(dataclasses.asdict({name})['a'])",
            f"LOG.append([f.name for f in dataclasses.fields({name})])",
            f"LOG.append(repr({name}))",
            f"LOG.append({name} == {name})",
            f"{name}.items.append({w.expr('int')}); LOG.append({name})",
            f"LOG.append({name})",
            f"LOG.append(dataclasses.astuple({name})[:2])",
            f"LOG.append(dataclasses.is_dataclass({name}))",
        )
    )
    if option == "(frozen=True)" and not w.flat:
        with w.block("try:"):
            w.line(f"{name}.a = 1")
        with w.block("except dataclasses.FrozenInstanceError as error:"):
            w.line("LOG.append(str(error))")
    elif w.chance(0.5):
        w.line(f"{name}.a = {w.expr('int')}")
    return None


@statement("enum", 1)
def _(w: Writer) -> str | None:
    if not w.may_define:
        return REFUSED
    cls, name = w.fresh("Kind"), w.fresh("e")
    base = w.pick("enum.Enum", "enum.IntEnum", "enum.Flag", "enum.Enum")
    with w.module_level():
        with w.function(f"class {cls}({base}):"):
            w.line("RED = 1")
            w.line("BLUE = 2")
            with w.function("def next(self):"):
                w.mark()
                w.line(f"return {cls}.BLUE if self is {cls}.RED else {cls}.RED")
    w.line(f"{name} = {w.pick(f'{cls}.RED', f'{cls}(2)', cls + '[' + repr('BLUE') + ']')}")
    w.mark()
    w.line(
        w.pick(
            f"LOG.append({name})",
            f"LOG.append({name}.name)",
            f"LOG.append([m.name for m in {cls}])",
            f"LOG.append({name} is {cls}.RED)",
            f"LOG.append({name} == {cls}.BLUE)",
            f"TABLE[{name}] = {w.expr('int')}",
            f"LOG.append(str({name}))",
            f"LOG.append({name} in ({cls}.RED,))",
            f"LOG.append({name}.next())",
        )
    )
    w.assign("int", f"{name}.value + {w.expr('int')}")
    if not w.flat and w.chance(0.4):
        with w.block(f"match {name}:"):
            with w.block(f"case {cls}.RED:"):
                w.body(1)
            with w.block("case _:"):
                w.body(1)
    return None


@statement("__getattr__ and __setattr__", 0.8)
def _(w: Writer) -> str | None:
    if not w.may_define:
        return REFUSED
    cls, name = w.fresh("Dyn"), w.fresh("o")
    kind = w.pick("__getattr__", "__setattr__", "__getattribute__", "__delattr__")
    with w.module_level():
        with w.function(f"class {cls}:"):
            w.line("known = 4")
            if kind == "__getattr__":
                with w.function("def __getattr__(self, name):"):
                    w.mark()
                    with w.block("if name.startswith('_'):"):
                        w.line("raise AttributeError(name)")
                    w.line(f"return len(name) + {w.expr('int')}")
            elif kind == "__setattr__":
                with w.function("def __setattr__(self, name, value):"):
                    w.mark()
                    w.line("LOG.append(name)")
                    w.line("super().__setattr__(name, value * 2)")
            elif kind == "__getattribute__":
                with w.function("def __getattribute__(self, name):"):
                    w.mark()
                    w.line("LOG.append(('read', name))")
                    w.line("return object.__getattribute__(self, name)")
            else:
                with w.function("def __delattr__(self, name):"):
                    w.line("LOG.append(('deleted', name))")
                    w.mark()
                    w.line("object.__delattr__(self, name)")
    w.line(f"{name} = {cls}()")
    w.line(f"{name}.val = {w.expr('int')}")
    w.mark()
    w.assign("int", w.pick(f"{name}.val", f"{name}.known", f"getattr({name}, 'missing', 3)"))
    w.line(w.pick(f"del {name}.val", f"LOG.append(hasattr({name}, 'other'))", "pass"))
    if kind != "__getattribute__":
        w.line(f"LOG.append({name})")
    return None


@statement("descriptor", 0.6)
def _(w: Writer) -> str | None:
    if not w.may_define:
        return REFUSED
    desc, cls, name = w.fresh("Desc"), w.fresh("Cls"), w.fresh("o")
    with w.module_level():
        with w.function(f"class {desc}:"):
            with w.function("def __set_name__(self, owner, name):"):
                w.line("self.name = '_' + name")
            with w.function("def __get__(self, instance, owner=None):"):
                with w.block("if instance is None:"):
                    w.line("return 11")
                w.mark()
                w.line(f"return instance.__dict__.get(self.name, 0) + {w.expr('int')}")
            with w.function("def __set__(self, instance, value):"):
                w.mark()
                w.line("instance.__dict__[self.name] = value")
        with w.function(f"class {cls}:"):
            w.line(f"field = {desc}()")
    w.line(f"{name} = {cls}()")
    if w.chance(0.7):
        w.line(f"{name}.field = {w.expr('int')}")
    w.mark()
    w.assign("int", w.pick(f"{name}.field", f"{cls}.field + {name}.field"))
    w.line(f"LOG.append({name})")
    return None


@statement("abstract classes and protocols", 0.5)
def _(w: Writer) -> str | None:
    if not w.may_define:
        return REFUSED
    base, cls = w.fresh("Abstract"), w.fresh("Concrete")
    with w.module_level():
        if w.chance(0.5):
            with w.function(f"class {base}(abc.ABC):"):
                w.line("@abc.abstractmethod")
                w.line("def run(self, a): ...")
        else:
            w.line("@typing.runtime_checkable")
            with w.function(f"class {base}(typing.Protocol):"):
                w.line("def run(self, a): ...")
        with w.function(f"class {cls}({base}):"):
            with w.function("def run(self, a):", int="a"):
                w.mark()
                w.line(f"return a + {w.expr('int')}")
    w.assign("int", f"{cls}().run({w.expr('int')})")
    w.assign("bool", f"isinstance({cls}(), {base})")
    return None


@statement("class made inside", 0.4)
def _(w: Writer) -> str | None:
    if w.flat:
        return REFUSED
    cls = w.fresh("Local")
    with w.function(f"class {cls}:"):
        w.line(f"base = {w.number(1, 9)}")
        with w.function("def run(self, a):", int="a"):
            w.line(f"return a + self.base + {w.expr('int')}")
    w.assign("int", f"{cls}().run({w.expr('int')})")
    return None


@statement("class pattern", 0.5)
def _(w: Writer) -> str | None:
    if w.flat:
        return REFUSED
    a = w.fresh("a")
    with w.block(f"match Pair({w.expr('int')}, {w.expr('int')}):"):
        with w.block(f"case Pair({w.number(0, 3)}, {a}):", int=a):
            w.body(1)
        with w.block(f"case Pair(left={a}) if {a} > 2:", int=a):
            w.body(1)
        with w.block("case Pair():"):
            w.body(1)
    return None


@statement("shared object", 1)
def _(w: Writer) -> None:
    w.line(
        w.pick(
            f"PAIR.left = {w.expr('int')}",
            "PAIR.left, PAIR.right = PAIR.right, PAIR.left",
            f"PAIR.right = {w.expr('tensor')}",
            f"LOG.append(PAIR.swapped({w.expr('int')}))",
            "LOG.append(PAIR.left)",
            f"PAIR.left = {w.expr('list')}",
            f"Pair.count += {w.expr('int')}",
            "LOG.append(Pair.count)",
            f"KEPT.append(Pair({w.expr('int')}, PAIR))",
        )
    )
