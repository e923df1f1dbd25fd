"""Sources: names, equality, and the three readings (check_fn text, bytecode, values), none of which runs user code."""

import collections
import pickle
import types

import pytest
import torch

from tracer.guards.code import CheckCode
from tracer.sources.attributes import (
    AttrSource,
    ClassAttrSource,
    GenericAttrSource,
    InstanceDictSource,
    TypeLookupSource,
    TypeSource,
)
from tracer.sources.base import FrameValues
from tracer.sources.containers import DictKeySource, DictValueSource, ItemSource
from tracer.sources.functions import (
    CellContentsSource,
    ClosureCellSource,
    CodeSource,
    DefaultSource,
    DefaultsSource,
    FunctionGlobalsSource,
    FunctionNamespaceSource,
    KwDefaultSource,
    KwDefaultsSource,
    MethodFuncSource,
    MethodSelfSource,
)
from tracer.sources.roots import (
    ArgumentSource,
    BuiltinSource,
    CellSource,
    FreeVarSource,
    GlobalSource,
    GlobalsSource,
    LocalSource,
    ModuleGlobalsSource,
    ModuleNamespaceSource,
    ModuleSource,
    ObjectSource,
)
from tracer.sources.tensors import GradSource, StorageOffsetSource, TensorSizeSource, TensorStrideSource

a_global = {"k": [1, 2, 3]}
X = LocalSource("x")


class Slotted:
    __slots__ = ("s",)

    def __init__(self):
        self.s = "in a slot"


class Hostile:
    """Every way in which reading an instance could run user code."""

    calls = 0

    def __init__(self):
        object.__setattr__(self, "own", "instance value")

    def __getattribute__(self, name):
        Hostile.calls += 1
        raise RuntimeError("user code ran")

    __getattr__ = __getattribute__

    @property
    def __class__(self):
        Hostile.calls += 1
        raise RuntimeError("user code ran")


class HostileList(list):
    def __getitem__(self, index):
        raise RuntimeError("user code ran")

    __len__ = __iter__ = __getitem__


class HostileDict(dict):
    def __getitem__(self, key):
        raise RuntimeError("user code ran")

    __len__ = __iter__ = keys = values = __contains__ = __getitem__


class HostileKey:
    def __init__(self):
        self.armed = False

    def __hash__(self):
        if self.armed:
            raise RuntimeError("user code ran")
        return 7

    __eq__ = object.__eq__


def armed_dict():
    key = HostileKey()
    mapping = {"first": 1, key: "found"}
    key.armed = True
    return mapping


class Base:
    inherited = "from the base"


class Derived(Base):
    own = staticmethod(len)


def make_closure():
    free = ["free value"]

    def inner(p=1, *, q="kw"):
        return free

    return inner


class Methods:
    def method(self):
        return self


T = torch.arange(24.0).reshape(2, 3, 4)[:, 1:]
LEAF = torch.ones(2, requires_grad=True)
LEAF.grad = torch.full((2,), 3.0)
BOUND = Methods().method
FUNCTION = make_closure()
SEQUENTIAL = torch.nn.Sequential(torch.nn.Identity())

# source, value of local x, name, value
CASES = [
    (X, 5, "L['x']", 5),
    (GlobalSource("a_global"), None, "G['a_global']", a_global),
    (GlobalsSource(), None, "G", globals()),
    (BuiltinSource("len"), None, "G['__builtins__']['len']", len),
    (ModuleSource("torch"), None, "sys.modules['torch']", torch),
    (ModuleGlobalsSource("torch", "add"), None, "sys.modules['torch'].add", torch.add),
    (ModuleNamespaceSource("torch"), None, "sys.modules['torch'].__dict__", torch.__dict__),
    (ObjectSource(torch, "the torch"), None, "the torch", torch),
    (AttrSource(X, "own"), Hostile(), "L['x'].own", "instance value"),
    (AttrSource(X, "s"), Slotted(), "L['x'].s", "in a slot"),
    (ItemSource(AttrSource(X, "_modules"), "0"), SEQUENTIAL, "L['x']._modules['0']", SEQUENTIAL[0]),
    (InstanceDictSource(X), torch.nn.Identity(), "L['x'].__dict__", None),
    (TypeSource(X), Hostile(), "type(L['x'])", Hostile),
    (ClassAttrSource(X, "own"), Derived, "L['x'].__dict__['own']", Derived.__dict__["own"]),
    (TypeLookupSource(X, "inherited"), Derived, "L['x'].inherited", "from the base"),
    (GenericAttrSource(X, "start"), range(3, 5), "L['x'].start", 3),
    (ItemSource(X, 1), [1, "b"], "L['x'][1]", "b"),
    (ItemSource(X, -1), (1, "b"), "L['x'][-1]", "b"),
    (ItemSource(X, "k"), {"k": 2}, "L['x']['k']", 2),
    (ItemSource(X, "k", exact=True), {"k": 2}, "L['x']['k']", 2),
    (ItemSource(X, 0.5), {0.5: 2}, "L['x'][0.5]", 2),
    (ItemSource(X, torch.float32), {torch.float32: 2}, "L['x'][torch.float32]", 2),
    (ItemSource(X, 0), HostileList(["ok"]), "L['x'][0]", "ok"),
    (ItemSource(X, "k"), HostileDict(k="ok"), "L['x']['k']", "ok"),
    (ItemSource(X, 1), collections.deque([1, 2]), "L['x'][1]", 2),
    (ItemSource(X, "own"), Derived.__dict__, "L['x']['own']", Derived.__dict__["own"]),
    (DictKeySource(X, 1), {"a": 1, "b": 2}, "list(L['x'])[1]", "b"),
    (DictValueSource(X, 1), armed_dict(), "list(L['x'].values())[1]", "found"),
    (ItemSource(X, DictKeySource(X, 1)), armed_dict(), "L['x'][list(L['x'])[1]]", "found"),
    (DefaultSource(X, 0), FUNCTION, "L['x'].__defaults__[0]", 1),
    (DefaultsSource(X), FUNCTION, "L['x'].__defaults__", FUNCTION.__defaults__),
    (KwDefaultSource(X, "q"), FUNCTION, "L['x'].__kwdefaults__['q']", "kw"),
    (KwDefaultsSource(X), FUNCTION, "L['x'].__kwdefaults__", FUNCTION.__kwdefaults__),
    (ClosureCellSource(X, 0), FUNCTION, "L['x'].__closure__[0]", FUNCTION.__closure__[0]),
    (
        CellContentsSource(ClosureCellSource(X, 0)),
        FUNCTION,
        "L['x'].__closure__[0].cell_contents",
        FUNCTION.__closure__[0].cell_contents,
    ),
    (CellContentsSource(X), types.CellType(4), "L['x'].cell_contents", 4),
    (FunctionGlobalsSource(X, "a_global"), FUNCTION, "L['x'].__globals__['a_global']", a_global),
    (FunctionNamespaceSource(X), FUNCTION, "L['x'].__globals__", globals()),
    (CodeSource(X), FUNCTION, "L['x'].__code__", FUNCTION.__code__),
    (MethodSelfSource(X), BOUND, "L['x'].__self__", BOUND.__self__),
    (MethodFuncSource(X), BOUND, "L['x'].__func__", Methods.method),
    (TensorSizeSource(X, 1), T, "L['x'].size()[1]", 2),
    (TensorStrideSource(X, 0), T, "L['x'].stride()[0]", 12),
    (StorageOffsetSource(X), T, "L['x'].storage_offset()", 4),
    (GradSource(X), LEAF, "L['x'].grad", LEAF.grad),
]
IDS = [case[2] for case in CASES]


def root_frame(x):
    pass


class StackMachine:
    """Executes what `emit` says on real values: the protocol of code generators, interpreted."""

    NULL = object()

    def __init__(self, values):
        self.values = values
        self.stack = []

    def load_local(self, name):
        self.stack.append(self.values.locals[name])

    def load_global(self, name):
        found = self.values.globals if name in self.values.globals else self.values.builtins
        self.stack.append(found[name])

    def load_builtin(self, name):
        self.stack.append(self.values.builtins[name])

    def load_cell_contents(self, name):
        self.stack.append(self.values.closure[name].cell_contents)

    def load_closure_cell(self, name):
        self.stack.append(self.values.closure[name])

    def load_const(self, value):
        compile(repr(value), "", "eval")
        self.stack.append(value)

    def load_object(self, obj):
        self.stack.append(obj)

    def load_attr(self, name):
        self.stack.append(getattr(self.stack.pop(), name))

    def load_callable(self, obj):
        self.stack += [self.NULL, obj]

    def getitem(self):
        key = self.stack.pop()
        self.stack.append(self.stack.pop()[key])

    def call(self, nargs):
        args = [self.stack.pop() for _ in range(nargs)][::-1]
        function = self.stack.pop()
        assert self.stack.pop() is self.NULL
        self.stack.append(self.values.globals if function is globals else function(*args))

    def source(self, source):
        source.emit(self)


def values_of(x):
    builtins = __builtins__ if isinstance(__builtins__, dict) else vars(__builtins__)
    return FrameValues({"x": x}, globals(), {}, builtins)


def read_by_check_fn(source, x):
    code = CheckCode(root_frame.__code__, globals())
    result = code.read(source)
    text = "\n".join(["def read(x):", *[f"    {line}" for line in code.body], f"    return {result}"])
    exec(text, code.namespace)
    return code.namespace["read"](x)


def same(value, expected):
    return value is expected or value == expected


@pytest.mark.parametrize(("source", "x", "name", "expected"), CASES, ids=IDS)
class TestEachKind:
    def test_its_name_is_what_logs_show(self, source, x, name, expected):
        assert source.name == str(source) == name

    def test_get_and_check_fn_and_bytecode_read_the_same_value(self, source, x, name, expected):
        value = source.get(values_of(x))
        assert expected is None or same(value, expected)
        assert same(read_by_check_fn(source, x), value)
        machine = StackMachine(values_of(x))
        source.emit(machine)
        assert len(machine.stack) == 1 and same(machine.stack[0], value)

    def test_reading_something_else_raises_an_ordinary_error(self, source, x, name, expected):
        if source.base is None or type(source) in (TypeSource, InstanceDictSource):
            return
        for read in (source.get, lambda values: read_by_check_fn(source, values.locals["x"])):
            with pytest.raises((TypeError, AttributeError, KeyError, IndexError, ValueError)):
                read(values_of(object()))

    def test_it_is_equal_to_its_copy_and_survives_pickling(self, source, x, name, expected):
        kind, fields = source.__reduce__()
        copy = kind(*fields)
        assert copy == source and hash(copy) == hash(source) and copy.name == name
        if not isinstance(source, ObjectSource):
            assert pickle.loads(pickle.dumps(source)) == source


@pytest.mark.parametrize(("args", "kwargs"), [((0, "found"), {}), ((0,), {"name": "found"}), ((0, "found"), {"name": "other"})])
def test_an_argument_is_read_at_its_index_or_else_by_its_name(args, kwargs):
    source = ArgumentSource("name", 1, "args", "kwargs")
    values = FrameValues({"args": args, "kwargs": kwargs}, {}, {}, {})
    code = CheckCode((lambda *args, **kwargs: None).__code__, {})
    machine = StackMachine(values)
    source.emit(machine)
    assert source.get(values) == eval(source.read(code), {"args": args, "kwargs": kwargs}) == machine.stack[0] == "found"
    assert source.name == "L['name']" and pickle.loads(pickle.dumps(source)) == source


def test_no_user_code_ran():
    assert Hostile.calls == 0


def test_sources_of_different_kind_or_field_differ():
    sources = [case[0] for case in CASES]
    different = {source for source in sources}
    assert len(different) == len({(type(s), s.name) for s in sources})
    assert LocalSource("x") != FreeVarSource("x")
    assert ItemSource(X, 1) != ItemSource(X, "1")


def test_exact_changes_how_an_item_is_loaded_and_not_which_it_is():
    assert ItemSource(X, 0, exact=True) == ItemSource(X, 0)
    assert len({ItemSource(X, 0, exact=True), ItemSource(X, 0)}) == 1


def test_root_is_the_beginning_of_the_path():
    assert TensorSizeSource(ItemSource(AttrSource(X, "l"), 0), 1).root() is X


def test_free_variables_are_read_through_the_closure_of_the_calling_function():
    function = make_closure()
    code = CheckCode(function.__code__, globals())
    assert code.read(CellSource("free")) == "___closure[0]"
    assert code.read(FreeVarSource("free")) == "v1" and code.body == ["v1 = ___closure[0].cell_contents"]
    values = FrameValues({}, globals(), {"free": function.__closure__[0]})
    assert FreeVarSource("free").get(values) == ["free value"]
    assert CellSource("free").get(values) is function.__closure__[0]
    machine = StackMachine(values)
    FreeVarSource("free").emit(machine)
    CellSource("free").emit(machine)
    assert machine.stack == [["free value"], function.__closure__[0]]


def test_an_empty_cell_cannot_be_read():
    values = FrameValues(closure={"free": types.CellType()})
    with pytest.raises(ValueError):
        FreeVarSource("free").get(values)


def test_sizes_are_read_without_running_a_torch_function_mode():
    class Mode(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            raise RuntimeError("user code ran")

    class Subclass(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            raise RuntimeError("user code ran")

    wrapped = torch.ones(2, 3).as_subclass(Subclass)
    with Mode():
        for tensor in (T, wrapped):
            values = values_of(tensor)
            size = TensorSizeSource(X, 0)
            assert size.get(values) == 2 == read_by_check_fn(size, tensor)
            assert TensorStrideSource(X, 0).get(values) and StorageOffsetSource(X).get(values) >= 0
            assert GradSource(X).get(values) is None


def test_a_path_is_read_once():
    code = CheckCode(root_frame.__code__, globals())
    weights = AttrSource(X, "_parameters")
    code.read(ItemSource(weights, "a"))
    code.read(ItemSource(weights, "b"))
    assert code.body == ["v1 = ___raw_attr(x, '_parameters')", "v2 = ___item(v1, 'a')", "v3 = ___item(v1, 'b')"]
