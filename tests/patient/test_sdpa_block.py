"""The sample: an attention block, and the dtypes that reach its kernel, in a forked child as examine runs it."""

import pytest

torch = pytest.importorskip("torch")

from attn_doctor.patient.samples import sdpa_block  # noqa: E402

HALF, BRAIN, SINGLE = "float16", "bfloat16", "float32"


@pytest.fixture
def sample(patient):
    if torch.cuda.is_available():
        pytest.skip("the cells below are those of a machine without a GPU")

    def sample(child=None, **request):
        """The cells; `child` is Python that every forked child runs first."""
        if child:
            patient.stub("at_fork", "def here():\n" + "".join(f"    {line}\n" for line in child.splitlines()))
            (patient.stubs / "sitecustomize.py").write_text(
                "import os, at_fork\nos.register_at_fork(after_in_child=at_fork.here)\n"
            )
            patient.warm = True
        patient.examine(**{"torch": True, "sample": True, "timeout": 30, **request})
        return {(c["dtype"], c["mode"]): c for c in patient.answers["sample"]["cells"]}

    return sample


@pytest.fixture(scope="module")
def ran():
    """The cells of one run in this process."""
    told = []
    sdpa_block.run(None, {"compute_capability": "7.0", "name": "V100"}, told.append)
    return {(c["dtype"], c["mode"]): c for c in (t["cell"] for t in told if "cell" in t)}


class TestCells:
    def test_all_ran_in_a_forked_child(self, sample):
        """Forward and backward of each cell end well in a forked child, and say by which rules."""
        cells = sample()

        assert set(cells) == set(sdpa_block.CELLS)
        for cell in cells.values():
            assert (cell["outcome"], cell["error"]) == ("ran", None)
            assert (cell["device"], cell["rules"]) == ("cpu", "CUDA rules, no GPU")
            assert (cell["output_finite"], cell["gradients_finite"]) == (True, True)
            assert cell["kernel"].startswith("aten::_scaled_dot_product")

    @pytest.mark.parametrize("dtype", [HALF, BRAIN])
    def test_qk_norm_promotes_under_autocast_alone(self, ran, dtype):
        """qk-norm hands over float32 q and k under autocast alone, and SDPA casts them back before its kernel."""
        assert ran[dtype, "plain"]["handed_dtypes"] == [dtype, dtype, dtype]
        assert ran[dtype, "autocast"]["handed_dtypes"] == [SINGLE, SINGLE, dtype]
        assert ran[dtype, "plain"]["kernel_dtypes"] == [dtype, dtype, dtype]
        assert ran[dtype, "autocast"]["kernel_dtypes"] == [dtype, dtype, dtype]

    def test_bf16_before_ampere_is_called_emulated(self, ran):
        """For a GPU below 8.0 the bfloat16 cells say that it emulates; float16 cells say nothing of it."""
        assert ran[BRAIN, "plain"]["bf16_emulated"] is True
        assert "bf16_emulated" not in ran[HALF, "plain"]
        assert ran[BRAIN, "plain"]["assumed_gpu"] == {"compute_capability": "7.0", "name": "V100"}

    @pytest.mark.parametrize(
        ("gpu", "emulated"), [({"compute_capability": "9.0", "name": "H200"}, False), (None, None)]
    )
    def test_bf16_on_other_gpus(self, gpu, emulated):
        """From 8.0 on it is native; of no named GPU nothing is known."""
        cells = sdpa_block.cells(None, gpu, [], None, "")

        assert [c["bf16_emulated"] for c in cells if c["dtype"] == BRAIN] == [emulated, emulated]

    def test_math_backend_is_seen(self):
        """Where SDPA is no single operator, the dtypes of its matrix products are reported."""
        from torch.nn.attention import SDPBackend, sdpa_kernel

        watch = sdpa_block.Watch()
        with sdpa_kernel(SDPBackend.MATH), watch:
            watch.attend(*(torch.ones(1, 2, 8, 8, dtype=torch.float16) for _ in "qkv"))

        assert watch.kernel == "math"
        assert len(watch.dtypes) == 3

    def test_torch_is_not_made_to_compile(self):
        """Watching the operators does not import torch._dynamo, which would take longer than all the rest."""
        import subprocess
        import sys

        code = (
            "import sys\nfrom attn_doctor.patient.samples import sdpa_block\n"
            "sdpa_block.run(None, None, lambda told: None)\nprint('torch._dynamo' in sys.modules)\n"
        )
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)

        assert done.stdout.strip() == "False"


class TestFaults:
    def test_raised(self, sample):
        """A cell that raises says what, and the next cell runs all the same."""
        cells = sample(
            "import sys\nF = sys.modules['torch'].nn.functional\nattend = F.scaled_dot_product_attention\n"
            "def refuse(q, k, v):\n    if q.dtype != v.dtype:\n        raise RuntimeError('one\\ntwo')\n"
            "    return attend(q, k, v)\nF.scaled_dot_product_attention = refuse"
        )

        assert [cells[key]["outcome"] for key in sdpa_block.CELLS] == ["ran", "raised", "ran", "raised"]
        assert cells[HALF, "autocast"]["error"] == "RuntimeError: two"
        assert cells[HALF, "autocast"]["handed_dtypes"] == [SINGLE, SINGLE, HALF]

    @pytest.mark.parametrize(
        ("fault", "outcome", "reason"),
        [
            ("__import__('ctypes').string_at(0)", "crashed", "killed by SIGSEGV"),
            ("__import__('time').sleep(600)", "hung", "hung for"),
        ],
    )
    def test_crashed_and_hung(self, sample, fault, outcome, reason):
        """A crash or a hang is that of its cell: earlier ones stand, later ones were not examined."""
        cells = sample(
            "import sys\nF = sys.modules['torch'].nn.functional\nattend = F.scaled_dot_product_attention\n"
            f"def fail(q, k, v):\n    if q.dtype != v.dtype:\n        {fault}\n    return attend(q, k, v)\n"
            "F.scaled_dot_product_attention = fail",
            timeout=10,
        )

        expected = ["ran", outcome, "unasked", "unasked"]
        assert [cells[key]["outcome"] for key in sdpa_block.CELLS] == expected
        assert reason in cells[HALF, "autocast"]["error"]
        assert ":" in cells[HALF, "autocast"]["where"]

    def test_rules_that_cannot_be_set_up(self, sample):
        """When CUDA's rules cannot be set up no cell ran, and each says why."""
        cells = sample("import sys\nsys.modules['torch'].library.Library = None")

        assert {cell["outcome"] for cell in cells.values()} == {"unasked"}
        assert "TypeError" in cells[HALF, "plain"]["error"]
