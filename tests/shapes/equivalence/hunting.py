"""Running mutants against a battery: which checks reach which lines, and which mutants no check notices.

`python -m tests.shapes.equivalence.hunting [--write] [MODULE or NAME ...]` runs them (all if none is given) and prints
the survivors. Every mutant has a forked child, which imports the mutated module and what depends on it afresh, and runs the
checks that reach the changed lines, quick ones first, until one fails. One that hangs is noticed.
"""

import ast
import gc
import importlib
import importlib.abc
import importlib.util
import json
import os
import pickle
import resource
import signal
import sys
import time
import traceback
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import NamedTuple

from tests.shapes.equivalence.mutants import MODULES, ROOT, Mutant, mutants
from tests.shapes.equivalence.survivors import listed

RESULTS = ROOT / "tests" / "results" / "mutants.json"
BATTERY = "tests.shapes.equivalence.battery"
WORKERS = 2
IMPORT_S, CHECK_S, TIMES = 5.0, 1.0, 10  # limits of CPU time: of the imports; of a check, beyond ten times its usual
MEMORY = 3 << 30  # more than the child has at first


class Reached(NamedTuple):
    """What a check of the battery took, and the lines of the module that it ran."""

    check: int
    seconds: float
    lines: frozenset[int]


@dataclass
class Plan:
    """The checks for the mutants of a module; `imported` are the lines that run when it is imported."""

    module: str
    reached: list[Reached] = field(default_factory=list)
    imported: frozenset[int] = frozenset()
    error: str = ""
    noticed: dict[str, Counter[int]] = field(default_factory=partial(defaultdict, Counter))

    def checks_of(self, mutant: Mutant) -> list[Reached]:
        """Those that have noticed most mutants of the same function first, then the quick ones."""
        lines = frozenset(range(mutant.target.lineno, mutant.target.end_lineno + 1))
        at_import = bool(lines & self.imported)
        counts = self.noticed[mutant.place]
        reached = [reached for reached in self.reached if at_import or reached.lines & lines]
        return sorted(reached, key=lambda reached: (-counts[reached.check], reached.seconds))


class Outcome(NamedTuple):
    mutant: Mutant
    survives: bool
    noticed_by: int | None = None  # the check, if it failed and did not hang


# --------------------------------------------------------------------------------------------- fresh imports


class _Mutated(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Imports one module from other source."""

    def __init__(self, module: str, code) -> None:
        self.module = module
        self.code = code

    def find_spec(self, name, path, target=None):
        return importlib.util.spec_from_loader(name, self) if name == self.module else None

    def exec_module(self, module):
        exec(self.code, module.__dict__)


def _ours() -> list[str]:
    return [name for name in sys.modules if name.split(".")[0] == "shapes" or name.startswith("tests.shapes.")]


def _imports(name: str) -> set[str]:
    """The modules that a module names in its imports."""
    file = getattr(sys.modules[name], "__file__", None)
    found = set()
    for node in ast.walk(ast.parse(open(file).read())) if file else ():
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            inner = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= inner if inner <= sys.modules.keys() else {node.module, *inner}
    return found


def _dependents(module: str) -> set[str]:
    """The module and all of ours that import it, in however many steps."""
    imports = {name: _imports(name) for name in _ours()}
    found, before = {module, "shapes"}, 0  # the package gets what it exports when it is asked for it
    while len(found) > before:
        before = len(found)
        found |= {name for name, imported in imports.items() if imported & found}
    return found


def _forget(names: set[str]) -> None:
    """Removes modules, so that the next import loads them anew, also `from package import module`."""
    for name in names:
        sys.modules.pop(name, None)
        package, _, last = name.rpartition(".")
        if package in sys.modules:
            vars(sys.modules[package]).pop(last, None)


# ------------------------------------------------------------------------------------------------- children


def _in_child(work, pipe: int) -> int:
    """A forked child that writes what `work` returns to the pipe."""
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        result = work()
        with os.fdopen(pipe, "wb") as sink:
            pickle.dump(result, sink)
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


def _load_all() -> None:
    """Imports what the children share, and draws what they all need."""
    importlib.import_module(BATTERY).prepare()
    gc.collect()
    gc.freeze()


def plans(modules: Sequence[str]) -> dict[str, Plan]:
    """The plan of each module; modules with the same battery are run once together."""
    _load_all()
    batteries = sys.modules[BATTERY].BATTERIES
    groups: dict[int, list[str]] = {}
    for module in modules:
        groups.setdefault(id(batteries[module]), []).append(module)
    found, running = {}, {}
    for group in groups.values():
        source, sink = os.pipe()
        running[_in_child(lambda group=group: _watched(group), sink)] = source
        os.close(sink)
    for child, source in running.items():
        with os.fdopen(source, "rb") as pipe:
            data = pipe.read()
        os.waitpid(child, 0)
        if not data:
            raise RuntimeError("the code as it is could not be watched")
        found |= pickle.loads(data)
    return found


def _watched(group: list[str]) -> dict[str, Plan]:
    """The plans of the code as it is; runs in a child."""
    files = {str(ROOT / (module.replace(".", "/") + ".py")): module for module in group}
    lines: dict[str, set[int]] = {module: set() for module in group}

    def note(frame, event, arg):
        if event == "line":
            lines[files[frame.f_code.co_filename]].add(frame.f_lineno)
        return note

    def enter(frame, event, arg):
        return note if frame.f_code.co_filename in files else None

    def take() -> dict[str, frozenset[int]]:
        taken = {module: frozenset(seen) for module, seen in lines.items()}
        for seen in lines.values():
            seen.clear()
        return taken

    _forget(set().union(*map(_dependents, group)))
    sys.settrace(enter)
    battery = importlib.import_module(BATTERY)
    found = {module: Plan(module, imported=seen) for module, seen in take().items()}
    for index, check in enumerate(battery.BATTERIES[group[0]]):
        start = time.process_time()
        try:
            check.run()
        except BaseException:
            error = f"{check.name}: {traceback.format_exc()}"
            return {module: Plan(module, error=error) for module in group}
        seconds = time.process_time() - start
        for module, seen in take().items():
            if seen:
                found[module].reached.append(Reached(index, seconds, seen))
    for plan in found.values():
        plan.reached.sort(key=lambda reached: reached.seconds)
    return found


def _run_mutant(mutant: Mutant, code, checks: list[Reached], purged: set[str]) -> tuple[bool, int | None]:
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1), os.dup2(null, 2)
    signal.setitimer(signal.ITIMER_PROF, IMPORT_S)  # SIGPROF ends the child
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + MEMORY,) * 2)
    _forget(purged)
    sys.meta_path.insert(0, _Mutated(mutant.module, code))
    check = None
    try:
        battery = importlib.import_module(BATTERY).BATTERIES[mutant.module]
        for reached in checks:
            check = reached.check
            signal.setitimer(signal.ITIMER_PROF, CHECK_S + TIMES * reached.seconds)
            battery[check].run()
    except BaseException:
        return False, check
    return True, None


def hunt(chosen: Sequence[Mutant], known_plans: dict[str, Plan] | None = None) -> list[Outcome]:
    """Runs them, some at a time; the outcomes are in the order of `chosen`."""
    known = known_plans or plans(sorted({mutant.module for mutant in chosen}))
    for plan in known.values():
        if plan.error:
            raise AssertionError(f"the code as it is does not pass the battery of {plan.module}: {plan.error}")
    purged = {module: _dependents(module) for module in known}
    outcomes: dict[int, Outcome] = {}
    running: dict[int, tuple[int, int]] = {}
    waiting = list(reversed(list(enumerate(chosen))))
    while waiting or running:
        while waiting and len(running) < WORKERS:
            index, mutant = waiting.pop()
            source, sink = os.pipe()
            checks, code = known[mutant.module].checks_of(mutant), mutant.code()
            child = _in_child(lambda: _run_mutant(mutant, code, checks, purged[mutant.module]), sink)
            os.close(sink)
            running[child] = index, source
        child = _next_of(running)
        index, source = running.pop(child)
        with os.fdopen(source, "rb") as pipe:
            data = pipe.read()
        outcome = Outcome(chosen[index], *pickle.loads(data)) if data else Outcome(chosen[index], False)
        if outcome.noticed_by is not None:
            known[outcome.mutant.module].noticed[outcome.mutant.place][outcome.noticed_by] += 1
        outcomes[index] = outcome
    return [outcomes[index] for index in range(len(chosen))]


def _next_of(running: dict[int, tuple[int, int]]) -> int:
    """Waits for one of our children, and for no other."""
    while True:
        for child in running:
            if os.waitpid(child, os.WNOHANG)[0]:
                return child
        time.sleep(0.002)


def write_results(outcomes: Sequence[Outcome]) -> None:
    """tests/results/mutants.json: of each module how many there are, hang and survive, and which of those are not listed."""
    known = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    for module in dict.fromkeys(outcome.mutant.module for outcome in outcomes):
        of_module = [outcome for outcome in outcomes if outcome.mutant.module == module]
        alive = [outcome.mutant.name for outcome in of_module if outcome.survives]
        known[module] = {
            "date": time.strftime("%Y-%m-%d"),
            "mutants": len(of_module),
            "noticed": len(of_module) - len(alive),
            "of these by hanging": sum(not o.survives and o.noticed_by is None for o in of_module),
            "survivors listed": sum(name in listed() for name in alive),
            "survivors not listed": [name for name in alive if name not in listed()],
        }
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(dict(sorted(known.items())), indent=2) + "\n")


def main(arguments: Sequence[str]) -> None:
    """Hunts the mutants of these modules, or these mutants, or those of all modules. With --write, the outcomes of whole modules
    go to the results."""
    chosen = [argument for argument in arguments if argument != "--write"]
    for module in MODULES:
        begin = time.monotonic()
        found = [mutant for mutant in mutants(module) if not chosen or module in chosen or mutant.name in chosen]
        if not found:
            continue
        known = plans([module])
        seconds = sum(reached.seconds for reached in known[module].reached)
        print(f"# {module}: {len(known[module].reached)} checks reach it, {seconds:.1f} s of CPU time", flush=True)
        outcomes = hunt(found, known)
        if "--write" in arguments and len(found) == len(mutants(module)):
            write_results(outcomes)
        alive = [outcome.mutant.name for outcome in outcomes if outcome.survives]
        print(f"# {len(found)} mutants, {len(alive)} survive, {time.monotonic() - begin:.0f} s", flush=True)
        for name in alive:
            print(f"{name}  ## {listed().get(name, '')}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
