"""Sources: how a value is reached again from the inputs of a frame. One small frozen class per kind, by family.

`base` has what they share, `reading` the functions that read objects without running user code.
"""

from tracer.sources.attributes import (
    AttrSource,
    ClassAttrSource,
    GenericAttrSource,
    InstanceDictSource,
    TypeLookupSource,
    TypeSource,
)
from tracer.sources.base import FrameValues, ReadScope, RootSource, Source, SourceCodegen, source_kind
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
    BuiltinSource,
    CellSource,
    FreeVarSource,
    GlobalSource,
    GlobalsSource,
    HandledSource,
    LocalSource,
    ModuleGlobalsSource,
    ModuleNamespaceSource,
    ModuleSource,
    ObjectSource,
)
from tracer.sources.tensors import (
    ArrayTensorSource,
    GradSource,
    StorageOffsetSource,
    TensorSizeSource,
    TensorStrideSource,
)

__all__ = [
    "ArrayTensorSource",
    "AttrSource",
    "BuiltinSource",
    "CellContentsSource",
    "CellSource",
    "ClassAttrSource",
    "ClosureCellSource",
    "CodeSource",
    "DefaultSource",
    "DefaultsSource",
    "DictKeySource",
    "DictValueSource",
    "FrameValues",
    "FreeVarSource",
    "FunctionGlobalsSource",
    "FunctionNamespaceSource",
    "GenericAttrSource",
    "GlobalSource",
    "GlobalsSource",
    "GradSource",
    "HandledSource",
    "InstanceDictSource",
    "ItemSource",
    "KwDefaultSource",
    "KwDefaultsSource",
    "LocalSource",
    "MethodFuncSource",
    "MethodSelfSource",
    "ModuleGlobalsSource",
    "ModuleNamespaceSource",
    "ModuleSource",
    "ObjectSource",
    "ReadScope",
    "RootSource",
    "Source",
    "SourceCodegen",
    "StorageOffsetSource",
    "TensorSizeSource",
    "TensorStrideSource",
    "TypeLookupSource",
    "TypeSource",
    "source_kind",
]
