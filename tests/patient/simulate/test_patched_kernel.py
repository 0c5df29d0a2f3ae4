"""The one-keyword patch of flash-linear-attention, and what Triton's compiler says to the kernel before and after."""

import shutil
from pathlib import Path

import pytest

from attn_doctor.fix.edits.keyword import planned
from attn_doctor.fix.edits.splices import spliced
from attn_doctor.model.facts import Fact, FactName, FactSet, Known
from attn_doctor.recipes import shelf

pytestmark = [pytest.mark.heavy, pytest.mark.triton]

#: No release of the library can be imported with a Triton before 3.0: it imports triton.language.extra.libdevice; and a
#: torch of today needs triton.backends. So its kernels are loaded without the packages around them, with a libdevice
#: that has Triton's own functions; they and the function that launches them are the library's.
SCRIPT = """
import contextlib, os, sys, types
root = {root!r}
sys.path[:0] = [root, {einops!r}]
for name in ("fla", "fla.ops", "fla.ops.gsa", "fla.ops.common", "fla.ops.gla"):
    module = types.ModuleType(name)
    module.__path__ = [os.path.join(root, *name.split("."))]
    sys.modules[name] = module
import triton.language as tl
try:
    import triton.language.extra.libdevice
except ImportError:
    extra, libdevice = types.ModuleType("triton.language.extra"), types.ModuleType("triton.language.extra.libdevice")
    extra.__path__ = []
    for name in (name for name in dir(tl.math) if not name.startswith("_")):
        setattr(libdevice, name, getattr(tl.math, name))
    extra.libdevice, tl.extra = libdevice, extra
    sys.modules.update({{extra.__name__: extra, libdevice.__name__: libdevice}})
import torch
torch.compiler.disable = lambda fn=None, **more: fn if fn is not None else lambda fn: fn
torch.cpu.device = lambda index: contextlib.nullcontext()
from fla.ops.gsa import chunk

def half(*shape):
    return torch.zeros(*shape, dtype=torch.bfloat16)

keys, values = half(1, 128, 2, 64), half(1, 128, 2, 32)
wide = torch.zeros(1, 128, 2, 32)
with triton_record.record() as recording:
    chunk.chunk_gsa_bwd_k(q=keys, k=keys, v=values, g=wide, h=None, h0=None, o=values, do=values, dht=None, dg=wide,
                          head_first=False)
own = [launch for launch in recording.launches if launch.kernel.startswith("fla.ops")]
found = triton_compile.compile_launches(own, [gpu("8.0"), gpu("9.0")], scratch=scratch, timeout=240,
                                        configurations="enough")
answer([[one.kernel.rpartition(":")[2], one.outcome, one.message] for one in found])
"""


@pytest.mark.parametrize("version", ["2.1.0", "2.2.0", "2.3.1"])
def test_the_kernel_compiles_once_it_is_patched(triton_beside, packages, tmp_path, version):
    """Compiled for 8.0 and 9.0: with i16 for bf16 the compiler aborts; patched, every kernel of the pass compiles."""
    pytest.importorskip("torch")
    prefix = tmp_path.resolve()
    site = prefix / "lib/python3/site-packages"
    shutil.copytree(packages("flash-linear-attention", "0.1.2"), site)
    beside = triton_beside(version)
    script = SCRIPT.format(root=str(site), einops=str(packages("einops", "0.8.1")))
    before = beside.run(tmp_path, script, timeout=550)
    broken = [outcome for kernel, outcome, message in before if kernel == "chunk_gsa_bwd_k_kernel_dqkvg"]
    assert broken == ["aborted"] * 2
    assert any("Expected 'i16' but got 'bf16'" in message for _, _, message in before)

    recipe = next(one for one in shelf.bundled() if one.id == "triton-bf16-becomes-i16")
    (action,) = next(one for one in recipe.remedies if one.id == "states-in-fp32").actions
    known = {"version": "0.1.2", "path": str(site), "editable": False}
    facts = FactSet(
        [
            Fact(name=FactName("package", "flash-linear-attention", name), state=Known(value), how="test")
            for name, value in known.items()
        ]
    )
    for edit in planned(action, facts, finding=recipe.id, prefix=str(prefix), project=""):
        file = Path(edit.file)
        file.write_bytes(spliced(file.read_bytes() if file.exists() else b"", edit.splices))
    after = beside.run(tmp_path, script, timeout=550)

    assert [kernel for kernel, _, _ in after] == [kernel for kernel, _, _ in before]
    assert {outcome for _, outcome, _ in after} == {"compiles"}
