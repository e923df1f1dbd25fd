"""Random control flow (loops, handlers, with blocks, returns in all of them), stopped and resumed everywhere."""

import random
import sys

import pytest

from tests.bytecode.resume_cases import Manager
from tests.bytecode.stepping import check_every_stop

ERRORS = ("ValueError", "KeyError", "ZeroDivisionError")


class Writer:
    """Writes one function `f(log, n)`; every loop is bounded by a counter of its own."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.lines = ["def f(log, n):", "    x = n"]
        self.names = 0

    def write(self):
        self.block(1, 4, False)
        self.lines.append("    return x, exc_info()[1]")
        return "\n".join(self.lines)

    def block(self, depth, budget, in_loop):
        for _ in range(self.random.randint(1, 2 + (depth == 1))):
            self.statement(depth, budget, in_loop)

    def add(self, depth, text):
        self.lines.append("    " * depth + text)

    def statement(self, depth, budget, in_loop):
        compound = [
            self.conditional,
            self.for_loop,
            self.while_loop,
            self.try_except,
            self.try_finally,
            self.with_block,
        ]
        if budget > 0 and self.random.random() < 0.6:
            self.random.choice(compound)(depth, budget - 1, in_loop)
        else:
            self.simple(depth, in_loop)

    def simple(self, depth, in_loop):
        choices = [
            "x += n + len(log)",
            "log.append(repr(exc_info()[1]))",
            "log.append([i * x for i in range(2)])",
            "x = (lambda y: y + n)(x) if n else x // 1",
            "g = lambda: (log, n)",
        ]
        if self.random.random() < 0.35:
            choices = [f"raise {self.random.choice(ERRORS)}(x)", "return x, len(log)", "x = x // n", "log[100]"]
            if in_loop:
                choices += ["break", "continue"]
            self.add(depth, f"if {self.condition()}:")
            depth += 1
        self.add(depth, self.random.choice(choices))

    def condition(self):
        k = self.random.randint(2, 4)
        return f"(x + len(log)) % {k} == {self.random.randrange(k)}"

    def conditional(self, depth, budget, in_loop):
        self.add(depth, f"if {self.condition()}:")
        self.block(depth + 1, budget, in_loop)
        self.add(depth, "else:")
        self.block(depth + 1, budget, in_loop)

    def fresh(self):
        self.names += 1
        return f"v{self.names}"

    def for_loop(self, depth, budget, in_loop):
        name = self.fresh()
        self.add(depth, f"for {name} in range({self.random.randint(1, 2)}):")
        self.block(depth + 1, budget, True)
        self.add(depth, "else:")
        self.add(depth + 1, f"log.append('else {name}')")

    def while_loop(self, depth, budget, in_loop):
        name = self.fresh()
        self.add(depth, f"{name} = 2")
        self.add(depth, f"while ({name} := {name} - 1) >= 0:")
        self.block(depth + 1, budget, True)

    def try_except(self, depth, budget, in_loop):
        self.add(depth, "try:")
        self.block(depth + 1, budget, in_loop)
        first, second = self.random.sample(ERRORS, 2)
        self.add(depth, f"except ({first}, IndexError) as e:")
        self.add(depth + 1, "log.append(repr(e) + repr(e.__context__))")
        self.block(depth + 1, budget, in_loop)
        self.add(depth, f"except {second}:")
        self.block(depth + 1, budget, in_loop)
        if self.random.random() < 0.5:
            self.add(depth + 1, "raise")

    def try_finally(self, depth, budget, in_loop):
        self.add(depth, "try:")
        self.block(depth + 1, budget, in_loop)
        self.add(depth, "finally:")
        self.block(depth + 1, budget, in_loop)

    def with_block(self, depth, budget, in_loop):
        name = self.fresh()
        self.add(depth, f"with Manager(log, '{name}', {self.random.choice(ERRORS)}) as {name}:")
        self.block(depth + 1, budget, in_loop)


def check_seed(seed, at_most):
    source = Writer(seed).write()
    namespace = {"Manager": Manager, "exc_info": sys.exc_info}
    exec(compile(source, f"<seed {seed}>", "exec"), namespace)
    for n in (0, 1):
        try:
            check_every_stop(namespace["f"], lambda: ([], n), at_most=at_most)
        except AssertionError as error:
            raise AssertionError(f"seed {seed}, n = {n}:\n{source}") from error


@pytest.mark.parametrize("seed", range(8))
def test_random_control_flow_resumes_everywhere(seed):
    check_seed(seed, at_most=25)


@pytest.mark.full
@pytest.mark.parametrize("seed", range(8, 150))
def test_much_random_control_flow_resumes_everywhere(seed):
    check_seed(seed, at_most=80)
