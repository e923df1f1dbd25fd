"""The table of features, and the writer that they fill programs with.

A feature writes a statement or gives an expression of one type. The writer keeps what is in scope by type, so that
programs are well typed; loops are bounded and nothing depends on time, addresses or hashes, so that they end and are
deterministic. Every place where a graph break may stand is marked; a few of the marks become breaks at the end.
"""

from __future__ import annotations

import contextlib
import dataclasses
import random
import re
from collections import Counter
from collections.abc import Callable, Iterator

STATEMENT = "statement"
_MOST_BLOCKS = 3  # blocks within blocks
_MOST_DEFINITIONS = 7


@dataclasses.dataclass(frozen=True)
class Feature:
    """What a program may be made of; `gives` is STATEMENT or the type of the expression."""

    name: str
    gives: str
    write: Callable[[Writer], str | None]
    weight: float


FEATURES: dict[str, Feature] = {}
BREAKS: dict[str, Callable[[Writer], str]] = {}


def statement(name: str, weight: float = 1.0) -> Callable[[Callable[[Writer], None]], Callable[[Writer], None]]:
    def register(write: Callable[[Writer], None]) -> Callable[[Writer], None]:
        assert name not in FEATURES, name
        FEATURES[name] = Feature(name, STATEMENT, write, weight)
        return write

    return register


def expression(gives: str, name: str, weight: float = 1.0) -> Callable[[Callable[[Writer], str]], Callable[[Writer], str]]:
    def register(write: Callable[[Writer], str]) -> Callable[[Writer], str]:
        assert name not in FEATURES, name
        FEATURES[name] = Feature(name, gives, write, weight)
        return write

    return register


def break_kind(name: str) -> Callable[[Callable[[Writer], str]], Callable[[Writer], str]]:
    """A statement that breaks the graph, as one line."""

    def register(write: Callable[[Writer], str]) -> Callable[[Writer], str]:
        BREAKS[name] = write
        return write

    return register


@dataclasses.dataclass
class Scope:
    """The names that a block can read, by type; `own` are those that the function may assign."""

    names: dict[str, list[str]] = dataclasses.field(default_factory=dict)
    own: set[str] = dataclasses.field(default_factory=set)

    def copy(self, same_function: bool) -> Scope:
        return Scope({key: list(found) for key, found in self.names.items()}, set(self.own) if same_function else set())


class _Lines:
    """Text under way, with its indentation."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.indent = 0


class Writer:
    """One program under way."""

    def __init__(self, seed: str) -> None:
        self.rng = random.Random(seed)
        self.used: Counter[str] = Counter()
        self.definitions: list[list[str]] = []
        self._out = _Lines()
        self.globals = Scope()
        self.scope = self.globals.copy(False)
        self.depth = 0  # of blocks
        self.expression_depth = 0
        self.in_loop = False
        self.in_function = False  # other than the main one
        self._fresh = 0
        self._marks: list[tuple[str, str, str]] = []  # an open and a close marker, and the scope's int for a print
        self._weights = self._chosen_weights()

    # -- choices -----------------------------------------------------------------------------------------------------

    def _chosen_weights(self) -> dict[str, float]:
        """A program likes some features more than others: programs differ more than one distribution would let them."""
        liked = set(self.rng.sample(sorted(FEATURES), 8))
        return {name: feature.weight * (6.0 if name in liked else 1.0) for name, feature in FEATURES.items()}

    def chance(self, probability: float) -> bool:
        return self.rng.random() < probability

    def pick(self, *options: str) -> str:
        return self.rng.choice(options)

    def number(self, low: int, high: int) -> int:
        return self.rng.randint(low, high)

    def fresh(self, prefix: str) -> str:
        self._fresh += 1
        return f"{prefix}{self._fresh}"

    def _feature(self, gives: str) -> Feature | None:
        fitting = [feature for feature in FEATURES.values() if feature.gives == gives]
        if not fitting:
            return None
        return self.rng.choices(fitting, [self._weights[feature.name] for feature in fitting])[0]

    # -- names -------------------------------------------------------------------------------------------------------

    def bind(self, kind: str, name: str, assignable: bool = True) -> str:
        """`name` holds a value of `kind` from here to the end of the block."""
        for found in self.scope.names.values():
            if name in found:
                found.remove(name)
        self.scope.names.setdefault(kind, []).append(name)
        if assignable:
            self.scope.own.add(name)
        return name

    def unbind(self, name: str) -> None:
        for found in self.scope.names.values():
            if name in found:
                found.remove(name)

    def variable(self, kind: str, assignable: bool = False) -> str | None:
        found = self.scope.names.get(kind, [])
        if assignable:
            found = [name for name in found if name in self.scope.own]
        return self.rng.choice(found) if found else None

    def assign(self, kind: str, text: str, prefix: str | None = None) -> str:
        """A new name for the value."""
        name = self.fresh(prefix or kind[0])
        self.line(f"{name} = {text}")
        return self.bind(kind, name)

    # -- text --------------------------------------------------------------------------------------------------------

    def line(self, text: str) -> None:
        self._out.lines.append("    " * self._out.indent + text)

    def mark(self) -> None:
        """A break may stand here."""
        marker = f"\x01{len(self._marks)}\x02"
        self._marks.append((marker, "", self.variable("int") or "0"))
        self.line(marker)

    @contextlib.contextmanager
    def block(self, header: str, **names: str) -> Iterator[None]:
        """An indented block, with more names: `with w.block("for i in xs:", int="i"):`."""
        self.line(header)
        before, loop = self.scope, self.in_loop
        self.scope = before.copy(True)
        for kind, found in names.items():
            for name in found.split():
                self.bind(kind, name, assignable=False)
        self.in_loop = header.startswith(("for ", "while ")) or (loop and not header.startswith(("def ", "class ")))
        self._out.indent += 1
        self.depth += 1
        try:
            yield
        finally:
            self._out.indent -= 1
            self.depth -= 1
            self.scope, self.in_loop = before, loop

    @contextlib.contextmanager
    def function(self, header: str, own: bool = True, **names: str) -> Iterator[None]:
        """The body of a function: it reads what is around it and assigns its own names."""
        before, depth, inside = self.scope, self.depth, self.in_function
        self.scope = before.copy(False)
        self.depth, self.in_function = max(depth, 1), True
        try:
            with self.block(header):
                for kind, found in names.items():
                    for name in found.split():
                        self.bind(kind, name, assignable=own)
                yield
        finally:
            self.scope, self.depth, self.in_function = before, depth, inside

    @contextlib.contextmanager
    def module_level(self) -> Iterator[None]:
        """What is written stands before the main function, and sees globals only."""
        before = self._out, self.scope, self.depth, self.in_loop
        self._out, self.scope, self.depth, self.in_loop = _Lines(), self.globals.copy(False), 1, False
        try:
            yield
            self.definitions.append(self._out.lines)
        finally:
            self._out, self.scope, self.depth, self.in_loop = before

    @property
    def may_define(self) -> bool:
        return len(self.definitions) < _MOST_DEFINITIONS

    # -- parts -------------------------------------------------------------------------------------------------------

    def body(self, most: int = 2) -> None:
        """One or more statements."""
        for _ in range(self.number(1, most)):
            self.statement()

    def statement(self) -> None:
        self.mark()
        for _ in range(20):
            feature = self._feature(STATEMENT)
            assert feature is not None
            if self._write(feature) is not _REFUSED:
                return
        self.line("pass")

    def expr(self, kind: str) -> str:
        """An expression of a type, sometimes one around which a break may stand."""
        text = self._expr(kind)
        if self.chance(0.15) and not text.startswith("*"):
            opening, closing = f"\x01{len(self._marks)}\x02", f"\x03{len(self._marks)}\x02"
            self._marks.append((opening, closing, ""))
            return f"{opening}{text}{closing}"
        return text

    def _expr(self, kind: str) -> str:
        known = self.variable(kind)
        if known is not None and (self.expression_depth >= 2 or self.chance(0.4)):
            return known
        self.expression_depth += 1
        try:
            for _ in range(20 if self.expression_depth <= 3 else 0):
                feature = self._feature(kind)
                if feature is None:
                    break
                text = self._write(feature)
                if text is not _REFUSED and text is not None:
                    return text
        finally:
            self.expression_depth -= 1
        return known if known is not None else self.plain(kind)

    def plain(self, kind: str) -> str:
        """A value of a type that needs nothing in scope."""
        return {
            "int": lambda: str(self.number(-3, 9)),
            "float": lambda: self.pick("0.5", "-1.25", "2.0", "3.5"),
            "bool": lambda: self.pick("True", "False"),
            "str": lambda: self.pick("'abc'", "'x y'", "'Tracer'", "''"),
            "bytes": lambda: self.pick("b'abc'", "b'\\x00\\xff'"),
            "list": lambda: f"[{self.number(0, 9)}, {self.number(0, 9)}, {self.number(-9, 0)}]",
            "tuple": lambda: f"({self.number(0, 9)}, {self.number(0, 9)})",
            "dict": lambda: f"{{'a': {self.number(0, 9)}, 'b': {self.number(0, 9)}}}",
            "set": lambda: f"{{{self.number(0, 9)}, {self.number(10, 19)}}}",
            "tensor": lambda: "torch.ones(2, 3)",
            "scalar": lambda: "torch.tensor(1.5)",
            "tensors": lambda: "[torch.ones(2, 3), torch.zeros(2, 3)]",
        }[kind]()

    def _write(self, feature: Feature) -> str | None:
        tag = f"\x04{feature.name}\x05"
        if feature.gives == STATEMENT:
            written = len(self._out.lines)
            text = feature.write(self)
            if text is not _REFUSED and len(self._out.lines) > written:
                self._out.lines[written] += tag
            return text
        text = feature.write(self)
        return text if text is _REFUSED else f"{text}{tag}"

    @property
    def flat(self) -> bool:
        """Too deep for a further block."""
        return self.depth >= _MOST_BLOCKS

    # -- the end -----------------------------------------------------------------------------------------------------

    def finished(self, breaks: int) -> str:
        """The text with `breaks` of its marked places made breaks."""
        text = "\n".join("\n".join(lines) + "\n" for lines in [*self.definitions, self._out.lines])
        present = [index for index, (opening, _, _) in enumerate(self._marks) if opening in text]
        chosen = set(self.rng.sample(present, min(breaks, len(present))))
        for index, (opening, closing, known) in enumerate(self._marks):
            first, last = "", ""
            if index in chosen and closing:
                self.used["break: opaque expression"] += 1
                first, last = "opaque(", ")"
            elif index in chosen:
                kind = self.rng.choice(sorted(BREAKS))
                self.used[f"break: {kind}"] += 1
                first = BREAKS[kind](self).replace("INT", known)
            text = text.replace(opening, first)
            text = text.replace(closing, last) if closing else text
        self.used.update(_TAG.findall(text))
        text = _TAG.sub("", text)
        return "\n".join(line for line in text.split("\n") if line.strip()) + "\n"


_REFUSED = "\x00refused"
_TAG = re.compile("\x04([^\x05]*)\x05")  # says which feature wrote what stands before it
REFUSED = _REFUSED  # what a feature gives where it cannot stand


@break_kind("print")
def _(w: Writer) -> str:
    return "print('at', INT)"


@break_kind("graph_break()")
def _(w: Writer) -> str:
    return "tracer.graph_break()"


@break_kind("opaque call")
def _(w: Writer) -> str:
    return w.pick("OUTSIDE.append(opaque(INT))", "noted(LOG, INT)", "opaque(None)")


@break_kind("tensor branch")
def _(w: Writer) -> str:
    return w.pick("if W.sum() > 0: LOG.append('positive')", "if (W[0, 0] < 0).item(): LOG.append(INT)", "assert W.sum() != 7")


@break_kind("item")
def _(w: Writer) -> str:
    return "LOG.append(W[0].max().item())"
