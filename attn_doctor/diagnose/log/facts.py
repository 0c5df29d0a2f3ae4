"""Reads facts about the machine from the lines of its log."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from attn_doctor.diagnose.log import boards, devices, gpu_words, programs, subjects, surroundings
from attn_doctor.diagnose.log.built_beside import BuiltBeside
from attn_doctor.diagnose.log.built_in_place import BuiltInPlace
from attn_doctor.diagnose.log.compiled_calls import CompiledCalls
from attn_doctor.diagnose.log.cuda_stated import CUDA_STATED, DRIVER_SPEAKS, OF_ANOTHER, STATED, another_cuda, in_paths
from attn_doctor.diagnose.log.done import Done
from attn_doctor.diagnose.log.engines import ENGINE, by_its_release, engine_of
from attn_doctor.diagnose.log.installed_from import FOLDER, Steps, installed_from
from attn_doctor.diagnose.log.said_installed import Installed
from attn_doctor.diagnose.log.strangers import Company
from attn_doctor.diagnose.log.subjects import builds_in, built_in, handled_in
from attn_doctor.diagnose.log.surroundings import Surroundings
from attn_doctor.diagnose.log.tried import TRIED, Tried
from attn_doctor.diagnose.log.unit import Line
from attn_doctor.diagnose.log.versions_said import ATTENTION, VERSION, asks_for_versions, versions_in
from attn_doctor.model.facts import Fact, FactName, Known, Origin, Value
from attn_doctor.model.package_versions import canonical_name
from attn_doctor.model.vocabulary import ValueType, term_of, value_fault
from attn_doctor.probe.packages.known_packages import BY_NAME
from attn_doctor.quick_patterns import when_used
from attn_doctor.recipes.data.gpu_table import GpuNames

#: Texts that mark lines with facts in a large log.
TELLING = (
    "ompute capability", "CUDA capability", "has capability", "ardware limit", "GeForce", "Tesla ", "Quadro ",
    "PyTorch version", "torch version", "Driver Version", "(you have ", "(found version ", " LLM engine (v",
    "CUDA SETUP: ", "API server version", "vLLM Version", "urrent capability", *subjects.TELLING,
    *surroundings.TELLING,
)  # fmt: skip

_WORTH = when_used(
    r"^(?:Processing|Obtaining) |^\s*Collecting |setup command|subprocess-exited|status 'error'|\.\.\. error"
    r"|DGX Spark|\bGB10\b"
    r"|apability|ardware limit|NVIDIA|[Nn]vidia|_C_|_cuda|rocm|ROCM|[Gg]e[Ff]orce|Tesla|Quadro|RTX|rtx|[Vv]ersion"
    r"|[Tt]orch|riton|GPU|gpu|entry function|CUDA arch|显卡|硬件|raphics card|\b[Gg][Tt][Xx]"
    r"|(?:\b|\d ?[x×*] ?)[AHLVPBT]\d{1,3}[Ss]?\b"
    r"|\b[ahv][18]00\b|\b(?:TITAN|[Tt]itan) "
    r"|lash.?[Aa]tt|ormers|ython|(?:CUDA|[Cc]uda) ?[:=v\d]|'gpu-name'|uild|likely indicates|, V\d|import|pip"
    r"|HIP|hip|gfx|AMD|Radeon|MI\d|extension module|nvcc|flashinfer|torch_ext|\.cache/|\.deep_gemm|\.tilelang"
    r"|git\+https|[Ss]eries|trl\b|peft|ccelerate|eepspeed|mamba|causal[-_]conv|bitsandbytes|diffusers|gface[-_]hub"
    r"|[ /]setup\.py|mmcv-full|timm|dgl|fairseq|hydra-core|kaolin|numpy|einops"
    r"|vllm|vLLM|LLM engine|sglang|SGLang|lmdeploy|\b[2-5]0[5-9]0 ?(?:[TtSs][IiUu]|cards?\b)"
    r"|(?:an?|my|the|on|\d ?[x×*]|[Cc]ard:) ?[2-5]0[5-9]0\b|16[56]0 ?S\b"
    r"|[一-龥] ?[A-Za-z]\d|[A-Za-z]\d{1,3} ?[一-龥]",
    re.ASCII,  # a word of Chinese ends no name of a GPU
)
_LIMIT = when_used(r"ardware limit:? ?(?P<limit>\d{5,6})\b")
#: What says an engine's release without its plain name: its first line, and the tags of images.
_ENGINE = when_used(
    rf"LLM engine \(v(?P<vllm>{VERSION})\)|\bvllm-openai:v(?P<vllm_image>{VERSION})"
    rf"|\blmsysorg/sglang:v(?P<sglang>{VERSION})|\bopenmmlab/lmdeploy:v(?P<lmdeploy>{VERSION})"
)
#: What pip says after it has moved torch.
_PINS = when_used(r"(?P<package>[\w.-]{2,60}) \S{1,40} requires torch==(?P<torch>\d[\d.]*)\S*, but you have torch ")
#: The first two lines of `pip show`.
_SHOWN = when_used(r"(?P<key>Name|Version): (?P<value>[\w.+-]{2,60})$")
_SHOWN_WORTH = frozenset({"torch", "triton", "transformers", "vllm", *ATTENTION.values()})
#: What somebody asked an interpreter, and its answer on the line below.
_ASKED_OF_TORCH = when_used(r"(?:>>> ?|\bprint ?\()torch\.__version__(?:\)?\s*$|[,)][^\n]{0,160}['\")]\s*$)")
_ASKED_OF_ITS_CUDA = when_used(r"(?:>>> ?|\bprint ?\()torch\.version\.cuda\)?['\"]?\s*$")
_ANSWERED_CUDA = when_used(r"\s{0,12}['\"]?(?P<version>(?:9|1[0-3])\.\d)['\"]?\s*$")
_ANSWERED = when_used(rf"\s{{0,12}}['\"]?(?P<version>{VERSION})['\"]?(?: (?:True|False|None|\d[\w.]{{0,12}}))*\s*$")
#: xformers' own message: the versions it was built for, and the installed ones.
_HAVE = when_used(
    r"PyTorch (?:(?P<wanted>\d\.\d{1,2}\.\d{1,2})\+(?P<build>cu\d{3})|\S{1,60}) with CUDA \S{1,20}"
    rf" \(you have (?P<version>{VERSION})\)"
)
#: torch's version, its GPU's or its compiler's name show a build for ROCm.
_ROCM = when_used(
    r"\+rocm(?P<version>\d{1,2}\.\d{1,2})|\bROCM?[ _-]?(?:[Vv]ersion)?[ :=]{1,3}(?P<stated>\d{1,2}\.\d{1,2})\b"
    r"|/opt/rocm-(?P<folder>\d{1,2}\.\d{1,2})"
)
_MAY_BE_BUILT = when_used(r"extension module|JIT|jit\b|torch_ext|\.cache/|/\.")
_BUILD_IN_WORDS = when_used(r"\+cuda(?:(\d\d)\.(\d))?$")
#: A wheel that does not fit is named for another machine; one that somebody asks for may be.
_REFUSED = when_used(r"not a supported wheel|current platform|\b(?:pip3? install|uv add) ")
#: Platforms in names of compiled files and wheels.
_MACHINE = when_used(
    r"\b(?P<machine>x86_64|aarch64)-(?:conda-)?linux-gnu\b|linux(?:\w{0,16}_|-)(?P<wheel>x86_64|aarch64)\b"
)
_PYTHON = when_used(
    r"\bpython(?P<dotted>3\.\d{1,2})t?/|-cpython-3(?P<built>\d{1,2})/|\.(?:cpython-3|cp3)(?P<minor>\d{1,2})-(?:x86_64|aarch64|win|linux|darwin)"
    r"|\bPython +\S{1,12} \(you have (?P<have>3\.\d{1,2}(?:\.\d{1,2})?)\)"  # xformers, of what it was built for
    r"|^Python (?P<said>3\.\d{1,2})\.\d{1,2}(?= \(| \||$)"  # what it says of itself
)
#: flash-attn's setup.py names the wheel by the torch that it found.
_GUESSED = when_used(
    r"Guessing wheel URL: \S{1,200}\+cu\d{2,3}torch(?P<torch>\d\.\d{1,2})"
    r"|pyg\.org/whl/torch-(?P<listed>\d\.\d{1,2}\.\d)\+"  # the list that somebody chose for the torch that is there
)
_TORCH_THERE, _SUBJECT, _AT_USE = "package.torch.version", "subject.package", "log.built_at_use"
_BUILT = when_used(r"^(?:Processing|Obtaining) |uild|Running setup|setup command|pip-|sdists|Guessing|likely indicates")
#: Most distinct lines remembered, so that a repeated line is evaluated once.
_MOST_SEEN = 4000


class Clues:
    """Collects facts about the machine and its packages. Contradicting statements give no fact."""

    _names: GpuNames | None = None

    def __init__(self) -> None:
        self._told: dict[str, dict[str, int]] = {}
        self._around = Surroundings()
        self._done, self._tried = Done(), Tried()
        self._calls = CompiledCalls()
        self._company = Company()
        self._seen: set[str] = set()
        self._handled: dict[str, int] = {}
        self._shown = ""
        #: Torch -> packages that an installer says are made for it, and that it is not there.
        self._pins: dict[str, dict[str, int]] = {}
        self._steps, self._in_place = Steps(), BuiltInPlace()
        #: Releases of torch whose list of wheels somebody chose; what is said of the torch that is there goes before.
        self._listed: dict[str, int] = {}
        self._asked = self._asked_cuda = False
        self._beside = BuiltBeside()
        self._installed = Installed()
        #: Told by the interpreter that ran; a list in the same log may be another one's.
        self._running: dict[str, tuple[str, int]] = {}

    def see(self, line: Line) -> None:
        """Reads one line."""
        text = line.text
        self._company.see(text, line.level)
        self._beside.see(text)
        refused = ".whl" in text and _REFUSED.search(text) is not None
        for name, value in boards.told_in(text) if refused else (*boards.told_in(text), *self._around.told(text)):
            self._tell(name, value, line.number)
        self._done.see(text, line.number)
        self._tried.see(text, line.number)
        self._in_place.see(text, line.number)
        self._calls.see(line)
        if engine_name := engine_of(line):
            self._tell(ENGINE, engine_name, line.number)
        if shown := _SHOWN.match(text):
            if shown["key"] == "Name":
                self._shown = canonical_name(shown["value"])
            elif self._shown in _SHOWN_WORTH:
                self._package(self._shown, shown["value"], line.number)
        asked = "torch." in text
        question, self._asked = self._asked, asked and _ASKED_OF_TORCH.search(text) is not None
        if question and (answer := _ANSWERED.match(text)):
            self._package("torch", answer["version"], line.number)
        question, self._asked_cuda = self._asked_cuda, asked and _ASKED_OF_ITS_CUDA.search(text) is not None
        if question and (answer := _ANSWERED_CUDA.match(text)):
            self._tell("torch.cuda", answer["version"], line.number)
        self._installed.see(text, line.number)
        text = text[:2000]
        if text in self._seen or not _WORTH.search(text):
            return
        if len(self._seen) < _MOST_SEEN:
            self._seen.add(text)
        for found in gpu_words.CAPABILITY.finditer(text):
            if not gpu_words.is_asked(text, found):
                self._tell("gpu.0.compute_capability", gpu_words.dotted(found), line.number)
        limit = _LIMIT.search(text)
        if limit:
            self._tell("gpu.0.shared_memory_bytes", limit["limit"], line.number)
            of_limit = self.names().of_limit(int(limit["limit"]))
            if of_limit:
                self._tell("gpu.0.compute_capability", of_limit, line.number)
        elif named := gpu_words.named_as_there(text, self.names().capability):
            self._tell("gpu.0.compute_capability", named, line.number)
        for sign, name, pattern in STATED:
            stated = pattern.search(text) if sign in text else None
            if stated:
                self._tell(name, stated["value"], line.number)
        found_version = DRIVER_SPEAKS.search(text)
        if found_version:
            number = int(found_version["number"])
            self._tell("driver.cuda", f"{number // 1000}.{number % 1000 // 10}", line.number)
        rocm = _ROCM.search(text) if "oc" in text or "OC" in text else None
        if rocm:
            self._tell("torch.hip", rocm["version"] or rocm["stated"] or rocm["folder"], line.number)
        python = _PYTHON.search(text)
        if python:
            told = python["dotted"] or python["said"] or python["have"]
            if python["have"]:
                self._running["python.version"] = (told, line.number)
            self._tell("python.version", told or f"3.{python['built'] or python['minor']}", line.number)
        machine = _MACHINE.search(text)
        if machine and not refused:
            self._tell("node.machine", machine["machine"] or machine["wheel"], line.number)
        guessed = _GUESSED.search(text)
        if guessed and guessed["torch"]:
            self._package("torch", guessed["torch"], line.number)
        elif guessed:
            self._listed.setdefault(guessed["listed"], line.number)
        for package in builds_in(text) if _BUILT.search(text) else ():
            self._tell(_SUBJECT, package, line.number)
        if _MAY_BE_BUILT.search(text) and (at_use := built_in(text)):
            self._tell(_AT_USE, at_use, line.number)
        for handled in handled_in(text):
            self._handled.setdefault(handled, line.number)
        engine = _ENGINE.search(text)
        if engine and engine.lastgroup:
            self._package(engine.lastgroup.partition("_")[0], engine[engine.lastgroup], line.number)
        sources = [*installed_from(text)]
        for name, value in (*in_paths(text), *sources):
            self._tell(name, value, line.number)
        self._steps.see(text, folder=any(name == FOLDER for name, _ in sources))
        if pins := _PINS.search(text):
            self._pins.setdefault(pins["torch"], {})[pins["package"]] = line.number
        have = _HAVE.search(text)
        if have:
            self._running["package.torch.version"] = (have["version"], line.number)
            if have["build"] and have["version"].endswith("+cpu"):
                self._tell("log.torch_wanted", have["wanted"], line.number)
                self._tell("log.torch_build", have["build"], line.number)
        else:
            if ("uda" in text or "UDA" in text) and not asks_for_versions(text):
                for cuda in CUDA_STATED.finditer(text):
                    self._tell("log.cuda_stated", cuda["value"], line.number)
            for name, version in versions_in(text):
                self._package(name, version, line.number)

    def _package(self, name: str, version: str, line: int) -> None:
        if name == "torch":  # 2.2.0+cuda11.8, as people write it
            version = _BUILD_IN_WORDS.sub(lambda found: f"+cu{found[1]}{found[2]}" if found[1] else "", version)
        if name == "python":
            self._tell("python.version", version, line)
            return
        if name != "torch" or not self._beside.now:
            self._tell(f"package.{name}.version", version, line)

    def _tell(self, name: str, value: str, line: int) -> None:
        self._told.setdefault(name, {}).setdefault(value, line)

    @classmethod
    def names(cls) -> GpuNames:
        """The table of GPUs, read when the first name is met."""
        if cls._names is None:
            cls._names = GpuNames()
        return cls._names

    def facts(self, log: str) -> Iterator[Fact]:
        """The facts without contradictions."""
        in_place = {} if self._steps.failed_fetched else self._in_place.found
        for about in (self._steps.among(self._handled), in_place, self._handled):
            if len(about) == 1:
                self._told.setdefault(_SUBJECT, about)
        said = self._told.pop(surroundings.SAID, {})
        if said and "node.system" not in self._told and not ("Windows" in said and "node.kernel" in self._told):
            self._told["node.system"] = said
        elif not said and "node.system" not in self._told and "WSL2" in self._told.get("node.kernel", {}):
            self._told["node.system"] = {"Linux": self._told["node.kernel"]["WSL2"]}
        if environments := self._told.get("python.environment"):
            self._told["python.environment"] = surroundings.one_environment(environments)
        if self._steps.failed_fetched or BY_NAME.keys() & self._told.get(_SUBJECT, {}).keys():
            self._told.pop(FOLDER, None)  # a known package that fails may be one that the folder's package asks for
        if folders := self._told.get(FOLDER):
            last = max(folders, key=folders.__getitem__)
            self._told[FOLDER] = {last: folders[last]}
        for name, releases in self._tried.several():
            if releases.issuperset(self._told.get(f"package.{name}.version", ())):
                self._told.pop(f"package.{name}.version", None)
        if nvcc := another_cuda(self._told):
            self._told[OF_ANOTHER] = nvcc
        if self._listed and _TORCH_THERE not in self._told:
            self._told[_TORCH_THERE] = dict(self._listed)
        for name, (version, number) in self._installed.releases.items():
            if name in BY_NAME and f"package.{name}.version" not in self._told:
                self._package(name, version, number)
        yield from (_known(name, value, log, number) for name, value, number in self._installed.told())
        self._told.update(by_its_release(self._told) if programs.PROGRAM not in self._told else {})
        self._told.update(boards.agreed(self._told))
        devices.settle(self._told)
        told = self._told.get(programs.PROGRAM, {})
        for name, value in self._around.ended() if told else ():
            self._tell(name, value, max(told.values()))
        for program, line in programs.first_of(told, self._told.get(ENGINE, {})):
            self._told[programs.PROGRAM] = {program: line}
            for name, switch in programs.switches(program):
                self._tell(name, switch, line)
        for name, value, number in self._calls.told():
            self._tell(name, value, number)
        if self._company.is_foreign:
            yield _known("log.foreign", True, log, 1)
        if self._company.of_learning is not None:
            yield _known("log.of_learning", self._company.of_learning, log, 1)
        if self._company.is_remote:
            yield _known("log.remote", True, log, 1)
        for name, (each, first) in (("log.done", self._done.told()), (TRIED, self._tried.told())):
            if each:
                yield _known(name, each, log, first)
        if len(self._pins) == 1 and len(packages := next(iter(self._pins.values()))) > 1:
            yield _known("log.pinned_by_several", True, log, min(packages.values()))
        for name, (running, line) in self._running.items():
            others = self._told.get(name, {})
            fits = [one for one in others if re.match(rf"{re.escape(running)}(?![\w.])", one)]
            self._told[name] = {fits[0] if fits else running: line}
        for name, values in self._told.items():
            one = _told_in_one_way(values)
            made = None if one is None else fact(FactName.parse(name), one, log, values[one])
            if made is not None:
                yield made


def _known(name: str, value: Value, log: str, line: int) -> Fact:
    return Fact(name=FactName.parse(name), state=Known(value), how=f"line {line} of {log}", origin=Origin.DERIVED)


def fact(name: FactName, value: str, log: str, line: int) -> Fact | None:
    """A fact from a log; None when the text is not a valid value."""
    term = term_of(name)
    made: Value = value
    if term is not None and term.kind is ValueType.INTEGER:
        if not value.isdigit():
            return None
        made = int(value)
    if term is None or value_fault(term.kind, made):
        return None
    return Fact(name=name, state=Known(made), how=f"line {line} of {log}", origin=Origin.DERIVED)


def _told_in_one_way(values: Iterable[str]) -> str | None:
    """The only value, or the longest of compatible ones: 3.11 and 3.11.4."""
    longest = max(values, key=len)
    return longest if all(re.match(rf"{re.escape(one)}(?![\w])", longest) for one in values) else None
