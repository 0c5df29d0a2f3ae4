"""Reads from single lines where a log was written: operating system, board, installer, and the GPUs' maker."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from attn_doctor.diagnose.log import amd_targets, calls, clusters, devices, images, programs, systems
from attn_doctor.diagnose.log.hearsay import works_there
from attn_doctor.quick_patterns import when_used
from attn_doctor.recipes.data.programs import repository_signs, repository_told
from attn_doctor.recipes.data.programs import signs as program_signs

#: Texts that mark such lines in a large log.
TELLING = (
    "+xpu",
    "-tegra",
    "Jetson",
    "JetPack",
    "jetpack",
    "python_embeded",
    "/builds-v0/",
    "nvcr.io/nvidia/",
    "/opt/pytorch/pytorch/",
    "pypoetry",
    "uv sync",
    "uv run",
    "java.lang.",
    "ai.onnxruntime",
    "Microsoft.ML.OnnxRuntime",
    "onnxruntime-node",
)

#: Under this name; the log's system is what they say where nothing else tells it.
SAID = "said.system"
#: Most lines evaluated for the operating system.
_ENOUGH = 12
#: Lines alike but for their digits, as a trainer's of each step, of which the first tell what there is to tell; and
#: the beginning of a line by which it is known.
_ENOUGH_ALIKE, _MOST_SHAPES, _SHAPE = 12, 4000, 300
_DIGITS = when_used(r"\d+")

_JETSON = when_used(
    r"-tegra\b|\btegra\b|\b[Jj]etson\b|\b[Jj]et[Pp]ack\b|\b(?:NVIDIA|AGX|NX|Nano) Orin\b"
    r"|\bOrin (?:NX|Nano|AGX)\b|\bnvgpu\b|/l4t-\w"
)
#: GPUs that are soldered beside an arm64 processor of NVIDIA.
_BESIDE_ARM = when_used(
    r"\bGB10\b|\bG[HB][23]00\b|\bDGX [Ss]park\b|\bGrace[- ](?:Hopper|Blackwell)\b"
    r"|\bPlatform: linux-aarch64\b|\bRaspberry Pi\b"
    r"|(?:^|, ?|\b(?:LTS|Ubuntu \d\d\.\d\d(?:\.\d)?|Debian \d\d) )aarch64(?=,|\.?$)"  # conda, of what it looks for
)
_MAY_BE_BESIDE_ARM = ("GB10", "GH200", "GB200", "GB300", "DGX Spark", "DGX spark", "aarch64", "Grace", "Raspberry Pi")
#: Likewise of the two above.
_MAY_BE = (
    *("RX ", "RX4", "RX5", "RX6", "RX7", "RX9", "rx ", "rx4", "rx5", "rx6", "rx7", "rx9", "0XT", "0 XT", "0xt", "0 xt"),
    *("webui-", "hip", "HIP", "Hip", "kfd", "gfx", "AMD", "luda", "LUDA", "ocm", "OCm", "OCM", "adeon", "MI2", "MI3"),
    *("MI5", "MI6", "MI1", "Vega", "Iris", "Arc A", "Arc B", "Arc Pro", "arc a", "arc b"),
    *("xpu", "XPU", "Intel", "Ponte V", "/lus/flare/", "npu", "910", "Ascend", "昇腾"),
    *("egra", "etson", "etPack", "etpack", "Orin", "nvgpu"),
    "/l4t-",
)
_WSL = when_used(
    r"(?<!including )(?<!use )(?<!\b[Oo]r )(?<!\b[Oo]r in )(?<!\b[Nn]o )(?<!\b[Nn]ot )(?<!\b[Nn]ot in )"
    r"(?<!\b[Nn]ot on )(?<!\b[Nn]ot under )(?<!\b[Nn]ot using )(?<!\b[Ww]ithout )(?<!\bnon-)(?<!\boutside )"
    r"\b(?:WSL ?2?|wsl2)\b(?! ?\?)"
    r"|(?<!\b[Nn]ot )\b(?:[Oo]n|(?<!or )[Ii]n|[Uu]nder|[Uu]sing) wsl\b"
    r"|microsoft-standard|/usr/lib/wsl/|(?<![\w.])/mnt/[c-f]/\w"
)
_MAY_BE_WSL = ("WSL", "wsl", "microsoft-st", "/mnt/")
_IMAGE = when_used(
    r"nvcr\.io/nvidia/(?:pytorch|nemo|tritonserver)|/opt/pytorch/pytorch/|\bnvidia-pytorch\b|\.nv2\d\.\d\d\b"
    r"|NVIDIA Release 2\d\.\d\d \(build |(?<![\w/-])pytorch[_:-]2\d\.(?:0[1-9]|1[0-2])(?:-py3)?(?![\w.]*whl)(?!\.\d)\b"
)
_MAY_BE_IMAGE = (
    "nvcr.io/",
    "NVIDIA Release",
    "/opt/pytorch/p",
    ".nv2",
    "nvidia-pytorch",
    "pytorch_2",
    "pytorch:2",
    "pytorch-2",
)
_INSTALLER = when_used(
    r"(?P<uv>/uv/builds-v\d|/sdists-v\d|\buv (?:sync|add|run|lock|pip install|venv)\b"
    r"|The build backend returned an error|\bUsing CPython 3\.\d+(?:\.\d+)?(?: interpreter at|$)"
    r"|^Creating virtual environment at: )"
    r"|(?P<poetry>pypoetry|\bpoetry (?:add|install|run|lock)\b|ChefBuildError)"
    r"|(?P<desktop>@comfyorgcomfyui-electron)"
    r"|(?P<portable>python_embeded|ComfyUI_windows_portable)"
    r"|(?P<bundled>[/\\]system[/\\]python[/\\](?:[Ll]ib[/\\]site-packages|python\.exe))"
    r"|(?P<installer_files>[/\\]installer_files[/\\]env[/\\](?:[Ll]ib[/\\]|python\.exe))"
    r"|(?P<venv>[/\\]venv[/\\](?:[Ll]ib[/\\]site-packages|Scripts[/\\]\w))"
    r"|(?P<dotvenv>[/\\]\.venv[/\\](?:[Ll]ib[/\\]site-packages|Scripts[/\\]\w))"
    r"|(?P<env>[/\\]env[/\\](?:[Ll]ib[/\\]site-packages|Scripts[/\\]\w))"
    # Packs of a program with its Python beside it, as they are common in China.
    r"|(?P<beside>[/\\]python[/\\](?:[Ll]ib[/\\]site-packages|python\.exe))"
    r"|(?P<runtime>[/\\]runtime[/\\](?:[Ll]ib[/\\]site-packages|python\.exe))"
    r"|(?P<standalone>[/\\]python_standalone[/\\])"
    r"|(?P<notebook><ipython-input-|\bIPython/core/|\bipykernel|/content/|/kaggle/working|\bCell In ?\[\d"
    r"|^-{2,4}> \d{1,4} |^In \[\d{1,4}\]: |\b[Kk]aggle (?:notebook|kernel)\b"
    r"|\b[Cc]olab (?:notebook|runtime|session|T4|L4|A100|[Pp]ro\b)"
    # where it runs there, it fails elsewhere
    r"|(?<!works )(?<!worked )(?<!runs )(?<!fine )(?<!well )(?<!not )"
    r"\b(?:[Oo]n|[Ii]n|[Uu]sing|[Rr]un) (?:[Gg]oogle )?[Cc]olab\b"
    r"(?![^\n]{0,12}\b(?:works|worked|runs|ran|is fine)\b))"
)
#: The interpreter by its path, as ComfyUI's manager prints it, and web interfaces that start or install something. One
#: with blanks would have to be quoted differently in each shell.
_PATH = r"((?:[A-Za-z]:[/\\]|/)[\w.()~+/\\-]{1,250}?[Pp]ython(?:\.exe|[\d.]{0,5}))"
_INTERPRETER = when_used(
    rf"(?:\bPython executable: ?|^venv \"){_PATH}\"?\s*$|^\s{{0,8}}(?:Command: )?\"?{_PATH}\"? -m pip "
)
#: The environment that pipx made for one program; its interpreter stands at a known place in it.
_PIPX = when_used(
    r"(?P<venv>(?:[A-Za-z]:[/\\]|/)[\w.()~+/\\-]{1,200}?[/\\]pipx[/\\]venvs[/\\][\w.-]{1,80})[/\\](?P<below>lib|Lib|bin|Scripts)[/\\]"
)
_MAY_BE_INTERPRETER = ("ython executable", 'venv "', " -m pip ")
_UV_COMMAND = when_used(r"(?<![\w/])uv\)? (?:(?P<pip>pip) (?:install|sync)|(?P<project>sync|add|run|lock))\b")
#: What uv's pip says of the environment that it works in, and no other command of it.
_UV_PIP = when_used(r"\bUsing Python \d[\w.+-]{1,40} environment at: ")
_ON_CPU = when_used(
    r"\b(?:device|device_map|map_location|accelerator) ?= ?\(?[\"']cpu[\"']|--(?:(?:device|accelerator)[ =])?cpu\b"
    r"|\btorch\.device\([\"']cpu|\b(?:model|pipe|pipeline|net)\w{0,20}\.to\([\"']cpu"  # not a result that is moved
    r"|\b(?:run|running|inference|works?) (?:it )?(?:only )?on (?:the |my |a )?(?:CPU|cpu)\b"
    r"|\b(?:CPU|cpu)[- ]only\b(?! (?:version|build|wheel|release|package|[Pp]y[Tt]orch|torch)\b)"
    r"|\bCPU (?:[Ss]upport|[Ii]nference|mode)\b(?! (?:before|until))"
    r"|\b(?:launch|start|deploy|serv)\w{0,4} [\w ./-]{0,40}\bon (?:the |my |a )?(?:CPU|cpu)\b"
    r"|\b(?:choose|chose|chosen|select|selected|selecting|picked) (?:the )?(?:device )?(?:CPU|cpu)\b"
    r"|(?:使用|用|在|选|选择|选了|选的是) ?(?:CPU|cpu)|(?:CPU|cpu) ?(?:模式|启动|运行|推理|部署)"
    r"|\bnur (?:eine |mit |auf )?(?:der )?CPU\b|\b(?:has|have|got) only (?:a |the )?CPU\b|\b(?:just|only) a CPU\b"
)
#: A copy of a trainer that a repository brings along, or releases that its authors name: newer ones lack its changes.
_KEPT = when_used(
    r"/(?:third[_-]?party|3rd[_-]?party|submodules?|external|extern|vendor)/"
    r"(?i:LLaMA-?Factory|axolotl|ms-swift|verl|OpenRLHF)\b"
    r"|\b(?:as|like|which|that|version) (?:is |was )?(?:this|the|your|their) "
    r"(?:repo(?:sitory)?|README|readme|project|paper)"
    r"(?:'s \w+)? (?:recommend|suggest|requir|ask|pin|specif|list|state|say)"
    r"|\b(?:recommended|suggested|required|pinned|specified|listed|stated|provided) (?:by|in) (?:this|the|your|their)"
    r" (?:repo|README|readme|requirements|environment\.ya?ml|project|paper|pyproject)"
    r"|\b(?:this|the|your|their|own) (?:(?:repo(?:sitory)?|project)'s )?(?:own )?"
    r"(?:fork|forked|modified|customi[sz]ed|bundled|vendored)"
    r" (?:\w+ )?(?:of )?(?i:LLaMA-?Factory|axolotl|ms-swift|verl|OpenRLHF)\b"
)
_MAY_BE_KEPT = (
    *("repo", "README", "readme", "project", "paper", "requirements", "environment.y", "third", "3rd"),
    *("submodule", "extern", "vendor", "fork", "modified", "custom", "bundled"),
)
#: What is built reads the GPUs that it is for from a variable of its own, and empties TORCH_CUDA_ARCH_LIST.
_OWN_TARGETS = when_used(r"tiny[-_]?cuda[-_]?nn|tinycudann|\binstant-ngp\b")
_MAY_HAVE_OWN = ("cuda-nn", "cudann", "cuda_nn", "instant-ngp")
_BY_CMAKE = when_used(r"\bcmake --build\b|\bMSB3721\b|\.vcxproj\b|[/\\]CMakeFiles[/\\]|\bCMakeLists\.txt\b")
#: ggml's own build, by make or by CMake: no torch has a say in it, and its targets are its own.
_OF_GGML = when_used(r"\bllamafile\b|\bggml-(?:cuda|hip|backend)\b|\bGGML_CUDA\b|\bLLAMA_CU(?:DA|BLAS)\b")
_MAY_BE_OF_GGML = ("llamafile", "ggml-", "GGML_CUDA", "LLAMA_CU")
_MAY_BE_BY_CMAKE = ("cmake --", "MSB3721", ".vcxproj", "CMakeFiles", "CMakeLists")
#: Where the library was called from another language: what is right in Python (its pip, a call in its own code) is not.
_RUNTIME = when_used(
    r"(?P<Java>\bjava\.(?:lang|util|io)\.\w+(?:Error|Exception)\b|\([\w$]{1,80}\.(?:java|kt|scala):\d+\)"
    r"|\bai\.onnxruntime\.\w|\(Native Method\))"
    r"|(?P<NET>\bMicrosoft\.ML\.OnnxRuntime\b|\.cs:line \d"
    r"|\bSystem\.(?:DllNotFound|TypeInitialization|BadImageFormat)Exception\b)"
    r"|(?P<Node>\bnode:internal/|[/\\]node_modules[/\\]onnxruntime-node\b)"
    r"|(?P<Cpp>\bOrt::(?:Exception|Session|SessionOptions|Env|Value)\b|\bonnxruntime_cxx_api\b)"
)
_MAY_BE_RUNTIME = (
    "java.",
    ".java:",
    ".kt:",
    ".scala:",
    "onnxruntime.",
    "(Native M",
    "OnnxRuntime",
    ".cs:line",
    "System.Dll",
    "System.Type",
    "System.BadI",
    "node:",
    "node_modules",
    "Ort::",
    "cxx_api",
)
_NAME_OF = {"NET": ".NET", "Node": "Node.js", "Cpp": "C++"}
_PADS = when_used(r"padding_side ?= ?[\"'](?P<side>left)\b")
_MAY_BE_INSTALLED = (
    *("/uv/", "uv ", "/sdists-v", "build backend", "CPython", "Creating virtual", "oetry", "Chef"),
    *("embeded", "_portable", "comfyui-electron"),
    *("Cell In", "--> ", "In ["),
    *(
        "ipython-input",
        "IPython/core",
        "ipykernel",
        "/content/",
        "/kaggle/",
        "aggle notebook",
        "aggle kernel",
        "olab",
        "\\venv",
        "/venv",
        "\\system",
        "/system",
    ),
    *("\\.venv", "/.venv", "\\env", "/env", "\\python", "/python", "\\runtime", "/runtime", "installer_files"),
)


def one_environment(told: dict[str, int]) -> dict[str, int]:
    """The kinds of environment that a log shows, with their lines, without those that others explain: uv and poetry
    work in a folder .venv, and their own commands reach it; what a desktop app's own files show goes before what people
    name beside it, and the .venv that a log shows before where that app proposes one.
    """
    if "desktop" in told:
        shown = "dotvenv" if "dotvenv" in told else "desktop"
        return {shown: told[shown]}
    return {kind: line for kind, line in told.items() if kind != "dotvenv" or not {"uv", "poetry"} & told.keys()}


class Surroundings:
    """Counts the lines that were read for the operating system."""

    def __init__(self) -> None:
        self._system = 0
        self._report = programs.ErrorReport()
        self._shapes: Counter[str] = Counter()

    def ended(self) -> Iterator[tuple[str, str]]:
        """Name and value of each fact that the end of the log tells."""
        return self._report.ended()

    def told(self, text: str) -> Iterator[tuple[str, str]]:
        """Name and value of each fact that a line tells; of lines that differ in digits alone, the first few do."""
        shape = _DIGITS.sub("", text[:_SHAPE])
        if self._shapes[shape] >= _ENOUGH_ALIKE:
            return
        if len(self._shapes) < _MOST_SHAPES:
            self._shapes[shape] += 1
        yield from self._report.told(text)
        if self._system < _ENOUGH and (system := systems.shown_in(text)):
            yield "node.system", system
            self._system += 1
        elif _any_in(text, systems.MAY_BE_SAID) and not _WSL.search(text, 0, 600):
            yield from ((SAID, system) for system in systems.said_in(text))
        made_for, beside = None, False
        if _any_in(text, _MAY_BE):
            if by := devices.made_in(text):
                made_for, beside = by
                yield (devices.BESIDE if beside else devices.MADE_FOR_ONE), made_for
            if _JETSON.search(text, 0, 2000):
                yield "log.board", "Jetson"
                yield "node.system", "Linux"
                yield "node.machine", "aarch64"
        if made_for or _any_in(text, devices.SIGNS):
            yield from devices.told_in(text, made_for, beside)
        if _any_in(text, _MAY_BE_BESIDE_ARM) and _BESIDE_ARM.search(text, 0, 600):
            yield "node.machine", "aarch64"
        if _any_in(text, amd_targets.SIGNS) and (target := amd_targets.target_in(text[:600])):
            yield "log.gfx", target
        if _any_in(text, _MAY_BE_WSL) and _WSL.search(text, 0, 600):
            yield "node.kernel", "WSL2"
        if _any_in(text, _MAY_BE_IMAGE) and _IMAGE.search(text, 0, 600) and not _JETSON.search(text, 0, 2000):
            yield "log.image", "NVIDIA"
        if _any_in(text, images.SIGNS) and (container := images.container_in(text)):
            yield images.CONTAINER, container
            if "--" in text and images.hands_gpus(text):
                yield "log.gpus_handed", container
        if build := images.build_in(text):
            yield images.BUILD, build
        if "odman" in text and images.names_podman(text):
            yield "log.podman", "podman"
        if "ompose" in text and images.names_compose(text):
            yield "log.compose", "docker compose"
        if _any_in(text, clusters.SIGNS):
            yield from clusters.told_in(text)
        if ("cpu" in text or "CPU" in text) and _ON_CPU.search(text, 0, 600):
            yield "log.device_wanted", "cpu"
        if _any_in(text, program_signs()) and (program := programs.told(text[:600])):
            yield programs.PROGRAM, program
        if _any_in(text, repository_signs()) and (repository := repository_told(text[:600])):
            yield "log.repository", repository.name
            yield "log.repository_asks", repository.asks
        if _any_in(text, _MAY_BE_KEPT) and _KEPT.search(text, 0, 600):
            yield "log.kept_by", "repository"
        if _any_in(text, calls.SIGNS) and (phase := calls.phase_in(text[:600])):
            yield "log.phase", phase
        if _any_in(text, _MAY_BE_INTERPRETER) and (run := _INTERPRETER.search(text, 0, 600)):
            yield "log.python", run[1] or run[2]
        elif "pipx" in text and (made := _PIPX.search(text, 0, 600)):
            windows = made["below"] in {"Lib", "Scripts"}
            yield "log.python", made["venv"] + ("\\Scripts\\python.exe" if windows else "/bin/python")
        if _any_in(text, _MAY_HAVE_OWN) and _OWN_TARGETS.search(text, 0, 2000):
            yield "log.target_list", "TCNN_CUDA_ARCHITECTURES"
        if _any_in(text, _MAY_BE_OF_GGML) and _OF_GGML.search(text, 0, 2000):
            yield "log.built_by", "ggml"
        elif _any_in(text, _MAY_BE_BY_CMAKE) and _BY_CMAKE.search(text, 0, 2000):
            yield "log.built_by", "CMake"
        if _any_in(text, _MAY_BE_RUNTIME) and (run_by := _RUNTIME.search(text, 0, 2000)):
            yield "log.runtime", _NAME_OF.get(str(run_by.lastgroup), str(run_by.lastgroup))
        if "padding_side" in text and "Make sure" not in text and (pads := _PADS.search(text, 0, 600)):
            yield "log.pads", pads["side"]
        if (
            _any_in(text, _MAY_BE_INSTALLED)
            and (installer := _INSTALLER.search(text, 0, 600))
            and not ("olab" in installer[0] and works_there(text, installer.start()))
        ):
            yield "python.environment", str(installer.lastgroup)
            if "uv " in text and (command := _UV_COMMAND.search(text, 0, 600)):
                yield "log.uv_command", str(command.lastgroup)
        if "environment at: " in text and _UV_PIP.search(text, 0, 600):
            yield "log.uv_command", "pip"


def _any_in(text: str, signs: tuple[str, ...]) -> bool:
    for sign in signs:  # noqa: SIM110 - `any` makes a generator for each line, which costs more than the search
        if sign in text:
            return True
    return False
