"""Builds of torch that are not here, played by stubs: what examine says of them. No GPU is touched."""

import pytest

CUDA_BUILD = """
import os, types, warnings
__version__ = "2.11.0+cu130"
version = types.SimpleNamespace(cuda="13.0", hip=None, git_version="abc", debug=False)
def compiled_with_cxx11_abi():
    return True
_C = types.SimpleNamespace(
    _cuda_getArchFlags=lambda: "sm_80 sm_90 compute_90",
    _has_cudnn=True,
    _cudnn=types.SimpleNamespace(getRuntimeVersion=lambda: (9, 19, 0)),
)
class cuda:
    pids = []
    @staticmethod
    def is_available():
        assert "PYTORCH_NVML_BASED_CUDA_CHECK" not in os.environ
        {is_available}
    @staticmethod
    def init():
        {init}
    @staticmethod
    def device_count():
        return {device_count}
    @staticmethod
    def get_device_properties(index):
        if index == 1:
            raise RuntimeError("CUDA error: uncorrectable ECC error encountered")
        return types.SimpleNamespace(
            name="NVIDIA H200", major=9, minor=0, total_memory=150_000_000_000, uuid="12ab",
            shared_memory_per_block_optin=232448, multi_processor_count=132,
        )
    class device:
        def __init__(self, index):
            pass
        def __enter__(self):
            pass
        def __exit__(self, *exc):
            pass
    @staticmethod
    def is_bf16_supported(including_emulation=True):
        return not including_emulation
"""


@pytest.fixture
def examine(patient):
    def examine(is_available="return False", init="pass", device_count=0):
        patient.stub(
            "torch",
            CUDA_BUILD.replace("{is_available}", is_available)
            .replace("{init}", init)
            .replace("{device_count}", str(device_count)),
        )
        patient.examine("json", torch=True, timeout=2)
        assert patient.answers["import-json"]["outcome"] == "imported"
        return patient.answers

    return examine


class TestCuda:
    def test_devices(self, examine):
        """Every device is listed, and one that is broken hides none of the others."""
        cuda = examine(is_available="return True", device_count=3)["cuda"]

        assert (cuda["is_available"], cuda["device_count"], cuda["reason"]) == (True, 3, None)
        assert [d.get("compute_capability") for d in cuda["devices"]] == ["9.0", None, "9.0"]
        assert "ECC" in cuda["devices"][1]["error"]
        assert cuda["devices"][0] == {
            "index": 0,
            "name": "NVIDIA H200",
            "compute_capability": "9.0",
            "total_memory": 150_000_000_000,
            "shared_memory_per_block_optin": 232448,
            "multi_processor_count": 132,
            "uuid": "12ab",
            "bf16_native": True,
        }

    def test_reason_is_the_warning(self, examine):
        """Why there is no CUDA is what torch warned of when it was asked."""
        cuda = examine(is_available="warnings.warn('The NVIDIA driver is too old'); return False")["cuda"]

        assert (cuda["is_available"], cuda["reason"]) == (False, "The NVIDIA driver is too old")

    def test_reason_is_the_error_of_init(self, examine):
        """Where nothing is warned of, it is what torch.cuda.init() raises."""
        cuda = examine(init="raise RuntimeError('Found no NVIDIA driver on your system.')")["cuda"]

        assert cuda["reason"] == "Found no NVIDIA driver on your system."

    def test_no_visible_device(self, examine):
        """Where nothing is raised either, no device is visible."""
        assert "no device is visible" in examine()["cuda"]["reason"]

    @pytest.mark.parametrize(
        ("fault", "outcome"),
        [
            ("import time; time.sleep(600)", "hung"),
            ("import ctypes; ctypes.string_at(0)", "crashed"),
            ("raise RuntimeError('CUDA error 999')", "failed"),
        ],
    )
    def test_driver_that_hangs_crashes_or_raises(self, examine, fault, outcome):
        """A driver that hangs or crashes takes one child with it; whether CUDA works is then not known."""
        answers = examine(is_available=fault)

        assert answers["cuda"]["is_available"] is None
        assert answers["cuda"]["ended"]["outcome"] == outcome
        assert answers["cuda"]["reason"]
        assert answers["torch"]["outcome"] == "imported"
        assert answers["torch"]["facts"]["arch_list"] == ["sm_80", "sm_90", "compute_90"]


class TestBuild:
    def test_cuda_build(self, examine):
        """A CUDA build's architectures and cuDNN are read without a GPU."""
        facts = examine()["torch"]["facts"]

        assert (facts["cuda"], facts["hip"], facts["cudnn"]) == ("13.0", None, "9.19.0")
        assert facts["arch_list"] == ["sm_80", "sm_90", "compute_90"]
        assert facts["cxx11_abi"] is True

    def test_this_torch(self, patient):
        """The real torch beside the tests: facts as it gives them, and a single thread when the children are forked."""
        torch = pytest.importorskip("torch")
        if torch.version.cuda or torch.version.hip:
            pytest.skip("this torch is no CPU build")
        patient.examine(torch=True, timeout=60)
        facts = patient.answers["torch"]["facts"]

        assert patient.answers["torch"]["outcome"] == "imported"
        assert (facts["version"], facts["git_version"]) == (torch.__version__, torch.version.git_version)
        assert (facts["cuda"], facts["arch_list"], facts["os_threads"]) == (None, None, 1)
        assert patient.answers["cuda"]["reason"] == "Torch not compiled with CUDA enabled"
