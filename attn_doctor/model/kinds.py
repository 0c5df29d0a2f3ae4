"""Every kind of fact, one record each. All other lists of kinds are derived from KINDS.

The kind is the first part of a fact's name: `gpu` in `gpu.0.name`. A new kind needs a record here and its terms in
vocabulary.py; recipes can then use it in conditions, reports can name it, and `recipes facts` prints it.
"""

from __future__ import annotations

from typing import NamedTuple


class Kind(NamedTuple):  # four times faster to create than a dataclass, and every command creates it
    """One kind of fact."""

    name: str
    plural: bool = False
    """A node can have several, and each fact has a subject: `gpu.0.name`, `package.torch.version`. Recipes may evaluate
    them one subject at a time (`for_each`)."""
    heading: str = ""
    """Label in a report for their number (the fact `listed.<kind>`); empty for a kind that is not listed."""
    listing: str = ""
    """The same label for the vocabulary, when it needs more words than a report has room for."""
    probe: str = ""
    """File of the probe that lists them."""
    leading: str = ""
    """The attribute that one probe finds together with all others of a subject. When it is unknown, so are they; when
    it is known, a missing attribute is absent. Empty: several probes contribute."""
    on_request: str = ""
    """The option that switches their probe on; without it they leave no open question. Empty: always examined."""
    shows_trouble: bool = False
    """Their facts show the problem itself; versions and capabilities only imply it."""
    traced: bool = False
    """Only a traced run finds them, or a library's sample, which is traced as well."""
    by_call: bool = False
    """Found call by call: their subjects are numbers in an internal list, without meaning for a person."""
    words: str = ""
    """The attribute that holds the message of a compiler, an interpreter or a library; log patterns are matched against
    it.
    """
    belongs_to: tuple[str, ...] = ()
    """Kinds of which each member of this kind has one, named by its attribute of the same name
    (`extension.*.package`).
    """
    part_of_package: bool = False
    """Each member is part of an installed package; what is true of the package is true of its parts."""
    from_installed_code: bool = False
    """Found by reading or running installed code: unknown after a planned change of that package or of torch."""
    made_for_gpu: bool = False
    """Their values depend on the GPU named with --gpu."""
    askable: bool = False
    """A person can answer them with --assume; for others, such as the symbols of an extension, nobody could."""


KINDS: tuple[Kind, ...] = (
    Kind("node"),
    Kind("rocm", askable=True),
    Kind(
        "env",
        heading="environment variables that matter",
        listing="environment variables looked at that are set",
        probe="probe/host/node.py",
        askable=True,
    ),
    Kind("cuda", askable=True),
    Kind(
        "gpu",
        plural=True,
        heading="GPUs on this node",
        listing="number of GPUs seen; known to be 0 on a node without a driver",
        probe="probe/host/gpus.py",
        askable=True,
    ),
    Kind("driver", askable=True),
    Kind(
        "nic",
        plural=True,
        heading="network adapters",
        listing="network adapters on the PCI bus, functions lent out by others apart",
        probe="probe/host/host_facts.py",
        leading="model",
    ),
    Kind(
        "rdma",
        plural=True,
        heading="RDMA ports",
        listing="ports of RDMA devices: InfiniBand, RoCE, EFA",
        probe="probe/host/host_facts.py",
        leading="state",
    ),
    Kind(
        "kernel_module",
        plural=True,
        heading="kernel modules that matter",
        listing="kernel modules, of those that decide how GPUs and adapters reach each other, that are loaded",
        probe="probe/host/host_facts.py",
        leading="loaded",
    ),
    Kind(
        "limit",
        plural=True,
        heading="limits of the process",
        listing="resource limits (ulimit) under which attn-doctor was started",
        probe="probe/host/host_facts.py",
        leading="soft",
    ),
    Kind("python", askable=True),
    Kind("libc", askable=True),
    Kind(
        "package",
        plural=True,
        heading="distributions on the interpreter's path",
        listing="distributions found in the interpreter's path",
        probe="probe/packages/packages.py",
        leading="version",
        askable=True,
    ),
    Kind("torch", askable=True),
    Kind("libstdcxx"),
    Kind("environment"),
    Kind(
        "requirement",
        plural=True,
        heading="requirements of all distributions that apply here",
        probe="probe/packages/requirements.py",
        leading="specifier",
    ),
    Kind(
        "patch",
        plural=True,
        heading="files that attn-doctor patched",
        listing="files of installed packages that attn-doctor patched",
        probe="probe/packages/patches.py",
        leading="path",
        belongs_to=("package",),
    ),
    Kind("source"),
    Kind(
        "extension",
        plural=True,
        heading="compiled extensions",
        listing="compiled extensions examined",
        probe="probe/binaries/extensions.py",
        leading="needed_libraries",
        belongs_to=("package",),
        part_of_package=True,
        from_installed_code=True,
    ),
    Kind(
        "library",
        plural=True,
        heading="libraries that import torch loads",
        listing="libraries that import torch would load, as far as they matter here",
        probe="probe/binaries/cuda_libraries.py",
        leading="identity",
    ),
    Kind(
        "loaded",
        plural=True,
        heading="CUDA libraries that a process has loaded",
        listing="of cuDNN, cuBLAS, NVRTC and NCCL: those that torch's sample had loaded",
        probe="probe/live/loaded_libraries.py",
        leading="version",
        shows_trouble=True,
        from_installed_code=True,
    ),
    Kind(
        "import",
        plural=True,
        heading="modules imported",
        listing="modules that were imported, each in its own child",
        probe="probe/live/imports_and_torch.py",
        leading="outcome",
        shows_trouble=True,
        words="error",
        belongs_to=("package",),
        part_of_package=True,
        from_installed_code=True,
    ),
    Kind(
        "sample",
        plural=True,
        heading="sample passes",
        listing="cells of the sample forward passes",
        probe="probe/live/imports_and_torch.py",
        leading="outcome",
        shows_trouble=True,
        words="error",
        belongs_to=("package",),
        from_installed_code=True,
    ),
    Kind("triton"),
    Kind(
        "config",
        plural=True,
        heading="configurations named",
        listing="configuration files named with --config",
        probe="probe/configs/configs.py",
        leading="framework",
        shows_trouble=True,
    ),
    Kind("trace", shows_trouble=True, traced=True, words="traceback"),
    Kind(
        "promotion",
        plural=True,
        heading="calls that changed a dtype",
        listing="calls that changed a dtype on the way to a broken attention call",
        probe="probe/trace/trace_facts.py",
        leading="call",
        shows_trouble=True,
        traced=True,
        by_call=True,
        belongs_to=("sample",),
        from_installed_code=True,
    ),
    Kind(
        "attention",
        plural=True,
        heading="sorts of attention calls met",
        listing="sorts of attention calls met in the traced run",
        probe="probe/trace/trace_facts.py",
        leading="verdict",
        shows_trouble=True,
        traced=True,
        by_call=True,
        belongs_to=("sample",),
        from_installed_code=True,
    ),
    Kind(
        "call",
        plural=True,
        heading="forms of attention calls met",
        listing="forms of attention calls: of a traced run, a replay, or --explain-sdpa",
        probe="probe/trace/call_facts.py",
        leading="name",
        on_request="--replay",
        traced=True,
        from_installed_code=True,
    ),
    Kind(
        "semantics",
        plural=True,
        heading="checks of which token reaches which",
        listing="sorts of trouble of tokens that reach, or miss, others (trace --semantics)",
        probe="probe/trace/semantics.py",
        leading="name",
        on_request="--semantics",
        shows_trouble=True,
        traced=True,
        from_installed_code=True,
    ),
    Kind(
        "region",
        plural=True,
        heading="attention regions that torch.compile computes otherwise",
        listing="attention regions that torch.compile computes otherwise than eager mode (trace --compile)",
        probe="probe/trace/compiled_regions.py",
        leading="outcome",
        on_request="--compile",
        shows_trouble=True,
        traced=True,
        from_installed_code=True,
    ),
    Kind(
        "kernel",
        plural=True,
        heading="Triton kernels compiled",
        probe="probe/trace/trace_facts.py",
        leading="outcome",
        shows_trouble=True,
        traced=True,
        words="message",
        from_installed_code=True,
        made_for_gpu=True,
    ),
    Kind(
        "compiled",
        plural=True,
        heading="sorts of trouble of calls whose kernels were compiled for a GPU and not run",
        probe="probe/trace/compiled_kernels.py",
        leading="outcome",
        on_request="--kernels",
        shows_trouble=True,
        words="message",
        made_for_gpu=True,
    ),
    Kind(
        "cell",
        plural=True,
        heading="sorts of trouble in kernel trials",
        listing="sorts of trouble that trials of attention kernels on the GPUs met (--kernels)",
        probe="probe/kernels/trials.py",
        leading="outcome",
        on_request="--kernels",
        shows_trouble=True,
    ),
    Kind(
        "speed",
        plural=True,
        heading="GPUs measured",
        listing="GPUs whose speed was measured (--kernels)",
        probe="probe/kernels/trials.py",
        leading="matmul_tflops",
        on_request="--kernels",
        shows_trouble=True,
    ),
    Kind(
        "share",
        plural=True,
        heading="kernels whose speed could be held against what they reached elsewhere (--kernels)",
        probe="probe/kernels/kernel_shares.py",
        leading="of_matmul",
        on_request="--kernels",
        shows_trouble=True,
    ),
    Kind(
        "xid",
        plural=True,
        heading="sorts of Xid events that the GPUs told while kernels ran (--kernels)",
        probe="probe/host/xids.py",
        leading="number",
        on_request="--kernels",
        shows_trouble=True,
    ),
    Kind("log"),
    Kind("subject"),
)

BY_NAME = {kind.name: kind for kind in KINDS}
#: Names of the kinds whose facts have a subject.
PLURAL = frozenset(kind.name for kind in KINDS if kind.plural)

_NONE = Kind("")


def kind_of(name: str) -> Kind:
    """The record of this kind; an empty record for an unknown name (`listed`, or a kind of a newer release)."""
    return BY_NAME.get(name, _NONE)
