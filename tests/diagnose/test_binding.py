"""What a finding is about, and whose its remedies are."""

from __future__ import annotations

import pytest

from attn_doctor.diagnose.binding import bind
from attn_doctor.diagnose.derived import derive
from attn_doctor.diagnose.judge import judge
from attn_doctor.diagnose.log.causes import explain_text
from attn_doctor.model.facts import Absent, Fact, FactName, FactSet, Known
from attn_doctor.model.findings import Finding
from attn_doctor.model.libraries import published
from attn_doctor.planning.choose import Policy, Remaining, choose
from attn_doctor.recipes.shelf import bundled
from tests.diagnose.log.making import made
from tests.diagnose.test_derived import facts


def _box(**more: object) -> FactSet:
    """xformers with two files and flash-attn with one, under one torch."""
    known: dict[str, object] = {
        "torch__version": "2.13.0+cu130",
        "torch__cuda": "13.0",
        "torch__cxx11_abi": True,
        "listed__extension": 3,
        "listed__package": 3,
        "package__xformers__version": "0.0.35",
        "package__flash-attn__version": "2.8.3",
        "extension__xformers._C__package": "xformers",
        "extension__xformers.flash_attn_3._C__package": "xformers",
        "extension__flash_attn_2_cuda__package": "flash-attn",
        "import__xformers.ops__outcome": "imported",
        "import__flash_attn__outcome": "failed",
    }
    return derive(facts(**{**known, **more}))


def _judged(known: FactSet, *recipes: str) -> dict[str, list[Finding]]:
    chosen = [one for one in bundled() if one.id in recipes]
    assert len(chosen) == len(recipes)
    found: dict[str, list[Finding]] = {}
    for one in judge(known, chosen).findings:
        found.setdefault(one.id, []).append(one)
    return found


def test_an_extension_is_about_its_package_and_no_other() -> None:
    """Conditions on packages and imports speak of the package that the file is a part of."""
    binding = bind(_box(), "extension", "xformers.flash_attn_3._C")

    assert binding.of("package") == ("xformers",)
    assert binding.of("import") == ("xformers.ops",)
    assert binding.of("gpu") == ()


def test_a_condition_on_the_package_asks_that_package() -> None:
    """`package.version` in a remedy of a finding on an extension is the version of the extension's package."""
    remedy = {"id": "r", "title": "t {package.version}", "safety": "safe", "actions": []}
    condition = {"fact": "package.version", "for_each": "package", "below": "1.0"}
    recipe = made(
        "r",
        when=[{"fact": "extension.package", "for_each": "extension", "present": True}],
        remedy=[{**remedy, "when": [condition]}],
    )
    offered = {
        subject: [one.title for one in finding.remedies]
        for finding in judge(_box(), [recipe]).findings
        for subject in finding.subjects
    }

    assert offered["extension xformers._C"] == ["t 0.0.35"]
    assert offered["extension flash_attn_2_cuda"] == []


def test_fix_takes_a_remedy_only_where_it_holds_for_the_package_of_the_finding() -> None:
    """That another package fulfils the condition is no ground for it."""
    action = {"kind": "install-packages", "requirements": ["xformers==0.0.36"]}
    remedy = {"id": "r", "title": "t", "safety": "safe", "actions": [action]}
    recipe = made(
        "r",
        when=[{"fact": "extension.package", "for_each": "extension", "equals": "flash-attn"}],
        remedy=[{**remedy, "when": [{"fact": "package.version", "for_each": "package", "equals": "0.0.35"}]}],
    )
    known = _box()
    chosen, stay = choose(judge(known, [recipe]), known, [recipe], Policy())

    assert chosen == ()
    assert [type(one) for one in stay] == [Remaining]


def test_symptoms_hang_under_the_cause_of_their_package() -> None:
    """Every file of xformers that misses a symbol is a symptom of the xformers that is made for another torch."""
    known = _box(
        package__xformers__requires_torch="==2.9.1",
        package__xformers__version="0.0.33.post2",
        **{
            "extension__xformers._C__missing_symbols": ("_ZN3c10",),
            "extension__xformers.flash_attn_3._C__missing_symbols": ("_ZN2at",),
        },
    )
    found = _judged(known, "xformers-torch-mismatch", "extension-built-for-other-torch")

    assert list(found) == ["xformers-torch-mismatch"]
    (cause,) = found["xformers-torch-mismatch"]
    assert {subject for one in cause.symptoms for subject in one.subjects} == {
        "extension xformers._C",
        "extension xformers.flash_attn_3._C",
    }


@pytest.mark.parametrize(
    ("gpu", "whole", "part"),
    [
        ("9.0", [], ["extension vllm._qutlass_C"]),
        ("7.5", [], ["extension vllm._qutlass_C", "extension vllm._vllm_fa3_C"]),
        ("6.1", ["extension vllm._C", "extension vllm._qutlass_C", "extension vllm._vllm_fa3_C"], []),
        ("10.0", [], ["extension vllm._vllm_fa3_C"]),
    ],
)
def test_a_package_lacks_a_gpu_that_none_of_its_files_serves(gpu: str, whole: list[str], part: list[str]) -> None:
    """Files for other GPUs are chosen at run time."""
    code = {"_C": ("sm_75", "sm_80", "sm_90a", "sm_100f"), "_qutlass_C": ("sm_100f",), "_vllm_fa3_C": ("sm_90a",)}
    known = derive(
        facts(
            gpu__0__compute_capability=gpu,
            **{f"extension__vllm.{name}__gpu_code": value for name, value in code.items()},
            **{f"extension__vllm.{name}__package": "vllm" for name in code},
        )
    )
    found = _judged(known, "extension-lacks-gpu-arch", "extension-part-lacks-gpu-arch")

    assert [one for finding in found.get("extension-lacks-gpu-arch", ()) for one in finding.subjects] == whole
    assert [one for finding in found.get("extension-part-lacks-gpu-arch", ()) for one in finding.subjects] == part
    titles = [remedy.title for findings in found.values() for finding in findings for remedy in finding.remedies]
    assert not [title for title in titles if "flash-attn" in title or "dot_product" in title]


def test_each_gpu_is_served_or_lacked_by_itself() -> None:
    """Of a T4 and a V100 a package may serve one."""
    known = derive(
        facts(
            gpu__0__compute_capability="7.5",
            gpu__1__compute_capability="7.0",
            **{"extension__a._C__gpu_code": ("sm_75",), "extension__a._D__gpu_code": ("sm_90",)},
        )
    )

    assert known.fact("extension.a._D.gpus_package_lacks").state == Known(("7.0",))
    assert known.fact("extension.a._D.gpus_served_elsewhere").state == Known(("7.5",))
    assert known.fact("extension.a._C.gpus_package_lacks").state == Known(("7.0",))


def test_a_log_is_about_the_package_whose_file_it_names() -> None:
    """mamba-ssm's extension is not told to install xformers or flash-attn's wheel."""
    text = """Traceback (most recent call last):
  File "/env/lib/python3.11/site-packages/mamba_ssm/ops/selective_scan_interface.py", line 20, in <module>
    import selective_scan_cuda
ImportError: /env/lib/python3.11/site-packages/selective_scan_cuda.so: undefined symbol: _ZN3c104cuda9SetDeviceEi"""
    known = facts(torch__version="2.10.0+cu128")
    (finding,) = explain_text(text, bundled(), known).diagnosis.findings

    assert finding.id == "extension-built-for-other-torch"
    assert "mamba-ssm" in finding.title
    assert not [remedy.id for remedy in finding.remedies if "xformers" in remedy.id or "flash" in remedy.id]


def test_an_assumed_gpu_was_seen_by_nobody() -> None:
    """`--gpu h100` on a CPU torch: an error as sure as the assumption, and what follows from it hangs under it."""
    from attn_doctor.diagnose.assume import assume_gpu
    from attn_doctor.recipes.data.gpu_table import named_gpu

    known = _box(
        torch__version="2.13.0+cpu",
        torch__cuda=Absent(),
        torch__hip=Absent(),
        torch__path="/env/torch",
        **{"extension__xformers._C__needs_cuda_torch": True, "extension__flash_attn_2_cuda__needs_cuda_torch": True},
    )
    assumed = derive(assume_gpu(known, named_gpu("h100")))
    found = _judged(assumed, "torch-cpu-build", "extension-needs-cuda-torch")

    assert list(found) == ["torch-cpu-build"]
    (cause,) = found["torch-cpu-build"]
    assert (cause.severity.value, cause.certainty) == ("error", "inferred")
    assert "1 (assumed, not seen)" in cause.what
    assert len(cause.symptoms) == 2


def test_a_missing_triton_hangs_under_the_torch_that_brings_none() -> None:
    """fla on a CPU torch is one finding; on a GPU torch the missing triton is the cause itself."""
    failed = {"import__fla.ops__outcome": "failed", "import__fla.ops__missing_module": "triton"}
    recipes = ("torch-cpu-build", "triton-missing", "import-fails")
    cpu = _box(
        torch__version="2.13.0+cpu",
        torch__cuda=Absent(),
        torch__hip=Absent(),
        import__flash_attn__outcome="imported",
        **failed,
    )
    gpu = _box(torch__hip=Absent(), import__flash_attn__outcome="imported", **failed)

    assert list(_judged(cpu, *recipes)) == ["torch-cpu-build"]
    assert list(_judged(gpu, *recipes)) == ["triton-missing"]


@pytest.mark.parametrize(
    ("code", "lacks"),
    [
        (("sm_52", "sm_70", "sm_90", "compute_52"), True),
        (("sm_50", "sm_52", "sm_60", "compute_52"), False),
        (("sm_52", "compute_52"), False),
        (("sm_70", "compute_70"), True),
    ],
)
def test_the_compilers_own_default_serves_nobody(code: tuple[str, ...], lacks: bool) -> None:
    """One helper that was compiled without naming a GPU is no code for a P100."""
    known = derive(facts(gpu__0__compute_capability="6.0", **{"extension__vllm._C__gpu_code": code}))

    assert known.fact("extension.vllm._C.lacks_gpu_code").state == Known(lacks)


@pytest.mark.parametrize("package", ["xformers", "sageattention", "flash-attn-3", "vllm", "torchvision", "mamba-ssm"])
@pytest.mark.parametrize("gpu", ["6.1", "7.0", "12.0"])
def test_a_cure_speaks_of_the_package_of_its_finding(package: str, gpu: str) -> None:
    """What transformers is told belongs to the libraries that it knows by a name of its own."""
    named_in_transformers = {
        name for library in published() if library.attn_implementation for name in library.distributions
    }
    known = derive(
        facts(
            gpu__0__compute_capability=gpu,
            torch__version="2.13.0+cu130",
            torch__cuda="13.0",
            **{
                "extension__it._C__package": package,
                "extension__it._C__gpu_code": ("sm_80", "sm_90"),
                "extension__it._C__missing_symbols": ("_ZN3c104cuda9SetDeviceEi",),
            },
        )
    )
    texts = {
        action.action.advice
        for finding in judge(known, bundled()).findings
        if finding.subjects == ("extension it._C",)
        for remedy in finding.remedies
        for action in remedy.actions
    }

    assert texts
    if package not in named_in_transformers:
        assert not [text for text in texts if "attn_implementation" in text]


@pytest.mark.parametrize(("gpus", "bound"), [(("0",), {"gpu": "0"}), (("0", "1"), {}), ((), {})])
def test_the_only_gpu_is_bound(gpus: tuple[str, ...], bound: dict[str, str]) -> None:
    """What a remedy says of a GPU is said of the one that is there; of several none is meant."""
    facts = FactSet(
        Fact(name=FactName("gpu", gpu, "compute_capability"), state=Known("7.5"), how="told") for gpu in gpus
    )
    assert dict(bind(facts, None, None).bound) == bound
