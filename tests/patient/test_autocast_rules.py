"""CUDA's autocast rules on CPU tensors, cell by cell, against what is known and against torch's own CUDA kernels.

Seen on torch 2.13.0+cpu alone; no other release has run these.
"""

import json
import subprocess
import sys
import threading
import warnings

import pytest

torch = pytest.importorskip("torch")
F = torch.nn.functional

import autocast_cells  # noqa: E402

from attn_doctor.patient.simulate.autocast import lists as autocast_lists  # noqa: E402
from attn_doctor.patient.simulate.autocast import rules as autocast_rules  # noqa: E402
from attn_doctor.patient.simulate.autocast.rules import cuda_autocast_rules  # noqa: E402

H, S, B = torch.float16, torch.float32, torch.bfloat16


@pytest.fixture(scope="module")
def witness():
    """Dtypes by the C++ kernels of AutocastCUDA, on fake tensors: a process of its own, for it may abort."""
    command = [sys.executable, autocast_cells.__file__]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("name", autocast_cells.CALLS)
class TestDtypes:
    def test_rules_give_the_known_dtype(self, name):
        """Under the rules each call gives the dtype that CUDA autocast is documented to give."""
        call, expected = autocast_cells.CALLS[name]

        with cuda_autocast_rules(), torch.autocast("cuda", dtype=H):
            assert str(expected) == autocast_cells.ask(call, "cpu")

    def test_known_dtype_is_torchs_own(self, name, witness):
        """The expected dtypes are those of the AutocastCUDA kernels in the installed torch."""
        assert str(autocast_cells.CALLS[name][1]) == witness[name]

    def test_fake_tensors_follow_the_rules(self, name):
        """Fake CPU tensors get the same dtypes as real ones."""
        from torch._subclasses.fake_tensor import FakeTensorMode

        call, expected = autocast_cells.CALLS[name]

        with cuda_autocast_rules(), FakeTensorMode(), torch.autocast("cuda", dtype=H):
            assert str(expected) == autocast_cells.ask(call, "cpu")


@pytest.mark.parametrize("name", autocast_cells.REFUSED)
def test_what_cuda_refuses_is_refused(name, witness):
    """An op that CUDA autocast refuses raises here as well."""
    with cuda_autocast_rules(), torch.autocast("cuda", dtype=H):
        assert (autocast_cells.ask(autocast_cells.REFUSED[name], "cpu"), witness[name]) == ("raises", "raises")


def test_plain_cpu_autocast_has_other_rules():
    """Plain CPU autocast leaves F.normalize(float16) alone: the rules make the difference."""
    with torch.autocast("cpu", dtype=H):
        assert F.normalize(torch.ones(4, 8, dtype=H)).dtype == H


def test_installed_torchs_own_registrations_are_all_explained():
    """Every op that the installed torch casts on CUDA has a policy, read from its own header."""
    with cuda_autocast_rules() as rules:
        assert rules.unlisted == ()
        assert torch.__version__ in rules.source
        assert rules.source.startswith("include/ATen/autocast_mode.h")
        assert rules.policies["addcmul"] == autocast_lists.PROMOTE


def test_embedded_lists_are_those_of_the_header(monkeypatch):
    """Without a header the embedded lists give the same policies, and say so."""
    with cuda_autocast_rules() as rules:
        by_header = rules.policies
    monkeypatch.setattr(autocast_lists, "lists_in_header", lambda text: None)
    with cuda_autocast_rules() as rules:
        assert by_header == rules.policies
        assert rules.source.startswith("embedded lists")


def test_header_without_the_macros_is_not_half_read():
    """A header that lacks one of the macros gives no lists at all."""
    text = "#define AT_FORALL_FP32(_) \\\n  _(exp) \\\n  _(pow, Scalar)\n"

    assert autocast_lists.lists_in_header(text) is None


class TestSwitching:
    def test_autocast_cuda_is_on_and_off(self):
        """torch.autocast("cuda") turns the rules on, and enabled=False inside turns them off again."""
        x = torch.ones(2, 8, dtype=H)
        with cuda_autocast_rules():
            assert F.normalize(x).dtype == H
            with torch.autocast("cuda"):
                assert F.normalize(x).dtype == S
                with torch.autocast("cuda", enabled=False):
                    assert F.normalize(x).dtype == H
                assert F.normalize(x).dtype == S
            assert F.normalize(x).dtype == H

    @pytest.mark.filterwarnings("ignore::FutureWarning")
    def test_old_spellings(self):
        """torch.cuda.amp.autocast, as a context or as a decorator, follows the rules."""

        @torch.cuda.amp.autocast(enabled=False)
        def made_before(x):
            return F.normalize(x).dtype

        with cuda_autocast_rules():

            @torch.cuda.amp.autocast()
            def made_inside(x):
                return F.normalize(x).dtype

            x = torch.ones(2, 8, dtype=H)
            assert made_inside(x) == S
            with torch.cuda.amp.autocast():
                assert F.normalize(x).dtype == S
                assert made_before(x) == H

    def test_state_is_what_a_gpu_would_say(self):
        """The questions that libraries ask about autocast are answered for CUDA."""
        with cuda_autocast_rules(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            assert (torch.is_autocast_enabled("cuda"), torch.is_autocast_enabled()) == (False, False)
            assert torch.get_autocast_dtype("cuda") == H
            with torch.autocast("cuda", dtype=B):
                assert (torch.is_autocast_enabled("cuda"), torch.is_autocast_enabled()) == (True, True)
                assert (torch.get_autocast_dtype("cuda"), torch.get_autocast_gpu_dtype()) == (B, B)
                assert torch.mm(torch.ones(2, 2), torch.ones(2, 2)).dtype == B

    def test_device_of_the_tensor_is_taken_for_cuda(self):
        """`torch.autocast(x.device.type)`, as libraries write it, is CUDA's autocast, with CUDA's default dtype."""
        with cuda_autocast_rules():
            x = torch.ones(2, 8)
            with torch.autocast(x.device.type):
                assert torch.mm(x, x.T).dtype == H

    def test_dtype_that_only_cuda_takes(self):
        """autocast("cuda", float32) is enabled, as on a GPU, where CPU autocast would refuse it."""
        with cuda_autocast_rules(), torch.autocast("cuda", dtype=S):
            assert torch.mm(torch.ones(2, 2, dtype=H), torch.ones(2, 2, dtype=H)).dtype == S

    def test_custom_fwd_casts_its_inputs(self):
        """custom_fwd(cast_inputs=...) casts CPU tensors as it would CUDA tensors, and runs without autocast."""
        seen = []

        class Double(torch.autograd.Function):
            @staticmethod
            @torch.amp.custom_fwd(device_type="cuda", cast_inputs=S)
            def forward(ctx, x):
                seen.append((x.dtype, torch.is_autocast_enabled("cuda")))
                return x * 2

            @staticmethod
            @torch.amp.custom_bwd(device_type="cuda")
            def backward(ctx, gradient):
                return gradient * 2

        with cuda_autocast_rules(), torch.autocast("cuda"):
            x = torch.ones(3, dtype=H, requires_grad=True)
            Double.apply(x).sum().backward()

        assert seen == [(S, False)]
        assert x.grad.tolist() == [2.0, 2.0, 2.0]

    def test_checkpoint_recomputes_under_the_same_rules(self):
        """Activation checkpointing recomputes with the dtypes of the first pass."""
        seen = []

        def step(x):
            y = F.normalize(x @ x)
            seen.append(y.dtype)
            return y @ x  # its backward needs y, so the second pass comes this far

        with cuda_autocast_rules():
            x = torch.ones(4, 4, requires_grad=True)
            with torch.autocast("cuda"):
                y = torch.utils.checkpoint.checkpoint(step, x, use_reentrant=False)
            y.sum().backward()

        assert seen == [S, S]


class TestAutograd:
    def test_gradients_are_those_of_the_casts(self):
        """Gradients flow through the casts, into fp32 parameters, with the values of an explicit cast."""
        torch.manual_seed(0)
        weight = torch.nn.Parameter(torch.randn(8, 8))
        x = torch.randn(4, 8)
        with cuda_autocast_rules():
            with torch.autocast("cuda", dtype=B):
                y = F.normalize(F.linear(x, weight), dim=-1)
            y.square().mul(torch.arange(8.0)).sum().backward()
        explicit = weight.detach().clone().requires_grad_()
        y = F.normalize(F.linear(x.to(B), explicit.to(B)).float(), dim=-1)
        y.square().mul(torch.arange(8.0)).sum().backward()

        torch.testing.assert_close(weight.grad, explicit.grad, rtol=1e-2, atol=1e-2)
        assert weight.grad.dtype == S

    def test_backward_of_fake_tensors(self):
        """Backward works on fake tensors, where nothing has a value."""
        from torch._subclasses.fake_tensor import FakeTensorMode

        with cuda_autocast_rules(), FakeTensorMode():
            layer = torch.nn.Linear(4096, 4096)
            with torch.autocast("cuda", dtype=H):
                y = F.normalize(layer(torch.ones(2, 4096)), dim=-1)
            y.sum().backward()

            assert (y.dtype, layer.weight.grad.dtype) == (S, S)

    @pytest.mark.filterwarnings("ignore::DeprecationWarning")
    def test_function_modes_see_only_what_was_called(self):
        """What a kernel does is invisible to a TorchFunctionMode, as what C++ kernels do is."""
        from torch.overrides import TorchFunctionMode

        seen = []

        class Watch(TorchFunctionMode):
            def __torch_function__(self, func, types, args=(), kwargs=None):
                seen.append(func)
                return func(*args, **(kwargs or {}))

        function = torch.jit.script(autocast_cells.scripted)
        x = torch.ones(2, 8, dtype=H)
        with cuda_autocast_rules(), torch.autocast("cuda"), Watch():
            y = function(x)

        assert seen == []
        assert y.dtype == S


def _state():
    """Everything that the rules touch, as seen from outside."""
    x = torch.ones(2, 8, dtype=H)
    with torch.autocast("cpu", dtype=H):
        dtypes = [str(f().dtype) for f in (lambda: F.normalize(x), lambda: x.exp(), lambda: torch.quantile(x, 0.5))]
    return {
        "functions": [getattr(torch, name) for name in autocast_rules._REDIRECTED],
        "init": torch.amp.autocast_mode.autocast.__init__,
        "cast": torch.amp.autocast_mode._cast,
        "enabled": [torch.is_autocast_enabled("cpu"), torch.is_autocast_enabled("cuda")],
        "dtype": [torch.get_autocast_dtype("cpu"), torch.get_autocast_dtype("cuda")],
        "registered": sorted(torch._C._dispatch_get_registrations_for_dispatch_key("AutocastCPU")),
        "dtypes": dtypes,
    }


class TestRestoring:
    def test_everything_is_as_before(self):
        """After the rules CPU autocast, torch's functions and the state are what they were."""
        before = _state()
        with cuda_autocast_rules(), torch.autocast("cuda", dtype=B):
            assert before["functions"] != [getattr(torch, name) for name in autocast_rules._REDIRECTED]

        assert before == _state()

    def test_after_an_exception(self):
        """An exception inside, even under autocast, leaves nothing behind."""
        before = _state()
        with pytest.raises(ZeroDivisionError), cuda_autocast_rules(), torch.autocast("cuda"):
            raise ZeroDivisionError

        assert before == _state()

    def test_after_a_failure_on_the_way_in(self, monkeypatch):
        """If the rules cannot be set up completely, what was set up is taken back."""
        before = _state()
        with monkeypatch.context() as patch:
            patch.setattr(autocast_rules, "_cast_on_cpu", None)
            with pytest.raises(TypeError), cuda_autocast_rules():
                pass

        assert before == _state()

    def test_nested_rules_end_with_the_outermost(self):
        """Rules inside rules are the same rules, and end with the outermost."""
        before = _state()
        x = torch.ones(2, 8, dtype=H)
        with cuda_autocast_rules() as outer:
            with cuda_autocast_rules() as inner:
                assert outer.policies is inner.policies
            with torch.autocast("cuda"):
                assert F.normalize(x).dtype == S

        assert before == _state()

    def test_twenty_times(self):
        """Rules can be entered and left again and again."""
        for _ in range(20):
            with cuda_autocast_rules(), torch.autocast("cuda"):
                assert torch.ones(2, dtype=H).exp().dtype == S
        assert torch.ones(2, dtype=H).exp().dtype == H

    def test_another_thread_has_its_own_state(self):
        """Autocast's state is the thread's own, as in torch: a new thread starts without autocast."""
        found = []

        def look():
            found.append(torch.ones(2, dtype=H).exp().dtype)
            with torch.autocast("cuda", dtype=H):
                found.append(torch.ones(2, dtype=H).exp().dtype)

        with cuda_autocast_rules(), torch.autocast("cuda"):
            thread = threading.Thread(target=look)
            thread.start()
            thread.join()

        assert found == [H, S]
