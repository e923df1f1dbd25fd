"""Whether code of the program may run when the last reference to an object goes, and the guard on that."""

from __future__ import annotations

import gc
import io
import types
import weakref
from collections import deque
from typing import Any, ClassVar

import torch

from tracer.guards.base import CheckScope, Guard, Mismatch, guard_kind, shown
from tracer.sources.base import Source
from tracer.sources.reading import type_dict, type_mro

MOST = 64  # how many objects are looked at; what leads to more of them is not held by this alone
_NOT_THE_PROGRAM = (__name__.partition(".")[0] + ".", "torch._")  # what compilers note of modules, torch.compile of each one
_CLOSED_ALONE = (io.StringIO, io.BytesIO)  # their finalizer closes what is in memory
_LASTING = (type, types.ModuleType, types.CodeType, types.FrameType, torch.Tensor, torch.nn.Module)


def is_finalised(cls: type) -> bool:
    """Whether code of the program, or an effect outside of the object, waits for the end of an instance."""
    if cls in _CLOSED_ALONE:
        return False
    return cls is types.GeneratorType or any("__del__" in type_dict(base) for base in type_mro(cls))


_callback_of = weakref.ref.__dict__["__callback__"].__get__


def has_callback(value: Any) -> bool:
    """Whether a weak reference to an object calls a function of the program when it dies."""
    return any(_calls_program(reference, value) for reference in weakref.getweakrefs(value))


def _calls_program(reference: Any, value: Any) -> bool:
    if type(reference) in weakref.ProxyTypes:  # which does not tell its callback; without one, an object has a single proxy
        return reference is not weakref.proxy(value)
    return _is_of_the_program(_callback_of(reference))


def _is_of_the_program(callback: Any) -> bool:
    if type(callback) is not types.FunctionType:
        return callback is not None
    return not str(callback.__globals__.get("__name__")).startswith(_NOT_THE_PROGRAM)


def may_run_code(value: Any) -> bool:
    """Whether code of the program may run when this object, and what only it holds, is freed. Runs no such code itself."""
    todo, seen = deque([] if issubclass(type(value), _LASTING) else [value]), {id(value)}
    while todo and len(seen) < MOST:
        part = todo.popleft()
        if is_finalised(type(part)) or has_callback(part):
            return True
        for inner in _parts(part):
            if gc.is_tracked(inner) and id(inner) not in seen and not issubclass(type(inner), _LASTING):
                seen.add(id(inner))
                todo.append(inner)
                if len(seen) == MOST:
                    break
    return False


def _parts(value: Any) -> list[Any]:
    if type(value) is types.FunctionType:
        return [*(value.__closure__ or ()), *(value.__defaults__ or ())]
    if type(value) is types.TracebackType:
        return [value.tb_next, *_held_by_frame(value.tb_frame)]
    return gc.get_referents(value)


def _held_by_frame(frame: types.FrameType) -> list[Any]:
    """The objects in the locals and on the stack of a frame that has ended; nothing for a frame that is running."""
    back = frame.f_back
    held = [each for each in gc.get_referents(frame) if each is not back]
    return [each for each in held if type(each) is not types.FunctionType or each.__code__ is not frame.f_code]


@guard_kind
class EndsQuietly(Guard):
    """No code of the program runs when a local that the frame never reads is dropped."""

    source: Source
    kind: ClassVar[str] = "ENDS_QUIETLY"

    def check(self, code: CheckScope) -> str | None:
        value = code.read(self.source)
        return f"not (___is_tracked({value}) and ___may_run_code({value}))"

    def lines(self) -> list[str]:
        return [f"{self.source.name} ends without code of the program"]

    def explain(self, *seen: Any) -> Mismatch:
        words = f"code of the program runs when {self.source.name} is dropped"
        return Mismatch(words, "an object without a finaliser", shown(seen[0]))
