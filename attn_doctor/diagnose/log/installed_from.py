"""Tells where an installer took a package from, where that is no index: a repository, or a folder of this machine."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from urllib.parse import unquote

from attn_doctor.model.package_versions import canonical_name
from attn_doctor.quick_patterns import when_used

#: What an installer was told to install, where it is a repository.
_FETCHED = when_used(r"(?<![\w/])(?P<address>git\+https://[\w./@+-]{8,200}\w(?:/?#subdirectory=[\w./-]{1,80}\w)?)")
#: pip's words for a folder; a file that it takes from one is a wheel or an archive.
_FOLDER = when_used(
    r"^\s*(?:Processing |Obtaining file://(?:/(?=[A-Za-z]:))?)(?P<folder>(?:[A-Za-z]:|~|\.{1,2})?[/\\][^\n:|#]{1,200}?)"
    r"[/\\]?(?:#\S{1,200})?(?: \(from .{0,200})?\s*$"
)
_FILE = when_used(
    r"\.(?:whl|zip|tgz|tbz|txz|gz|bz2|xz|png|jpe?g|mp4|wav|jsonl?|csv|txt|py|toml|ya?ml|parquet)$|\.\.\.$"
)
FOLDER = "log.source_folder"
#: What pip fetched, its step that failed before anything was built, and the build, which names its package.
_STEPS = when_used(
    r"^\s*Collecting (?!git\+)(?P<fetched>[A-Za-z][\w-]{0,60})|(?P<failed>subprocess-exited-with-error"
    r"|finished with status 'error'|\.\.\. error\s*$)|(?P<built>Building (?:wheel|editable) for )"
)
_STEP_SIGNS = ("Collecting ", "subprocess-exited", "status 'error'", "... error", "Building ")
#: A torch of no release of its own, as a vendor's image brings it, that pip has taken away.
_VENDORS_TORCH_GONE = when_used(
    r"(?:Successfully uninstalled torch-|Uninstalling torch-)"
    r"(?P<version>\d[\w.]{2,20}\+[\w.]{0,20}(?:nv|git|lw)[\w.]{0,20}?)(?=[:\s]|$)"
)
#: A build of torch's own index that pip has taken away.
_TORCH_GONE = when_used(r"Successfully uninstalled torch-(?P<version>\d\.\d{1,2}\.\d)\+(?P<build>cu\d{3})\s*$")
_NO_PIP = when_used(r"\bpython[\d.]{0,5}(?:\.exe)?: No module named pip\s*$")


def installed_from(text: str) -> Iterator[tuple[str, str]]:
    """Names and values of the facts about this that one line tells."""
    if "git+https" in text and (fetched := _FETCHED.search(text)):
        yield "log.fetched_from", fetched["address"]
    found = _FOLDER.match(text) if "Processing " in text or "Obtaining file" in text else None
    if found and not _FILE.search(found["folder"]):
        folder = unquote(found["folder"])  # pip writes %20
        yield FOLDER, folder.replace("\\", "/") if "%" in found["folder"] else folder
    if "ninstall" in text and (gone := _VENDORS_TORCH_GONE.search(text)):
        yield "log.vendors_torch_gone", gone["version"]
    if "uninstalled torch-" in text and (gone := _TORCH_GONE.search(text)):
        yield "log.torch_gone", gone["version"]
        yield "log.torch_gone_build", gone["build"]
    if "recompiled wheel not found" in text:
        yield "log.wheel_not_found", "setup.py"
    if "No module named pip" in text and _NO_PIP.search(text):
        yield "log.without_pip", "python"


class Steps:
    """Follows pip's steps: a package that it fetched for a folder's sake may be the one that fails."""

    def __init__(self) -> None:
        self._last = ""
        self.failed_fetched = False
        """The first step that failed was of a package that pip had fetched after it read the folder."""
        self.failed = ""
        """The package whose first step failed: the one that pip fetched last before it."""
        self._failed = False
        self._fetched = ""

    def see(self, text: str, *, folder: bool) -> None:
        """Reads one line; `folder`: it names a folder that is installed."""
        if folder:
            self._last = "folder"
        elif any(sign in text for sign in _STEP_SIGNS) and (step := _STEPS.search(text)):
            if step["failed"]:
                if not self._failed and self._last == "fetched":
                    self.failed_fetched, self.failed = True, self._fetched
                self._failed = True
            elif step.lastgroup:
                self._last, self._fetched = step.lastgroup, canonical_name(step["fetched"] or "")

    def among(self, handled: Mapping[str, int]) -> dict[str, int]:
        """The package that failed, where it is one of these, with its line."""
        return {self.failed: handled[self.failed]} if self.failed in handled else {}
