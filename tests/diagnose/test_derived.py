"""Facts computed from facts."""

from __future__ import annotations

import pytest

from attn_doctor.diagnose.assume import assume_gpu
from attn_doctor.diagnose.derived import derive
from attn_doctor.diagnose.gpu_targets import runs
from attn_doctor.model.facts import Absent, Fact, FactName, FactSet, Known, State, Unknown
from attn_doctor.recipes.data.gpu_table import NamedGpu


def facts(**states: object) -> FactSet:
    """Facts from `package__triton__version="3.0"`; plain values are known."""
    return FactSet(
        Fact(
            name=FactName.parse(name.replace("__", ".")),
            state=value if isinstance(value, (Known, Absent, Unknown)) else Known(value),  # type: ignore[arg-type]
            how="a test",
        )
        for name, value in states.items()
    )


@pytest.mark.parametrize(
    ("code", "gpu", "yes"),
    [
        ("sm_80", (8, 0), True),
        ("sm_80", (8, 9), True),
        ("sm_86", (8, 0), False),
        ("sm_80", (9, 0), False),
        ("sm_90", (10, 0), False),
        ("sm_90a", (9, 0), True),
        ("sm_100", (10, 3), True),
        ("sm_100a", (10, 3), False),
        ("sm_100f", (10, 3), True),
        ("sm_100f", (12, 0), False),
        ("sm_120", (12, 1), True),
        ("compute_80", (9, 0), True),
        ("compute_90", (8, 0), False),
        ("compute_90a", (10, 0), False),
        ("gfx90a", (9, 0), False),
        ("nonsense", (9, 0), False),
    ],
)
def test_architecture_rule(code: str, gpu: tuple[int, int], yes: bool) -> None:
    """Machine code runs on its major from its minor on, PTX on anything newer, `a` targets on their own only."""
    assert runs(code, gpu) is yes


def _state(known: FactSet, name: str) -> State:
    return derive(known).fact(name).state


def test_bf16_is_native_from_ampere_on() -> None:
    """A V100 and a T4 have no bf16, an A100 has."""
    for capability, native in (("7.0", False), ("7.5", False), ("8.0", True), ("12.0", True)):
        assert _state(facts(gpu__0__compute_capability=capability), "gpu.0.bf16_native") == Known(native)


def test_every_gpu_of_a_mixed_box_is_judged() -> None:
    """torch without code for one of two GPUs has code for the other."""
    box = facts(
        gpu__0__compute_capability="9.0", gpu__1__compute_capability="12.0", torch__arch_list=("sm_80", "sm_90")
    )

    assert _state(box, "gpu.0.torch_has_code") == Known(True)
    assert _state(box, "gpu.1.torch_has_code") == Known(False)


@pytest.mark.parametrize(
    ("torch", "known"), [("2.8.0+cu128", True), ("2.8.0+cu129", True), ("2.6.0+cu124", False), ("2.8.0", False)]
)
def test_a_published_build_has_the_code_that_it_was_published_with(torch: str, known: bool) -> None:
    """Where nobody asked torch for its list, a log tells its build: another package's kernel stops."""
    box = facts(gpu__0__compute_capability="12.0", torch__version=torch)

    assert (_state(box, "gpu.0.torch_has_code") == Known(True)) is known


@pytest.mark.parametrize(
    ("capability", "cuda", "lacks"),
    [
        ("12.0", "12.1", True),
        ("12.1", "12.6", True),
        ("9.0", "11.7", True),
        ("12.0", "12.8", False),
        ("8.9", "11.3", False),
    ],
)
def test_a_torch_of_a_cuda_that_is_older_than_the_gpu_has_no_code_for_it(
    capability: str, cuda: str, lacks: bool
) -> None:
    """Code for 8.0 runs on 8.9, whatever compiled it."""
    box = facts(gpu__0__compute_capability=capability, torch__cuda=cuda)

    assert (_state(box, "gpu.0.torch_has_code") == Known(False)) is lacks


@pytest.mark.parametrize(
    ("cuda", "driver", "too_old"),
    [
        ("13.0", "580.65.06", False),
        ("13.0", "575.51.03", True),
        ("12.8", "525.60.13", False),
        ("12.8", "470.1", True),
        ("11.8", "450.80.02", False),
    ],
)
def test_driver(cuda: str, driver: str, too_old: bool) -> None:
    """Each CUDA major has its oldest driver."""
    assert _state(facts(torch__cuda=cuda, driver__version=driver), "driver.too_old") == Known(too_old)


def test_driver_of_an_unheard_cuda_is_unknown() -> None:
    """A CUDA major of the future is no reason to call a driver fine."""
    state = _state(facts(torch__cuda="14.0", driver__version="700.1"), "driver.too_old")

    assert isinstance(state, Unknown)


def test_triton_fits() -> None:
    """A vendor's triton of the pinned version fits; another version does not."""
    pinned = {"torch__triton_requirement": "==3.6.0"}

    assert _state(facts(package__triton__version="3.6.0+git1", **pinned), "package.triton.fits_torch") == Known(True)
    assert _state(facts(package__triton__version="3.5.1", **pinned), "package.triton.fits_torch") == Known(False)


def test_extension_against_torch() -> None:
    """ABI and CUDA runtime are compared only where both sides are known."""
    one = facts(
        extension__x__cxx11_abi=False,
        extension__x__cudart_major=12,
        extension__x__glibc_needed="2.32",
        torch__cxx11_abi=True,
        torch__cuda="13.0",
        libc__version="2.31",
    )

    assert _state(one, "extension.x.abi_differs") == Known(True)
    assert _state(one, "extension.x.cudart_differs") == Known(True)
    assert _state(one, "extension.x.glibc_too_old") == Known(True)
    assert _state(one.with_facts(facts(torch__cuda=Absent()).values()), "extension.x.cudart_differs") == Absent()
    unknown = one.with_facts(facts(torch__cxx11_abi=Unknown("damaged")).values())
    assert _state(unknown, "extension.x.abi_differs") == Unknown("damaged")


def test_gpu_code_of_an_extension() -> None:
    """The GPUs that an extension has no code for are named."""
    box = facts(
        gpu__0__compute_capability="9.0", gpu__1__compute_capability="12.0", extension__x__gpu_code=("sm_80", "sm_90")
    )

    assert _state(box, "extension.x.gpus_without_code") == Known(("12.0",))
    assert _state(box, "extension.x.lacks_gpu_code") == Known(True)


def test_a_successful_import_settles_what_the_files_leave_open() -> None:
    """Symbols whose owner no file tells are no open question once the loader has found them."""
    one = facts(
        extension__x___C__missing_symbols=Unknown("whose?"),
        extension__x___C__package="x",
        import__x__ops__outcome="imported",
    )

    assert isinstance(_state(one, "extension.x._C.missing_symbols"), Absent)
    failed = one.with_facts(facts(import__x__ops__outcome="failed").values())
    assert _state(failed, "extension.x._C.missing_symbols") == Unknown("whose?")


@pytest.mark.parametrize(
    ("gpu", "driver", "needed"),
    [("10.0", "550.54.15", "driver 570 or later"), ("6.1", "590.44", "driver 580 or earlier"), ("9.0", "550.54", None)],
)
def test_driver_that_does_not_know_a_named_gpu(gpu: str, driver: str, needed: str | None) -> None:
    """Of a GPU that the driver lists nothing is computed: the table may be wrong about it, the driver is not."""
    probed = facts(driver__version=driver)
    named = assume_gpu(probed, NamedGpu(name="a GPU", compute_capability=gpu, shared_memory_bytes=None))
    listed = facts(gpu__0__compute_capability=gpu, driver__version=driver)

    state = _state(named, "gpu.0.needs_driver")
    assert (state.value if isinstance(state, Known) else None) == needed
    assert isinstance(_state(listed, "gpu.0.needs_driver"), Absent)


def test_release_of_the_package_that_a_log_is_about() -> None:
    """xformers' own message names the torch that is there, and not the xformers."""
    told = facts(subject__package="xformers", torch__version="2.1.0+cu121", package__torch__version="2.1.0+cu121")

    assert _state(told, "package.xformers.release_for_torch") == Known("0.0.22.post7")
    assert _state(facts(torch__version="2.1.0+cu121"), "package.xformers.release_for_torch") != Known("0.0.22.post7")


@pytest.mark.parametrize(("torch", "state"), [("1.9.0", Unknown), ("2.3.2", Absent)])
def test_a_torch_that_the_table_of_partners_does_not_reach(torch: str, state: type[State]) -> None:
    """Before its first row nothing is known; between two rows none is made for it."""
    told = facts(subject__package="xformers", torch__version=torch)

    assert isinstance(_state(told, "package.xformers.release_for_torch"), state)
