"""Reads from frames what was done when a call failed, and whether the person's own code made the call."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from attn_doctor.diagnose.log.owners import owner
from attn_doctor.quick_patterns import when_used
from attn_doctor.recipes.data.programs import program_told

#: Functions of generation, of evaluation and of trainers. A trainer that generates fails in generation.
_PHASES = {
    "generation": r"\.(?:generate|sample)\(|generation/utils\.py|, in (?:_sample|generate|_greedy_search|prefill)\b",
    "evaluation": r"\bprediction_step\b|\bevaluation_loop\b|trainer\.(?:evaluate|predict)\(",
    "training": r"\b_?inner_training_loop\b|\b(?:training|train)_step\b|\bcompute_loss\b"
    r"|trainer\w*\.py\S{0,2},? (?:line \d+,? )?in (?:train|\w+_step)\b"
    r"|trainer\.train\(|\bloss\.backward|_get_per_token_logps|\bconcatenated_forward\b"
    r"|--(?:do_train|(?:per_device_)?train_batch_size|finetuning_type|num_train_epochs)\b",
}
_PHASE = tuple((name, when_used(pattern)) for name, pattern in _PHASES.items())
#: A line of the whole log is asked for its phase only with one of them; the message and its frames always are.
SIGNS = (
    "trainer.",
    "train_step",
    "training_",
    "compute_loss",
    "per_token_logps",
    "generate(",
    "generation/",
    "_train",
    "--finetuning_type",
)
#: Files that are nobody's call: the standard library, generated code, a checkpoint's own code.
_NOBODYS = when_used(
    r"[/\\][Ll]ib[/\\]python3\.\d|[/\\]Python3\d+[/\\][Ll]ib[/\\](?!site)|^<(?!ipython)|_compiled_cache[/\\]"
    # A portable Python has the standard library in an archive, and names its files without a folder.
    r"|^(?:subprocess|threading|contextlib|functools|runpy|inspect|tempfile|shutil|ctypes[/\\]__init__"
    r"|(?:importlib|asyncio|concurrent[/\\]futures|multiprocessing|urllib|json)[/\\]\w+)\.py$"
)

#: Files whose functions look attributes up, or pass on a call, for the code in the frame around them.
PASSES_ON = when_used(
    r"torch[/\\](?:nn[/\\]modules[/\\]module|utils[/\\](?:checkpoint|_contextlib)|_dynamo[/\\]\w+)\.py"
    r"|transformers[/\\](?:configuration_utils|utils[/\\](?:deprecation|generic|import_utils|output_capturing))\.py"
    r"|accelerate[/\\](?:hooks|utils[/\\]operations)\.py|huggingface_hub[/\\]utils[/\\]\w+\.py|<frozen importlib"
    # A module's own __getattr__, a class's, or a decorator around what was called.
    r"|(?:numpy|scipy|lazy_loader)[/\\]__init__\.py|pandas[/\\]core[/\\]generic\.py|jax[/\\]_src[/\\]deprecations\.py"
    r"|gradio[/\\]component_meta\.py|torchvision[/\\]models[/\\]_utils\.py|(?:networkx|monai)[/\\]utils[/\\]\w+\.py"
    r"|PIL[/\\]Image\.py|pydantic[/\\]_migration\.py|(?:sklearn|matplotlib)[/\\](?:utils|_api)[/\\]\w+\.py"
    r"|importlib[/\\]__init__\.py|pytorch_lightning[/\\](?:utilities[/\\]argparse|trainer[/\\]connectors[/\\]env_vars_connector)\.py"
)
#: Who raised, where the innermost file is nobody's but the person's: no package and no program is told by its path.
SCRIPT = "script"
#: In a pattern's `raised_by`: any package or program, whichever it is.
ANY_PACKAGE = "package"


def phase_in(text: str) -> str | None:
    """What was done when it failed: generation, evaluation or training."""
    return next((name for name, pattern in _PHASE if pattern.search(text)), None)


def is_own_code(paths: Iterable[str]) -> bool:
    """True where the innermost file that is no package's, and no program's, is the person's own; libraries below it do
    what they are called for. `paths`: of the frames, the outermost first.
    """
    for path in reversed(list(paths)):
        if program_told(path.replace("\\", "/")) is not None:
            return False
        if not owner(path) and not _NOBODYS.search(path):
            return True
    return False


def raised_by(paths: Iterable[str]) -> str | None:
    """Whose file the innermost frame names, but for those that only pass a call on: the import name of a package, the
    name of a program, or `script` for the person's own; None where no frame tells. `paths`: the outermost first.
    """
    for path in reversed(list(paths)):
        if "unsloth_compiled_cache" in path:
            return "unsloth"
        if PASSES_ON.search(path):
            continue
        if name := owner(path):
            return name
        if _NOBODYS.search(path):
            continue
        program = program_told(path.replace("\\", "/"))
        return program.name if program else SCRIPT
    return None


def raised_in(frames: Sequence[tuple[str, int]]) -> str | None:
    """File and line of the frame that raised, where that file is nobody's but the person's: losses.py, line 12. The
    frames are the outermost first.
    """
    path, number = next((one for one in reversed(frames) if not PASSES_ON.search(one[0])), ("<", 0))
    if path.startswith("<") or raised_by([path]) != SCRIPT:
        return None
    folder_and_file = path.replace("\\", "/").split("/")[-2:]
    return f"{'/'.join(folder_and_file)}, line {number}"


def may_have_raised(names: Iterable[str], paths: Iterable[str]) -> bool:
    """True where one of these raised, or no frame tells who did."""
    who = raised_by(paths)
    return who is None or who in names or (who != SCRIPT and ANY_PACKAGE in names)
