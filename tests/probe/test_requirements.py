"""What packages ask of each other, from metadata alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from attn_doctor.diagnose.derived import derive
from attn_doctor.model.facts import FactSet, Known, Unknown
from attn_doctor.probe.packages.requirements import RequirementSource, met, requirements
from tests.probe.test_packages import MARKERS, facts, install


@pytest.mark.parametrize(
    ("specifier", "version", "answer"),
    [
        ("==2.11.0", "2.11.0+cu130", True),
        ("==2.11.0+cu130", "2.11.0+cu128", False),
        ("<=2.11.0", "2.11.0+cu130", True),
        ("==2.14.1", "2.11.0+cu130", False),
        (">=2.6.0", "2.6.0a0+ecf3bae40a.nv25.1", None),
        (">=2.5.0", "2.6.0a0+ecf3bae40a.nv25.1", True),
        (">=2.7.0", "2.6.0a0+ecf3bae40a.nv25.1", False),
        (">=4.7.0a0,>=4.6.2a0", "4.8.0", True),
        (">=4.0.0b18", "4.0.0b20", True),
        ("any", "1.0", True),
        (">=1.0", None, False),
        (">=1.0", "?", None),
        ("===weird", "1.0", False),
    ],
)
def test_a_version_meets_what_is_asked_for(specifier: str, version: str | None, answer: bool | None) -> None:
    """A build before the release itself is neither in nor out."""
    assert met(specifier, version) is answer


def _asked(*everything: RequirementSource) -> dict[tuple[str, str], str]:
    found = requirements({one.name: one for one in everything}, MARKERS)
    return {(one.package, one.on): one.specifier for one in found}


def test_markers_hold_for_the_interpreter_under_examination() -> None:
    """Another system's and another Python's requirements are none."""
    one = RequirementSource(
        "a",
        "1",
        (
            'b>=1; platform_system == "Linux" and python_version < "3.12"',
            'c>=1; sys_platform == "win32"',
            "d @ https://example.org/d-1.0-py3-none-any.whl",
            'e[x] (>=2,<3) ; python_version >= "3.9"',
            'f; extra == "all"',
            "G_h.i",
            "no ! requirement",
        ),
    )

    assert _asked(one) == {("a", "b"): ">=1", ("a", "d"): "", ("a", "e"): ">=2,<3", ("a", "g-h-i"): ""}


def test_extras_count_where_something_asks_for_them() -> None:
    """`cuda-toolkit[cublas]` asks for nvidia-cublas, and for that alone; an extra may ask for another one."""
    found = _asked(
        RequirementSource("torch", "2.14.1", ("cuda-toolkit[cublas]==13.0.3",)),
        RequirementSource(
            "cuda-toolkit",
            "13.0.3.0",
            (
                'nvidia-cublas==13.1.1.3.*; (platform_machine == "x86_64") and extra == "cublas"',
                'nvidia-cufft==12.0.*; extra == "cufft"',
                'cuda-toolkit[nvrtc]; extra == "cublas"',
                'nvidia-cuda-nvrtc==13.0.88.*; extra == "nvrtc"',
            ),
        ),
    )

    assert found == {
        ("torch", "cuda-toolkit"): "==13.0.3",
        ("cuda-toolkit", "nvidia-cublas"): "==13.1.1.3.*",
        ("cuda-toolkit", "nvidia-cuda-nvrtc"): "==13.0.88.*",
    }


def _stack(seen: FactSet) -> object:
    return derive(seen).value("environment.unmet_in_stack")


def test_the_stack_is_told_apart_from_the_rest(tmp_path: Path) -> None:
    """sglang on another torch is the stack's; gradio on another pydantic is not; transformers' tokenizers is."""
    install(tmp_path, "torch", "2.11.0")
    install(tmp_path, "sglang", "0.5.23", requires=("torch==2.14.1", "einops", "openai==2.8.0"))
    install(tmp_path, "gradio", "5.0", requires=("pydantic<2.12",))
    install(tmp_path, "pydantic", "2.13.1")
    install(tmp_path, "transformers", "5.23.0", requires=("tokenizers<0.24,>=0.23", "typing-extensions"))
    install(tmp_path, "typing-extensions", "4.16.0")
    seen = facts(tmp_path)

    assert _stack(seen) == (
        "sglang asks for torch==2.14.1 (2.11.0 is there), einops (not installed)",
        "transformers asks for tokenizers<0.24,>=0.23 (not installed)",
    )
    assert seen.value("environment.unmet_elsewhere") == (
        "gradio asks for pydantic<2.12 (2.13.1 is there)",
        "sglang asks for openai==2.8.0 (not installed)",
    )
    assert seen.value("requirement.sglang.torch.specifier") == "==2.14.1"
    assert derive(seen).value("requirement.sglang.torch.met") is False


def test_what_is_met_is_no_finding(tmp_path: Path) -> None:
    """A local version, and a nightly's triton under its own name."""
    install(tmp_path, "torch", "2.11.0+cu130", requires=("triton>=3.6",))
    install(tmp_path, "pytorch-triton", "3.6.0+git1")
    install(tmp_path, "vllm", "0.19.1", requires=("torch==2.11.0",))
    seen = facts(tmp_path)

    assert _stack(seen) == ()
    assert seen.value("environment.unmet_elsewhere") is None


def test_a_package_whose_version_nobody_knows_leaves_it_open(tmp_path: Path) -> None:
    """Broken metadata is no unmet requirement."""
    info = install(tmp_path, "torch", "2.11.0")
    info.rename(tmp_path / "torch-what.dist-info")
    (tmp_path / "torch-what.dist-info" / "METADATA").write_bytes(b"\0\0")
    install(tmp_path, "vllm", "0.19.1", requires=("torch==2.11.0",))
    seen = derive(facts(tmp_path))

    assert isinstance(seen.fact("requirement.vllm.torch.met").state, Unknown)
    assert isinstance(seen.fact("environment.unmet_in_stack").state, Unknown)


def _to_install(folder: Path) -> object:
    return derive(facts(folder)).value("environment.unmet_to_install")


def test_what_asks_brings_what_it_asks_for(tmp_path: Path) -> None:
    """Nothing but vllm, by --no-deps: vllm is asked for again, and brings what nobody lists as well."""
    install(tmp_path, "vllm", "0.30.0", requires=("torch==2.13.0", "einops", "cbor2"))

    assert _to_install(tmp_path) == ("vllm==0.30.0",)


def test_torch_is_not_asked_for_to_bring_what_it_lacks(tmp_path: Path) -> None:
    """What asks by another torch's release, or is to become another release itself, names what it lacks."""
    install(tmp_path, "torch", "2.11.0", requires=("filelock", "sympy>=1.13.3"))
    install(tmp_path, "xformers", "0.0.33.post2", requires=("torch==2.9.1", "numpy"))
    install(tmp_path, "transformers", "5.20.2", requires=("tokenizers>=0.23",))
    install(tmp_path, "trl", "1.9.2", requires=("transformers<=5.17.0", "accelerate>=1.4"))

    assert set(_to_install(tmp_path) or ()) == {"numpy", "filelock", "sympy>=1.13.3", "trl==1.9.2"}  # type: ignore[call-overload]


def test_no_command_where_torch_would_have_to_move(tmp_path: Path) -> None:
    """sglang for another torch: which of the two goes is a person's choice."""
    install(tmp_path, "torch", "2.11.0")
    install(tmp_path, "sglang", "0.5.23", requires=("torch==2.14.1", "einops"))

    assert _to_install(tmp_path) is None


def test_nothing_unmet_is_nothing_to_install(tmp_path: Path) -> None:
    """An environment in which all is met."""
    install(tmp_path, "torch", "2.11.0")
    install(tmp_path, "trl", "1.9.2", requires=("torch>=2.6",))

    assert _to_install(tmp_path) is None


def test_the_shelf_judges_apart_what_is_left_out() -> None:
    """A pair that is left out has a recipe of its own that asks whether it fits."""
    from attn_doctor.diagnose.requirements import JUDGED_APART
    from attn_doctor.recipes.shelf import bundled

    asked = {str(name) for recipe in bundled() for name in recipe.asks() if name.attribute == "fits_torch"}

    assert {f"package.{one if on == 'torch' else on}.fits_torch" for one, on in JUDGED_APART} == asked


def test_many_requirements_take_little_time() -> None:
    """Three hundred packages with twenty lines each: `--quick` is to answer within half a second."""
    import time

    lines = tuple(f'p{i}>=1.{i}; python_version >= "3.{i}"' for i in range(10)) + tuple(
        f"q{i}>=1,<2" for i in range(10)
    )
    everything = {f"n{i}": RequirementSource(f"n{i}", "1.0", lines) for i in range(300)}
    began = time.process_time()
    count = sum(1 for _ in requirements(everything, MARKERS))

    assert count == 300 * 20
    assert time.process_time() - began < 2.0


def test_known_is_known(tmp_path: Path) -> None:
    """The number of requirements looked at is told."""
    install(tmp_path, "torch", "2.11.0", requires=("filelock", "sympy"))

    assert facts(tmp_path).fact("listed.requirement").state == Known(2)
