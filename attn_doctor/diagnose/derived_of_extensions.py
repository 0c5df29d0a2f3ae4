"""Facts of compiled modules computed from facts: whether their binaries fit torch, the system and the GPUs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from packaging.version import Version

from attn_doctor.diagnose.derivation import NotComputed, as_texts, derived_fact, major_of, values_of
from attn_doctor.diagnose.derived_of_torch import releases_for_torch
from attn_doctor.diagnose.gpu_targets import lacking
from attn_doctor.diagnose.torch_to_come import Outlook
from attn_doctor.machine import faults
from attn_doctor.model.facts import Absent, Fact, FactSet, Known, State, Unknown, Value
from attn_doctor.model.outcomes import Outcome
from attn_doctor.model.package_versions import canonical_name
from attn_doctor.recipes.data.torch_releases import partners


def extensions_beside(facts: FactSet) -> dict[str, tuple[str, ...]]:
    """Extension -> all extensions of its package."""
    packages: dict[str, list[str]] = {}
    for module in facts.subjects("extension"):
        package = facts.text(f"extension.{module}.package") or module.partition(".")[0]
        packages.setdefault(package, []).append(module)
    return {module: tuple(modules) for modules in packages.values() for module in modules}


def facts_of_extension(
    facts: FactSet,
    module: str,
    gpus: tuple[tuple[int, int], ...] | NotComputed,
    beside: dict[str, tuple[str, ...]] | NotComputed,
    ahead: Outlook,
) -> Iterator[Fact]:
    own = f"extension.{module}."
    for name, mine, other, differs in (
        ("abi_differs", "cxx11_abi", "torch.cxx11_abi", lambda a, b: a != b),
        ("cudart_differs", "cudart_major", "torch.cuda", lambda a, b: a != major_of(b)),
        ("glibc_too_old", "glibc_needed", "libc.version", _newer),
        ("libstdcxx_too_old", "glibcxx_needed", "libstdcxx.version", _newer),
    ):
        got = values_of(facts, own + mine, other)
        yield derived_fact(own + name, Known(bool(differs(*got))) if isinstance(got, tuple) else got, own + mine, other)
    yield from _gpu_code(facts, module, gpus, beside)
    package = canonical_name(facts.text(own + "package") or "")
    if package in partners():
        yield from releases_for_torch(facts, own.rstrip("."), package, ahead)
    elif package:
        none = Absent("no table says which release of it is made for which torch")
        yield derived_fact(own + "release_for_torch", none, own + "package")
    yield from _settled_by_import(facts, module, own)


def _settled_by_import(facts: FactSet, module: str, own: str) -> Iterator[Fact]:
    """Facts that the files left open and the import decides: an imported package lacks no symbol."""
    top = canonical_name(str(facts.value(own + "package") or module.partition(".")[0]))
    imported = next(
        (
            name
            for name in facts.subjects("import")
            if top in (canonical_name(name), canonical_name(name.partition(".")[0]))
            and facts.value(f"import.{name}.outcome") == Outcome.IMPORTED
        ),
        None,
    )
    for attribute in ("missing_symbols", "missing_other_symbols"):
        if imported is not None and isinstance(facts.fact(own + attribute).state, Unknown):
            yield derived_fact(own + attribute, Absent(f"{imported} was imported"), f"import.{imported}.outcome")


def _gpu_code(
    facts: FactSet,
    module: str,
    gpus: tuple[tuple[int, int], ...] | NotComputed,
    beside: dict[str, tuple[str, ...]] | NotComputed,
) -> Iterator[Fact]:
    """The GPUs for which an extension has no code, and whether another extension of its package has it.

    A package may have one file for each GPU generation (FlashAttention-3's for 9.0, fp4 kernels for 10.0) and choose at
    run time: it supports every GPU that one of them supports.
    """
    if isinstance(gpus, NotComputed):
        raise faults.NotLooked(gpus.reason)
    if isinstance(beside, NotComputed):
        raise faults.NotLooked(beside.reason)
    own = f"extension.{module}."
    state = facts.fact(own + "gpu_code").state
    without, lacks, elsewhere, nowhere = state, state, state, state
    if isinstance(state, Known):
        without_code = lacking(_codes(state), gpus)
        others = [facts.fact(f"extension.{one}.gpu_code").state for one in beside[module] if one != module]
        unserved = [gpu for gpu in without_code if all(gpu in lacking(_codes(one), gpus) for one in others)]
        doubt = next((one for one in others if isinstance(one, Unknown)), None)
        without, lacks = Known(_spelled(without_code)), Known(bool(without_code))
        elsewhere = Known(_spelled([gpu for gpu in without_code if gpu not in unserved]))
        nowhere = doubt if doubt is not None and unserved else Known(_spelled(unserved))
    of_file = (own + "gpu_code", "gpu.compute_capability")
    of_package = ("extension.gpu_code of the package", "gpu.compute_capability")
    yield derived_fact(own + "gpus_without_code", without, *of_file)
    yield derived_fact(own + "lacks_gpu_code", lacks, *of_file)
    yield derived_fact(own + "gpus_served_elsewhere", elsewhere, *of_package)
    yield derived_fact(own + "gpus_package_lacks", nowhere, *of_package)


def _codes(state: State) -> tuple[str, ...]:
    return as_texts(state.value) if isinstance(state, Known) else ()


def _spelled(gpus: Iterable[tuple[int, int]]) -> tuple[str, ...]:
    return tuple(f"{major}.{minor}" for major, minor in gpus)


def _newer(needed: Value, offered: Value) -> bool:
    return Version(str(needed)) > Version(str(offered))
