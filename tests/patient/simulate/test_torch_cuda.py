"""torch.cuda as the GPU that is not there."""

import inspect

import pytest

torch = pytest.importorskip("torch")

from attn_doctor.patient.simulate.cuda import simulated_gpu
from attn_doctor.patient.simulate.cuda.torch_cuda import is_bf16_supported, virtual_cuda

H100 = simulated_gpu.from_request(
    {
        "name": "NVIDIA H100",
        "compute_capability": "9.0",
        "shared_memory_bytes": 232448,
        "memory_mib": 81920,
        "multi_processor_count": 132,
    }
)
T4 = simulated_gpu.from_request({"name": "t4", "compute_capability": "7.5"})


def test_the_device_is_the_one_named():
    """Name, capability, memory and multiprocessors are the named GPU's."""
    with virtual_cuda(H100):
        properties = torch.cuda.get_device_properties(0)

        assert torch.cuda.is_available()
        assert (torch.cuda.device_count(), torch.cuda.current_device()) == (1, 0)
        assert torch.cuda.get_device_capability() == (9, 0)
        assert torch.cuda.get_device_name("cuda:0") == "NVIDIA H100"
        assert (properties.major, properties.minor, properties.multi_processor_count) == (9, 0, 132)
        assert (properties.total_memory, properties.shared_memory_per_block_optin) == (80 * 2**30, 232448)
        assert properties.shared_memory_per_multiprocessor == 233472
        assert "sm_90" in torch.cuda.get_arch_list()


@pytest.mark.parametrize("ask", [torch.cuda.get_device_properties, torch.cuda.get_device_name])
def test_there_is_no_second_device(ask):
    """A second device is refused in torch's words."""
    with virtual_cuda(H100), pytest.raises(AssertionError, match="Invalid device id"):
        getattr(torch.cuda, ask.__name__)(1)


def test_bf16_is_emulated_below_8():
    """Below 8.0 torch says that bfloat16 is supported, unless asked without emulation; before 2.3 it says no."""
    with virtual_cuda(T4):
        assert torch.cuda.is_bf16_supported()
        assert not torch.cuda.is_bf16_supported(including_emulation=False)
    with virtual_cuda(H100):
        assert torch.cuda.is_bf16_supported(including_emulation=False)
    assert not is_bf16_supported(T4, (2, 2))


def test_unavailable_yet_known():
    """available=False leaves tensors where they are, and still answers what libraries ask at import."""
    with virtual_cuda(H100, available=False):
        assert not torch.cuda.is_available()
        assert torch.cuda.get_device_capability() == (9, 0)


def test_streams_and_devices():
    """Stream and Event stay classes; device and stream contexts can be entered; nothing waits for a GPU."""
    with virtual_cuda(H100):
        assert inspect.isclass(torch.cuda.Stream)
        assert inspect.isclass(torch.cuda.Event)
        with torch.cuda.device(0), torch.cuda.stream(torch.cuda.Stream()):
            torch.cuda.synchronize()
        torch.cuda.current_stream().wait_stream(torch.cuda.Stream())
        assert torch.cuda.Event(enable_timing=True).elapsed_time(torch.cuda.Event()) == 0.0
        assert torch.cuda.mem_get_info()[1] == 80 * 2**30


def test_fake_cuda_tensors_wake_no_gpu(monkeypatch):
    """A fake CUDA tensor is made although is_available() is True and there is no device to allocate on."""
    from torch._subclasses import fake_tensor

    def wakes(*args):
        raise RuntimeError("no CUDA device")  # what a CUDA build without a driver says

    for name in ("init_gpu_context", "init_cuda_context"):
        if hasattr(fake_tensor, name):
            monkeypatch.setattr(fake_tensor, name, wakes)

    with virtual_cuda(H100), fake_tensor.FakeTensorMode():
        assert torch.empty(2, device="cuda").device.type == "cuda"


def test_everything_is_put_back():
    """After it, and after an exception inside it, torch.cuda is as it was."""
    before = dict(vars(torch.cuda))

    with pytest.raises(KeyError), virtual_cuda(H100):
        raise KeyError

    after = vars(torch.cuda)
    assert {name for name in before if before[name] is not after.get(name)} == set()


def test_two_after_each_other():
    """One GPU leaves nothing of itself to the next."""
    with virtual_cuda(H100):
        pass
    with virtual_cuda(T4):
        assert torch.cuda.get_device_capability() == (7, 5)
        assert torch.cuda.get_device_properties().multi_processor_count > 0


def test_jiterator_kernels_answer_in_shape_and_dtype():
    """An elementwise kernel in CUDA C++ is not compiled: broadcasting and type promotion tell what it would give."""
    code = "template <typename T> T scaled(T x, T y, T alpha) { return x * y * alpha; }"
    scaled = torch.cuda.jiterator._create_jit_fn(code, alpha=1.0)
    both = torch.cuda.jiterator._create_multi_output_jit_fn(code, num_outputs=2)
    x, y = torch.ones(4, 1, dtype=torch.bfloat16), torch.ones(1, 3, dtype=torch.float32)

    with virtual_cuda(H100):
        assert (scaled(x, y, alpha=2.0).shape, scaled(x, y).dtype) == ((4, 3), torch.float32)
        assert (scaled(x).dtype, scaled(x).shape) == (torch.bfloat16, (4, 1))
        assert [one.dtype for one in both(x)] == [torch.bfloat16] * 2
        with pytest.raises(KeyError):
            scaled(x, y, beta=1.0)
    with pytest.raises(AssertionError, match="Jiterator is only supported"):
        scaled(x, y)
