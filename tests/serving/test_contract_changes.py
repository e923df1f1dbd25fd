"""Contracts of a program before and after a change: each of 60 changes is found with a witness, 20 rewritings change nothing."""

from __future__ import annotations

import contextlib
import enum
import functools
import json

import pytest
import torch

import tracer
from tracer.__main__ import main
from tracer.serving.contract import Contract, difference
from tracer.serving.contract_changes import KINDS


class Mode(enum.Enum):
    FAST = 1
    EXACT = 2


class Scaled(torch.nn.Module):
    def __init__(self, width=3):
        super().__init__()
        self.linear = torch.nn.Linear(width, width)

    def forward(self, x):
        return self.linear(x)


def base(x, y, n=3, flag=True, mode=Mode.FAST):
    """Two entries: up to 4 rows, and more."""
    z = x * 2 if x.shape[0] <= 4 else x + 1
    return z.sum(1), y * n


SPEC = "x: B, S; y: B, 3; B in 1..16; S in 1..32"
X, Y = torch.ones(3, 5), torch.ones(3, 3)


def contract(program=base, spec=SPEC, args=(X, Y), kwargs=None, mode=contextlib.nullcontext, max_entries=64):
    compiled = tracer.compile(program)
    with mode():
        tracer.precompile(compiled, spec, args, kwargs=kwargs, max_entries=max_entries)
    return Contract(json.loads(compiled.contract().text()))  # as another process reads it


known = functools.cache(contract)  # of a program that several cases start from


# -- programs that do otherwise ------------------------------------------------------------------------------------------


def threshold(x, y, n=3, flag=True, mode=Mode.FAST):
    z = x * 2 if x.shape[0] <= 8 else x + 1
    return z.sum(1), y * n


def no_threshold(x, y, n=3, flag=True, mode=Mode.FAST):
    return x.sum(1), y * n


def more_regions(x, y, n=3, flag=True, mode=Mode.FAST):
    z = x * 2 if x.shape[0] <= 4 else x + 1
    return (z.cos() if x.shape[1] % 8 == 0 else z.sin()).sum(1), y * n


def refuses(x, y, n=3, flag=True, mode=Mode.FAST):
    if x.shape[0] % 3 == 2:
        raise ValueError
    return (x * 2 if x.shape[0] <= 4 else x + 1).sum(1), y * n


def refuses_long(x, y, n=3, flag=True, mode=Mode.FAST):
    if x.shape[1] > 30:
        raise ValueError
    return (x * 2 if x.shape[0] <= 4 else x + 1).sum(1), y * n


def repeated(x, y, n=3, flag=True, mode=Mode.FAST):
    z = x * 2 if x.shape[0] <= 4 else x + 1
    return z.repeat(2, 1).sum(1), y * n


def repeated_where_large(x, y, n=3, flag=True, mode=Mode.FAST):
    z = x * 2 if x.shape[0] <= 4 else (x + 1).repeat(2, 1)
    return z.sum(1), y * n


def longer(x, y, n=3, flag=True, mode=Mode.FAST):
    z = x * 2 if x.shape[0] <= 4 else x + 1
    return torch.nn.functional.pad(z.sum(1), (0, 1)), y * n


def other_axis(x, y, n=3, flag=True, mode=Mode.FAST):
    z = x * 2 if x.shape[0] <= 4 else x + 1
    return z.sum(0), y * n


def unsummed(x, y, n=3, flag=True, mode=Mode.FAST):
    return x * 2 if x.shape[0] <= 4 else x + 1, y * n


def keeps_dim(x, y, n=3, flag=True, mode=Mode.FAST):
    z = x * 2 if x.shape[0] <= 4 else x + 1
    return z.sum(1, keepdim=True), y * n


def one_output(x, y, n=3, flag=True, mode=Mode.FAST):
    z = x * 2 if x.shape[0] <= 4 else x + 1
    return z.sum(1) + (y * n).sum(1)


def three_outputs(x, y, n=3, flag=True, mode=Mode.FAST):
    z = x * 2 if x.shape[0] <= 4 else x + 1
    return z.sum(1), y * n, z + 1


def swapped(x, y, n=3, flag=True, mode=Mode.FAST):
    z = x * 2 if x.shape[0] <= 4 else x + 1
    return y * n, z.sum(1)


def doubled(x, y, n=3, flag=True, mode=Mode.FAST):
    z = x * 2 if x.shape[0] <= 4 else x + 1
    return z.sum(1).double(), y * n


def counted(x, y, n=3, flag=True, mode=Mode.FAST):
    z = x * 2 if x.shape[0] <= 4 else x + 1
    return z.sum(1), (y * n).long()


def compared(x, y, n=3, flag=True, mode=Mode.FAST):
    z = x * 2 if x.shape[0] <= 4 else x + 1
    return z.sum(1) > 0, y * n


def mixes_rows(x, y, n=3, flag=True, mode=Mode.FAST):
    z = x * 2 if x.shape[0] <= 4 else x + 1
    return z.sum(1) - z.mean(), y * n


def mixes_rows_where_large(x, y, n=3, flag=True, mode=Mode.FAST):
    z = x * 2 if x.shape[0] <= 4 else x - x.mean(0)
    return z.sum(1), y * n


def detached(x, y, n=3, flag=True, mode=Mode.FAST):
    z = x * 2 if x.shape[0] <= 4 else x + 1
    return z.sum(1).detach(), y * n


def fewer_parameters(x, y, n=3, flag=True):
    z = x * 2 if x.shape[0] <= 4 else x + 1
    return z.sum(1), y * n


def more_parameters(x, y, n=3, flag=True, mode=Mode.FAST, scale=None):
    z = x * 2 if x.shape[0] <= 4 else x + 1
    return z.sum(1), y * n


def other_order(y, x, n=3, flag=True, mode=Mode.FAST):
    z = x * 2 if x.shape[0] <= 4 else x + 1
    return z.sum(1), y * n


def of_modules(model, x):
    return model(x)


def grown(x, n):
    return x.sum() + torch.arange(n + 4).sum()


MODULE = "x: B, 3; B in 1..8"
X3 = torch.ones(3, 3)
leaf = X.clone().requires_grad_()
turned = torch.ones(5, 3).t()


def given(**kwargs):
    return functools.partial(contract, kwargs=kwargs)


def in_mode(mode):
    return functools.partial(contract, mode=mode)


def with_spec(spec, args=(X, Y), program=base):
    return functools.partial(contract, program, spec, args)


def of_module(change=lambda model: model, x=X3):
    return functools.partial(contract, of_modules, MODULE, (change(Scaled().eval().requires_grad_(False)), x))


def variants(*given, spec=SPEC):
    def made():
        compiled = tracer.compile(base, shapes=spec)
        tracer.precompile(compiled, given)
        return Contract(json.loads(compiled.contract().text()))

    return made


PLAIN, LARGE = tracer.Variant((X, Y), name="plain"), tracer.Variant((X.double(), Y), name="double")
autocast = functools.partial(torch.autocast, "cpu", torch.bfloat16)

CHANGES = [  # before (None: `base`), after, the kind that is found, words of the difference
    # dtypes
    (None, with_spec(SPEC, (X.half(), Y)), "dtypes", "dtype of x was float32, and is float16"),
    (None, with_spec(SPEC, (X.long(), Y)), "dtypes", "dtype of x was float32, and is int64"),
    (None, with_spec(SPEC, (X, Y.bfloat16())), "dtypes", "dtype of y was float32, and is bfloat16"),
    (None, with_spec(SPEC, (X > 0, Y)), "dtypes", "dtype of x was float32, and is bool"),
    (of_module(), of_module(lambda model: model.double(), X3.double()), "dtypes", "dtype of model was float32, and is float64"),
    # devices and layouts
    (None, with_spec(SPEC, (X.to("meta"), Y.to("meta"))), "devices", "device of x was cpu, and is meta"),
    (of_module(), of_module(lambda model: model.to("meta"), X3.to("meta")), "devices", "device of model was cpu, and is meta"),
    (None, with_spec(SPEC, (turned, Y)), "layouts", "x.stride()[0] was S, and is 1"),
    (None, with_spec(SPEC, (X, torch.ones(3, 3).t())), "layouts", "y.stride()[0] was 3, and is 1"),
    # gradients
    (None, with_spec(SPEC, (leaf, Y)), "gradients", "requires_grad of x was False, and is True"),
    (with_spec(SPEC, (leaf, Y)), None, "gradients", "requires_grad of x was True, and is False"),
    # modes
    (in_mode(torch.no_grad), None, "modes", "grad_mode was False, and is True"),
    (None, in_mode(torch.no_grad), "modes", "grad_mode was True, and is False"),
    (in_mode(torch.no_grad), in_mode(torch.inference_mode), "modes", "inference_mode was False, and is True"),
    (None, in_mode(autocast), "modes", "autocast_cpu was False, and is True"),
    (in_mode(autocast), in_mode(functools.partial(torch.autocast, "cpu", torch.float16)), "modes", "autocast_cpu_dtype"),
    (of_module(), of_module(lambda model: model.train()), "modes", "training of model was False, and is True"),
    # arguments
    (None, given(n=4), "arguments", "n was 3, and is 4"),
    (None, given(n=2.5), "arguments", "n was an int, and is a float"),
    (None, given(flag=False), "arguments", "flag was True, and is False"),
    (None, given(flag=None), "arguments", "flag was a bool, and is None"),
    (None, given(mode=Mode.EXACT), "arguments", "mode was Mode.FAST, and is Mode.EXACT"),
    (None, given(mode="fast"), "arguments", "mode was a Mode, and is a str"),
    (None, functools.partial(contract, fewer_parameters), "arguments", "mode was a Mode, and is not there"),
    (None, functools.partial(contract, more_parameters), "arguments", "scale was not there, and is None"),
    (None, with_spec(SPEC, (Y, X), other_order), "arguments", "the parameters were x, y, n, flag, mode, and are y, x,"),
    (None, with_spec("x: B, S; B in 1..16; S in 1..32", (X, 2)), "arguments", "y was a Tensor, and is an int"),
    # shapes
    (None, with_spec(SPEC.replace("B in 1..16", "B in 1..15")), "shapes", "lost: B = 16"),
    (None, with_spec(SPEC.replace("B in 1..16", "B in 2..16")), "shapes", "lost: B = 1"),
    (None, with_spec(SPEC.replace("B in 1..16", "B in 0..16")), "shapes", "gained: B = 0"),
    (None, with_spec(SPEC.replace("S in 1..32", "S in 1..64")), "shapes", "gained: "),
    (None, with_spec(SPEC.replace("S in 1..32", "S in 1..")), "shapes", "gained: "),
    (None, with_spec(SPEC.replace("S in 1..32", "S in 5..30 by 5")), "shapes", "lost: "),
    (None, with_spec(SPEC + "; B <= S"), "shapes", "lost: "),
    (None, with_spec(SPEC + "; B + S <= 20"), "shapes", "lost: "),
    (None, with_spec(SPEC.replace("x: B, S", "x: B, 5").replace("; S in 1..32", "")), "shapes", "lost: "),
    (None, with_spec(SPEC.replace("x: B, S", "x: B, _").replace("; S in 1..32", "")), "shapes", "lost: "),
    (with_spec(SPEC.replace("x: B, S", "x: B, _").replace("; S in 1..32", "")), None, "shapes", "gained: "),
    (None, with_spec(SPEC.replace("y: B, 3", "y: B, T")), "shapes", "gained: "),
    (None, with_spec(SPEC.replace("y: B, 3", "y: T, 3")), "shapes", "gained: "),
    (
        None,
        with_spec(SPEC.replace("y: B, 3", "y: B + 1, 3"), (X, torch.ones(4, 3))),
        "shapes",
        "y'].size()[0] was B, and is B + 1",
    ),
    (None, with_spec(SPEC.replace("y: B, 3", "y: B, 4"), (X, torch.ones(3, 4))), "shapes", "y.size()[1] was 3, and is 4"),
    (None, with_spec(SPEC.replace("y: B, 3", "y: B, 3, 2"), (X, torch.ones(3, 3, 2))), "shapes", "y had 2 dims, and has 3"),
    (with_spec("n: N; N in 0..9", (X, 3), grown), with_spec("n: N; N in -2..9", (X, 3), grown), "shapes", "gained: N = -"),
    (with_spec("n: N; x: B, _; N in 0..9", (X, 3), grown), with_spec("x: B, _", (X, 3), grown), "shapes", "lost: "),
    (None, with_spec(SPEC, program=refuses), "shapes", "lost: B = "),
    (None, with_spec(SPEC, program=refuses_long), "shapes", "lost: B = "),
    # regions
    (None, with_spec(SPEC, program=threshold), "regions", "were served by one entry, and are by two now"),
    (None, with_spec(SPEC, program=no_threshold), "regions", "were served by two entries, and are by one now"),
    (None, with_spec(SPEC, program=more_regions), "regions", "were served by one entry, and are by two now"),
    # outputs
    (None, with_spec(SPEC, program=repeated), "outputs", "size 0 of output 0 was B, and is 2*B"),
    (None, with_spec(SPEC, program=repeated_where_large), "outputs", "size 0 of output 0 was B, and is 2*B"),
    (None, with_spec(SPEC, program=longer), "outputs", "size 0 of output 0 was B, and is B + 1"),
    (None, with_spec(SPEC, program=other_axis), "outputs", "size 0 of output 0 was B, and is S"),
    (None, with_spec(SPEC, program=unsummed), "outputs", "output 0 had 1 dims, and has 2"),
    (None, with_spec(SPEC, program=keeps_dim), "outputs", "output 0 had 1 dims, and has 2"),
    (None, with_spec(SPEC, program=one_output), "outputs", "there were 2, and are 1"),
    (None, with_spec(SPEC, program=three_outputs), "outputs", "there were 2, and are 3"),
    (None, with_spec(SPEC, program=swapped), "outputs", "output 1 had 2 dims, and has 1"),
    (None, with_spec(SPEC, program=doubled), "outputs", "output 0 was float32 on cpu, and is float64 on cpu"),
    (None, with_spec(SPEC, program=counted), "outputs", "output 1 was float32 on cpu, and is int64 on cpu"),
    (None, with_spec(SPEC, program=compared), "outputs", "output 0 was float32 on cpu, and is bool on cpu"),
    (with_spec(SPEC, (leaf, Y)), with_spec(SPEC, (leaf, Y), detached), "outputs", "was float32 on cpu, requires grad, and is"),
    # rows
    (None, with_spec(SPEC, program=mixes_rows), "rows", "rows along B were independent, and may depend"),
    (None, with_spec(SPEC, program=mixes_rows_where_large), "rows", "rows along B were independent, and may depend"),
    # certificate
    (None, functools.partial(contract, max_entries=1), "certificate", "it was certified, and is not any more"),
    # variants
    (
        variants(PLAIN, LARGE),
        variants(PLAIN, tracer.Variant((X, Y), {"flag": False}, name="double")),
        "arguments",
        "double: flag",
    ),
    (variants(PLAIN, LARGE), None, "variants", "'double' was there, and is not any more"),
    (None, variants(PLAIN, LARGE), "variants", "was not there, and is now"),
]


@pytest.mark.parametrize(("before", "after", "kind", "words"), CHANGES, ids=[f"{row[2]}: {row[3]}" for row in CHANGES])
def test_a_change_is_found_with_a_witness(before, after, kind, words):
    found = difference((before or known)(), (after or known)())
    of_kind = [str(each) for each in found.changes if each.kind == kind]
    assert found.status == "different" and any(words in text for text in of_kind), str(found)
    left = difference((before or known)(), (after or known)(), ignore=[each.kind for each in found.changes])
    assert left.status == "equivalent", str(left)


def test_at_least_sixty_changes_of_every_kind_are_tried():
    of_other_files = {"breaks"}  # tests/serving/test_breaks.py
    assert len(CHANGES) >= 60 and {row[2] for row in CHANGES} | of_other_files == set(KINDS)


# -- programs and specs that say the same in other words ------------------------------------------------------------------


def renamed(data, other, n=3, flag=True, mode=Mode.FAST):
    rows = data.shape[0]
    result = data * 2 if rows <= 4 else data + 1
    return result.sum(1), other * n


def turned_round(x, y, n=3, flag=True, mode=Mode.FAST):
    z = x * 2 if 4 >= x.shape[0] else x + 1
    return z.sum(1), y * n


def negated(x, y, n=3, flag=True, mode=Mode.FAST):
    z = x + 1 if not x.shape[0] <= 4 else x * 2
    return z.sum(1), y * n


def strict(x, y, n=3, flag=True, mode=Mode.FAST):
    z = x * 2 if x.shape[0] < 5 else x + 1
    return z.sum(1), y * n


def multiplied(x, y, n=3, flag=True, mode=Mode.FAST):
    z = x * 2 if 3 * x.shape[0] < 15 else x + 1
    return z.sum(1), y * n


def divided(x, y, n=3, flag=True, mode=Mode.FAST):
    z = x * 2 if x.shape[0] // 5 == 0 else x + 1
    return z.sum(1), y * n


def by_elements(x, y, n=3, flag=True, mode=Mode.FAST):
    z = x * 2 if x.numel() <= 4 * x.shape[1] else x + 1
    return z.sum(1), y * n


def by_another_place(x, y, n=3, flag=True, mode=Mode.FAST):
    z = x * 2 if y.size(0) <= 4 else x + 1
    return z.sum(1), y * n


def with_helpers(x, y, n=3, flag=True, mode=Mode.FAST):
    def small(of):
        return of + of

    z = small(x) if len(x) <= 4 else torch.add(x, 1)
    return torch.sum(z, dim=-1), torch.mul(y, n)


def joined(x, y, n=3, flag=True, mode=Mode.FAST):
    z = x * 2 if x.shape[0] <= 4 else x + 1
    return torch.cat([z, z]).sum(1), y * n


REWRITINGS = {
    "sizes with other names": (None, with_spec("x: N, M; y: N, 3; N in 1..16; M in 1..32")),
    "sizes with their names exchanged": (None, with_spec("x: S, B; y: S, 3; S in 1..16; B in 1..32")),
    "parameters with other names": (None, with_spec("data: B, S; other: B, 3; B in 1..16; S in 1..32", program=renamed)),
    "other names of both": (None, with_spec("data: K, L; other: K, _; K in 1..16; L in 1..32", program=renamed)),
    "clauses in another order": (None, with_spec("S in 1..32; B in 1..16; y: B, 3; x: B, S")),
    "bounds as relations": (None, with_spec("x: B, S; y: B, 3; 1 <= B <= 16; S >= 1; S < 33")),
    "bounds with and": (None, with_spec("x: B, S; y: B, 3; B >= 1 and B <= 16 and S <= 32")),
    "bounds as dicts": (None, with_spec(tracer.ShapeSpec({"x": ["B", "S"], "y": ["B", 3]}, B=(1, 16), S={"max": 32}))),
    "a relation that follows": (None, with_spec(SPEC + "; B + S <= 48")),
    "a number that is not declared": (None, with_spec(SPEC.replace("y: B, 3", "y: B, _"))),
    "a size under two names": (None, with_spec(SPEC.replace("y: B, 3", "y: T, 3") + "; T == B")),
    "relations turned round": (with_spec(SPEC + "; B <= S"), with_spec(SPEC + "; S >= B")),
    "relations multiplied": (with_spec(SPEC + "; B <= S"), with_spec(SPEC + "; 2*B < 2*S + 1")),
    "terms in another order": (with_spec(SPEC + "; B*S <= 64"), with_spec(SPEC + "; not 64 < S*B")),
    "multiples as a relation": (
        with_spec(SPEC.replace("S in 1..32", "S in 5..30 by 5")),
        with_spec(SPEC.replace("S in 1..32", "S in 1..32; S % 5 == 0")),
    ),
    "computed sizes": (
        with_spec(SPEC.replace("y: B, 3", "y: 2*B + 2, 3"), (X, torch.ones(8, 3))),
        with_spec(SPEC.replace("y: B, 3", "y: (B + 1) * 2, 3"), (X, torch.ones(8, 3))),
    ),
    "another example": (None, with_spec(SPEC, (torch.zeros(9, 2), torch.zeros(9, 3)))),
    "an example by keywords": (None, with_spec(SPEC, {"x": X, "y": Y})),
    "an inequality turned round": (None, with_spec(SPEC, program=turned_round)),
    "a branch negated": (None, with_spec(SPEC, program=negated)),
    "a strict inequality": (None, with_spec(SPEC, program=strict)),
    "an inequality multiplied": (None, with_spec(SPEC, program=multiplied)),
    "a division": (None, with_spec(SPEC, program=divided)),
    "a count of elements": (None, with_spec(SPEC, program=by_elements)),
    "the same size of another argument": (None, with_spec(SPEC, program=by_another_place)),
    "helpers": (None, with_spec(SPEC, program=with_helpers)),
    "outputs in other words": (with_spec(SPEC, program=repeated), with_spec(SPEC, program=joined)),
    "variants in another order": (variants(PLAIN, LARGE), variants(LARGE, PLAIN)),
    "variants with other names": (variants(PLAIN, LARGE), variants((X, Y), (X.double(), Y))),
}


@pytest.mark.parametrize("rewriting", REWRITINGS)
def test_a_rewriting_is_proved_to_change_nothing(rewriting):
    before, after = ((each or known)() for each in REWRITINGS[rewriting])
    for old, new in ((before, after), (after, before)):
        assert difference(old, new).status == "equivalent", str(difference(old, new))


def test_a_contract_of_one_variant_is_taken_out_and_compared(tmp_path):
    both = variants(PLAIN, LARGE)()
    with pytest.raises(tracer.exc.UserError, match="several variants"):
        both.spec()
    with pytest.raises(tracer.exc.UserError, match="has no variant 'half'"):
        both.variant("half")
    plain = both.variant("plain")
    plain.save(tmp_path / "plain.json")
    assert difference(Contract.read(tmp_path / "plain.json"), known()).status == "equivalent"
    assert repr(plain.spec()) == repr(tracer.ShapeSpec(SPEC))
    assert [tracer.plan_buckets({3: 4}, 1, both.variant(name), size="B").buckets for name in ("plain", "double")] == [(3,), (3,)]


def test_the_command_ignores_what_it_is_told_to(tmp_path, capsys):
    known().save(tmp_path / "old.json")
    contract(threshold).save(tmp_path / "new.json")
    files = ["contract", "diff", str(tmp_path / "old.json"), str(tmp_path / "new.json")]
    assert main(files) == 1 and "regions: " in capsys.readouterr().out
    assert main([*files, "--ignore", "regions, rows"]) == 0
    assert main([*files, "--ignore", "everything"]) == 3 and "there are shapes, " in capsys.readouterr().err
