"""Tells that a log was written in an image: what is installed in a running one does not last.

A person then changes the file that the image is built from, or takes another tag of it.
"""

from __future__ import annotations

from attn_doctor.quick_patterns import when_used

CONTAINER = "log.container"
_TOLD = when_used(
    r"(?P<Apptainer>\b(?:singularity|apptainer) (?:exec|run|shell|build|pull|instance)\b|[\w-]\.sif\b"
    r"|/\.singularity\.d/"
    r"|^(?:Singularity|Apptainer)> )"
    r"|(?P<Docker>\b(?:docker|podman|nerdctl) (?:run|exec|build|pull|compose (?:up|run|exec|build|logs))\b"
    r"|\bdocker-compose (?:up|run|exec|build|logs)\b"
    r"|^\s*(?:=> (?:ERROR )?|#\d{1,3} (?:ERROR )?)\[[\w -]{0,30}\d{1,2}/\d{1,2}\] \w"
    r"|^RUN (?:--\S+ )*(?:pip3?|python3?|apt(?:-get)?|uv|git|cd|conda) |^FROM (?:[\w.-]+/)*[\w.-]+:[\w.-]+"
    r"|\bnvcr\.io/nvidia/|\bghcr\.io/\w|\bvllm/vllm-openai\b|\blmsysorg/sglang:|/\.dockerenv\b"
    r"|\b(?:[Ii]n|[Ii]nside|[Ff]rom|[Uu]sing|[Ww]ith) (?:an? |the |my |this |their |your |its |official )?(?:\w+ )?"
    r"[Dd]ocker (?:image|container)\b|\b[Ii]nside (?:of )?[Dd]ocker\b)"
)
_COMPOSE = when_used(r"\b[Dd]ocker[- ][Cc]ompose\b|\bcompose\.ya?ml\b")
#: Of these one stands in every line that it finds.
SIGNS = (
    *("ocker", "podman", "nerdctl", "ingularity", "pptainer", ".sif", "RUN ", "FROM ", "=> ", "] "),
    *("nvcr.io", "ghcr.io", "vllm-openai", "lmsysorg"),
)


def container_in(text: str) -> str | None:
    """Docker, or Apptainer, whose images are read-only."""
    found = _TOLD.search(text, 0, 600)
    return str(found.lastgroup) if found else None


def names_compose(text: str) -> bool:
    """True where a line names docker compose, whose file hands the GPUs over."""
    return _COMPOSE.search(text, 0, 600) is not None
