"""`observe_calls`: the variants of a module's calls, and the sizes that vary in each, from what a run of them shows."""

from __future__ import annotations

import time

import pytest
import torch

import tracer


class Model(torch.nn.Module):
    """Scales what it is given, whatever else it is called with."""

    def forward(self, x, mask=None, state=None, **more):
        return (x if mask is None else x * mask).cos() if state is None else x + state["count"]


def observed(run, module=None, **sizes):
    """The specs of the variants, by name."""
    module = Model() if module is None else module
    return {each.name: str(each.spec) for each in tracer.observe_calls(module, lambda **given: run(module, **given), **sizes)}


def test_a_stride_beyond_a_dim_that_never_varies_is_bounded_by_its_size():
    def run(call, B):
        for length in (5, 7, 9):
            call(torch.ones(B, length)[:, :3])

    assert observed(run, B=(2, 9)) == {"call 0": "<ShapeSpec x: 0: B; x strided N, 1; 2 <= B <= 9; 3 <= N <= 9>"}


def test_a_size_that_run_was_given_has_its_name_and_bounds():
    found = observed(lambda call, B, S: call(torch.ones(B, S, 4)), B=(1, 64), S=(2, 512))
    assert found == {"call 0": "<ShapeSpec x: 0: B, 1: S; 1 <= B <= 64; 2 <= S <= 512>"}


def test_other_sizes_are_computed_from_it_or_have_names_and_bounds_of_their_own():
    def run(call, S):
        for step in range(3):
            call(torch.ones(S, 2 * S + 1), mask=torch.ones(S + step, 1)[:1], state={"count": 0, "past": torch.ones(S + step + 7)})

    found = observed(run, S=(2, 9))
    assert list(found) == ["call 0"]
    assert found["call 0"] == "<ShapeSpec x: 0: S, 1: 2*S + 1; state['past']: 0: N; 2 <= S <= 9; 9 <= N <= 18>"


def test_ints_in_arguments_and_attributes_are_declared_as_sizes_are():
    class Cache:
        def __init__(self, length):
            self.length, self.limit = length, 40

    found = observed(lambda call, S: call(torch.ones(S), state={"count": S}, cache=Cache(S + 1)), S=(1, 9))
    assert found == {"call 0": "<ShapeSpec state['count']: 0: S; cache.length: 0: S + 1; x: 0: S; 1 <= S <= 9>"}


def test_a_size_that_grows_up_to_a_limit_or_from_one_is_found():
    def run(call, S):
        call(torch.ones(S), state={"count": 0, "window": torch.ones(min(S, 7)), "mask": torch.ones(max(S + 1, 9))})

    found = observed(run, S=(1, 30))
    assert "state['window']: 0: min(7, S); state['mask']: 0: max(9, S + 1);" in found["call 0"]


def test_the_type_of_an_int_that_is_declared_is_no_question():
    class Counting(torch.nn.Module):
        def forward(self, x, count):
            return x * count if type(count).__name__ == "int" else x

    model = tracer.compile_module(Counting())
    calls = tracer.observe_calls(model, lambda B: [model(torch.ones(B), n) for n in (3, 4, 9)], B=(2, 9))
    assert tracer.precompile(model, calls).certified


def test_calls_that_differ_in_more_than_sizes_are_variants():
    def run(call, B):
        call(torch.ones(B, 2))
        call(torch.ones(B, 2), torch.ones(B, 2))
        with torch.no_grad():
            call(torch.ones(B, 2, dtype=torch.float64))

    found = observed(run, B=(1, 8))
    assert list(found) == ["call 0", "call 1", "call 2"]
    assert "mask" in found["call 1"] and "mask" not in found["call 2"]


def test_a_kind_of_call_that_comes_at_one_edge_only_is_found_there():
    def run(call, B, S):
        call(torch.ones(B, S), **({} if S == 1 else {"mask": torch.ones(B, S)}))

    assert list(observed(run, B=(1, 8), S=(1, 8))) == ["call 0", "call 0 at B=1, S=1"]


def test_a_tensor_that_is_cut_out_of_others_has_strides_of_its_own():
    found = observed(lambda call, B, S: call(torch.ones(16, 40)[:B, :S], torch.ones(S, B).T), B=(1, 8), S=(1, 32))
    assert found["call 0"] == "<ShapeSpec x: 0: B, 1: S; mask: 0: B, 1: S; x strided 40, 1; 1 <= B <= 8; 1 <= S <= 32>"


def test_strides_that_vary_follow_one_another_and_go_beyond_the_inner_dims():
    """As in the cache of a window that slides: the last 7 tokens, cut out of all that there were."""

    def run(call, B, S):
        for past, whole in ((S, S), (S + 1, min(S, 7) + 1)):
            kept = (torch.ones(B, 2, whole, 4)[:, :, -7:] for _ in "kv")
            call(torch.ones(B), state={"count": 0, "past": past, **dict(zip("kv", kept))})

    (found,) = observed(run, B=(1, 8), S=(1, 30)).values()
    of_each = "; ".join(f"state['{name}'] strided 2*N1, N1, 4, 1" for name in "kv")
    assert f"; {of_each}; " in found
    assert found.endswith("; 0 <= N1 <= 120, N1 % 4 == 0; N1 >= 4*min(7, N)>")


def test_a_window_that_slides_is_certified_with_the_strides_that_it_has():
    class Window(torch.nn.Module):
        """Attends to the last 7 tokens; returns the state for the next token."""

        def forward(self, x, state=None):
            keys = x if state is None else torch.cat([state["keys"], x], 2)
            weights = (x @ keys.transpose(2, 3)).softmax(3)
            return weights @ keys, {"keys": keys[:, :, -7:]}

    model = tracer.compile_module(Window())

    @torch.no_grad()
    def run(B, S):
        out, state = model(torch.ones(B, 2, S, 4))
        for _ in range(3):
            out, state = model(out[:, :, -1:].contiguous(), state)
        return out

    found = tracer.precompile(model, tracer.observe_calls(model, run, B=(1, 8), S=(1, 20)))
    assert found.certified, str(found)
    tracer.seal(model)
    for B, S in ((1, 1), (1, 7), (3, 8), (8, 20), (5, 13)):
        seen = run(B, S)
        with tracer.set_stance("force_eager"):
            assert torch.equal(seen, run(B, S))
    assert tracer.stats(model)["sealed_misses"] == 0


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode, torch.enable_grad])
def test_what_is_observed_is_certified_for_the_mode_in_which_it_was_called(mode):
    model = tracer.compile_module(Model())

    def run(B, S):
        with mode():
            model(torch.ones(B, S))
            model(torch.ones(B, S), torch.ones(B, S))

    found = tracer.precompile(model, tracer.observe_calls(model, run, B=(1, 8), S=(1, 8)))
    assert found.certified and {each.modes for each in found.variants} == {(mode.__name__,)}
    tracer.seal(model)
    run(1, 7)
    run(8, 1)


def test_observing_compiles_nothing_and_leaves_no_hook():
    model = tracer.compile_module(Model())

    def run(B):
        model(torch.ones(B))
        raise LookupError

    with pytest.raises(LookupError):
        tracer.observe_calls(model, run, B=(1, 2))
    assert tracer.stats(model)["compiles"] == 0 and not model._forward_pre_hooks


def test_an_example_is_what_the_call_was_given_and_not_what_it_made_of_it():
    class Growing(torch.nn.Module):
        def forward(self, cache, x):
            cache["past"] = torch.cat([cache["past"], x])
            return cache["past"].sum()

    model = Growing()
    calls = tracer.observe_calls(model, lambda S: model({"past": torch.ones(S)}, torch.ones(1)), S=(2, 9))
    assert calls[0].example[0]["past"].shape == (3,)
    tracer.compile_module(model)
    assert tracer.precompile(model, calls).certified


def test_what_cannot_be_observed_is_an_error_that_says_so():
    with pytest.raises(tracer.exc.UserError, match="is not an nn.Module"):
        tracer.observe_calls(torch.cos, lambda: None)
    with pytest.raises(tracer.exc.UserError, match="Model was not called"):
        observed(lambda call, B: None, B=(1, 2))
    with pytest.raises(tracer.exc.UserError, match="more than 64 ways") as error:
        observed(lambda call, B: [call(torch.ones(B), text=str(number)) for number in range(99)], B=(1, 2))
    assert "structure at text" in str(error.value)


def test_the_seconds_of_each_variant_are_its_own():
    model = tracer.compile_module(Model())
    calls = tracer.observe_calls(model, lambda B: [model(torch.ones(B)), model(torch.ones(B), torch.ones(1))], B=(1, 9))
    start = time.perf_counter()
    assert tracer.precompile(model, calls).seconds <= time.perf_counter() - start
