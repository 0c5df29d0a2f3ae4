"""Tells that a log was written in an image: what is installed in a running one does not last.

A person then changes the file that the image is built from, or takes another tag of it. While an image is built, no
GPU and no driver is there, whatever the machine has.
"""

from __future__ import annotations

from attn_doctor.quick_patterns import when_used

CONTAINER = "log.container"
#: Where the image is being built.
BUILD = "log.image_build"
_TOLD = when_used(
    r"(?P<Apptainer>\b(?:singularity|apptainer) (?:exec|run|shell|build|pull|instance)\b|[\w-]\.sif\b"
    r"|/\.singularity\.d/|Could not find any nv files on this host"
    r"|^(?:Singularity|Apptainer)> |\b(?:[Ss]ingularity|[Aa]pptainer) (?:container|image)s?\b)"
    r"|(?P<Docker>\b(?:docker|podman|nerdctl) (?:run|exec|build|pull|compose (?:up|run|exec|build|logs))\b"
    r"|\bdocker-compose (?:up|run|exec|build|logs)\b"
    r"|^\s*(?:=> (?:ERROR )?|#\d{1,3} (?:ERROR )?)\[[\w -]{0,30}\d{1,2}/\d{1,2}\] \w"
    r"|^Step \d{1,3}/\d{1,3} ?: ?(?:RUN|FROM|COPY|ENV|WORKDIR|ARG)\b"
    r"|^RUN (?:--\S+ )*(?:pip3?|python3?|apt(?:-get)?|uv|git|cd|conda) "
    r"|^(?:Dockerfile: )?FROM (?:[\w.-]+/)*[\w.-]+:[\w.-]+"
    r"|\b(?:pytorch/pytorch|nvidia/cuda|runpod/pytorch):\d|\bnvcr\.io/nvidia/"
    r"|\bghcr\.io/\w|\bvllm/vllm-openai\b|\blmsysorg/sglang:|/\.dockerenv\b"
    r"|\b(?:[Ii]n|[Ii]nside|[Ff]rom|[Uu]sing|[Ww]ith) (?:an? |the |my |this |their |your |its |official )?(?:\w+ )?"
    r"[Dd]ocker (?:image|container)\b|\b[Ii]nside (?:of )?[Dd]ocker\b)"
)
#: The steps of a build; a Dockerfile may be shown for a container that runs.
_STEP = when_used(
    r"\s*(?:Step \d{1,3}/\d{1,3} ?: ?[A-Z]{3,10}\b|(?:=> (?:CACHED |ERROR )?|> |#\d{1,3} (?:CACHED |ERROR )?)?"
    r"\[(?:[\w.-]{1,30} )? ?\d{1,3}/\d{1,3}\] (?:RUN|FROM|COPY|ADD|ENV|WORKDIR) )"
)
#: How it ends, and what people say of it.
_BUILDS = when_used(
    r"process \"/bin/(?:ba)?sh -[\w -]{1,20} .{1,400}\" did not complete successfully"
    r"|The command '/bin/(?:ba)?sh -.{1,400}' returned a non-zero code|While performing build: while running engine"
    r"|\b(?:[Dd]uring|[Ii]n|[Ww]hile|[Ww]hen|[Ff]ails?|[Ff]ailed|[Ee]rror|[Ww]ith|[Ff]rom) (?:\w+ ){0,4}"
    r"[`'\"]?(?:[Dd]ocker|podman)(?:[- ][Cc]ompose|x| buildx)? build\b"
    r"|\b(?:docker|podman)(?:[- ]compose| buildx)? build\b[^\n]{0,40}"
    r"\b(?:steps?|stage|fails?|failed|errors?|stops|says|gives)\b"
    r"|\b[Bb]uilding (?:the|my|an?|this|our) (?:[Dd]ocker )?(?:image|[Dd]ockerfile)\b"
)
#: The image was ready: what failed then failed in its container.
_STARTS = when_used(
    r"\s*(?:[$#>] ?|\S{1,80}[$#] )?(?:sudo )?(?:docker|podman|nerdctl)(?:[- ]compose)? (?:run|exec|start|up)\b"
)
_COMPOSE = when_used(r"\b[Dd]ocker[- ][Cc]ompose\b|\bcompose\.ya?ml\b")
_HANDS_GPUS = when_used(
    r"\b(?:apptainer|singularity) (?:exec|run|shell|instance start)\b.{0,300}? --(?:nv|nvccli|rocm)\b"
    r"|\b(?:docker|podman|nerdctl) (?:run|create)\b[^#]{0,400}?"
    r" --(?:gpus|runtime[= ]nvidia|device[= ]nvidia\.com/gpu)(?=[ =]|$)"
)
#: What somebody has yet to do: `I have not tried docker run --gpus all`.
_NOT_DONE = when_used(r"(?i:(?:\bnot|n['’]t|\bnever)(?: yet)? (?:tried|try|used?|using|run|ran)(?: \w{1,12}){0,2} $)")
_PODMAN = when_used(r"\b[Pp]odman\b(?! ?(?:or|and|/|,) ?[Dd]ocker)(?<!ocker/[Pp]odman)(?<!ocker or [Pp]odman)")
#: Of these one stands in every line that it finds.
SIGNS = (
    *("ocker", "podman", "nerdctl", "ingularity", "pptainer", ".sif", "RUN ", "FROM ", "Step ", "=> ", "] "),
    *("any nv files", "nvcr.io", "ghcr.io", "vllm-openai", "lmsysorg", "/pytorch:", "/cuda:"),
)


#: The same of what is said of a build.
_BUILD_SIGNS = ("ocker", "podman", "nerdctl", "/bin/", "uilding ", "performing build")


def container_in(text: str) -> str | None:
    """Docker, or Apptainer, whose images are read-only."""
    found = _TOLD.search(text, 0, 600)
    return str(found.lastgroup) if found else None


def build_in(text: str) -> str | None:
    """`image build` for a line of an image's build, or one that says that the image is built; another word for one that
    starts its container: of both together nothing is known.
    """
    if ("] " in text or "Step " in text) and _STEP.match(text, 0, 600):
        return "image build"
    if not any(sign in text for sign in _BUILD_SIGNS):
        return None
    if _STARTS.match(text, 0, 600):
        return "started"
    return "image build" if _BUILDS.search(text, 0, 600) else None


def hands_gpus(text: str) -> bool:
    """True where a command that starts a container asks for its GPUs."""
    found = _HANDS_GPUS.search(text, 0, 1000)
    return found is not None and not _NOT_DONE.search(text[max(0, found.start() - 60) : found.start()])


def names_podman(text: str) -> bool:
    """True where a line calls podman, which hands GPUs over by their CDI names."""
    return _PODMAN.search(text, 0, 600) is not None


def names_compose(text: str) -> bool:
    """True where a line names docker compose, whose file hands the GPUs over."""
    return _COMPOSE.search(text, 0, 600) is not None
