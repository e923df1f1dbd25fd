"""Modules that the program imports for the first time in traced code."""

from __future__ import annotations

import sys

import pytest
import torch

import tracer
from tracer.errors import ImportFirst

X = torch.ones(3)
_SOURCES = {
    "first_plain": "value = 2\nloaded = []\n",
    "first_failing": "raise ValueError('no')\n",
    "first_package/__init__": "",
    "first_package/inner": "def doubled(x):\n    return x * 2\n",
    "first_asking": "import torch\nvalue = torch.is_autocast_enabled('cpu') + 2 * torch.is_grad_enabled()\n",
    "first_reading": "import first_settings\nvalue = first_settings.value\n",
    "first_settings": "value = 1\n",
}


@pytest.fixture(autouse=True)
def modules(tmp_path, monkeypatch):
    for name, text in _SOURCES.items():
        path = tmp_path / f"{name}.py"
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield
    for name in [name for name in sys.modules if name.startswith("first_")]:
        del sys.modules[name]
    ImportFirst.tried.clear()


def whole(fn, *args):
    return tracer.compile(fn, backend="eager", fullgraph=True)(*args)


def test_a_module_is_imported_before_the_frame_is_traced():
    def fn(x):
        import first_plain

        return x * first_plain.value

    assert "first_plain" not in sys.modules
    assert whole(fn, X).tolist() == [2.0] * 3


def test_a_module_of_a_package_is_imported_with_it():
    def fn(x, seen):
        seen.append(1)
        from first_package import inner

        return inner.doubled(x)

    seen = []
    assert whole(fn, X, seen).tolist() == [2.0] * 3 and seen == [1]


def test_a_module_that_sees_what_the_program_has_changed_is_imported_by_cpython():
    import first_settings

    def fn(x):
        first_settings.value = 5
        import first_reading

        return x * first_reading.value

    assert tracer.compile(fn, backend="eager")(X).tolist() == [5.0] * 3


@torch.autocast("cpu", dtype=torch.bfloat16)
def under_autocast(x):
    import first_asking

    return x.to(torch.float64) * first_asking.value


def test_a_module_is_imported_with_the_settings_of_torch_that_the_program_has_there():
    with torch.no_grad():
        assert whole(under_autocast, X).tolist() == [1.0] * 3
    assert not torch.is_autocast_enabled("cpu")


def test_a_module_is_imported_by_cpython_where_other_contexts_are_open():
    def fn(x):
        with torch.inference_mode():
            import first_asking

            return x * first_asking.value

    assert tracer.compile(fn, backend="eager")(X).tolist() == [0.0] * 3


@pytest.mark.parametrize("name", ["first_failing", "first_absent"])
def test_an_import_that_fails_raises_where_the_program_has_it(name):
    def fn(x):
        try:
            x = _import(name, x)
        except (ImportError, ValueError) as error:
            return x + 1, type(error).__name__
        return x, ""

    assert tracer.compile(fn, backend="eager")(X)[1] in ("ValueError", "ModuleNotFoundError")


def _import(name, x):
    if name == "first_failing":
        import first_failing

        return x * first_failing.value
    import first_absent

    return x * first_absent.value


class Base:
    pass


class One(Base):
    factor = 2


class Other(Base):
    factor = 3


def test_the_subclasses_of_a_class_are_walked():
    def fn(x):
        todo, total = Base.__subclasses__(), 0
        while todo:
            cls = todo.pop()
            todo += cls.__subclasses__()
            total += cls.factor
        return x * total

    traced = tracer.compile(fn, backend="eager", fullgraph=True)
    assert traced(X).tolist() == [5.0] * 3

    class Third(One):
        factor = 4

    assert traced(X).tolist() == [9.0] * 3
