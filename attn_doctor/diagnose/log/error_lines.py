"""Lines by which programs other than Python say that they failed: compilers, linkers, drivers, shells.

Such a line is no exception, and still is the trouble where a notice, a title or a question stands beside it. What is
recognised here is only that something failed, never what.
"""

from __future__ import annotations

from functools import lru_cache

from attn_doctor.diagnose.log.unit import Unit, UnitKind
from attn_doctor.quick_patterns import when_used

#: Levels of records that report a failure.
_FAILED = frozenset("ECF")
#: The beginning of a line that says it by its form.
_AT_THE_START = when_used(
    r"(?:[\w.+/-]{1,120}: )?(?:catastrophic |fatal |internal )?error(?: [A-Z]{1,5}\d{2,5}|\[E\d{4}\])? ?: ?\S"
    r"|(?!\w{0,40}(?:Warning|Info))(?:[*`]{0,2})?(?:ERROR|Error|FATAL|Fatal [Ee]rror|fatal|panic|Internal [Ee]rror)\b"
    r"(?:\[\d+\]|\(\d+\))?[*`]{0,2} ?: ?\S"
    r"|Error (?:running|executing|loading|processing|during|while|in|when)\b[^:\n]{0,60}: \S"
    r"|\S{1,300}?[:(]\d+(?:[:,]\d+)?\)? ?: ?(?:catastrophic |fatal |internal )?[Ee]rror\b"  # of a file's line
    r"|(?:LINK|NVLINK|[\w./-]{1,200}\.(?:obj|lib|o)) ?: (?:fatal )?error LNK\d"
    r"|(?:nvcc|ptxas|nvlink|fatbinary|cicc|cudafe\+\+) (?:fatal|error) *:|ptxas \S{1,200}, line \d+; (?:error|fatal)"
    r"|CMake Error\b|LLVM ERROR|loc\(.{1,300}\): error|<unknown>:\d+: error|collect\d: error"
    r"|(?:\S{0,200}/)?(?:\w{1,40}-)?ld(?:\.\w{1,8})?: "
    r"(?:error|cannot find|library not found|symbol\(s\) not found|\S{1,200}: undefined)"
    r"|Undefined symbols for architecture|thread '[^'\n]{1,60}' (?:\(\d+\) )?panicked at|goroutine \d+ \[running\]"
    r"|Exception in thread \"|Unhandled [Ee]xception\b|Uncaught \w"
    r"|(?:npm|pnpm|yarn|gyp) (?:ERR!|error) |ERR_PNPM_\w|g?make(?:\[\d+\])?: \*\*\* "
    r"|(?:(?:ba|z|da|fi)?sh|/bin/\w{1,5}|-bash): .{1,200}(?:not found|No such file or directory|Permission denied)"
    r"|slurmstepd: error|srun: error|sbatch: error|(?:docker: )?Error response from daemon|E: \w"
    r"|Memory access fault by GPU|HW Exception by GPU|:\d:\w{1,40}\.cpp *:\d+ *:.{0,200}(?:[Aa]borting|error)"
    r"|E[A-Z\d]\d{4}(?::|(?= {1,3}\[)) ?\S|\[ERROR\] [A-Z]{2,12}\(\d"  # CANN
    r"|\{\s*\"?(?:error|errors)\"? ?: ?[\[{\"]|\{[^\n]{0,200}?[\"'](?:error|object)[\"'] ?: ?(?:\{|[\"']error[\"'])"
    r"|\{[\"']detail[\"'] ?: ?[\"'\[{]|\[(?:TensorRT|TRT)\] (?:\[E\]|ERROR)|\[E\] |Error\[\d+\]: "
    r"|[EF]\d{4} [\d:.]{8,30} +\d+ [\w./-]{1,80}:\d+\] \S"  # abseil's, with seconds
    r"|Unsupported backend\b|Check failed: |GGML_ASSERT|Faulting (?:application|module) name"
    r"|error while loading shared libraries|dyld\[\d+\]: |dyld: "
    r"|(?:llama_|ggml_|gguf_)\w{1,60}: error|error loading \w{1,20}: "
)
#: What says it wherever it stands.
_ANYWHERE = when_used(
    r"undefined reference to |unresolved external symbol|error while loading shared libraries: "
    r"|['\"] is not recognized as an internal or external command"
    r"|\b(?i:cublas|cudnn|cusparse|cusolver|cufft|nvrtc|hipblas|rocblas|miopen|nccl|rccl|cuda|hip)(?:Lt)? "
    r"(?:[Ee]rror|failure)\b(?! (?:code )?handling)(?:[: ]*-?\d| ?: ?\S| at | in )"
    r"|\baclnn\w{2,60}(?: \w+)? failed|\bAssertion [`'\"(][^\n]{1,300} failed"
    r"|^Assertion failed\b|: failed assertion [`'\"(]"
    r"|\bGGML_ASSERT\(.{1,200}\) failed|\bCheck failed: |UNREACHABLE executed|\bHSA_STATUS_ERROR_\w"
    r"|is not recognized as (?:an internal or external command|the name of a cmdlet)|: command not found\s*$"
    r"|(?:code )?execution cannot proceed because |procedure entry point .{1,200} could not be located"
    r"|was unable to start correctly \(0x|cannot be loaded because running scripts is disabled"
    r"|\bterminate called after throwing"
)
#: What has the form and tells of no failure: TensorFlow of a plug-in that is registered twice, a bar's or test's count.
_NONE = when_used(
    r"Unable to register \w+ (?:factory|plugin)|already been registered|\b(?:no|0|without) errors?\b|\berrors?: 0\b"
    r"|\"error\" ?: ?(?:null|\"\"|false)|\bValidation[ _][Ee]rror: [\d.]+$|^(?:ERROR|Error) ?[:/] ?(?:INFO|WARNING)"
)
#: What only says that another step failed, whose own words stand above.
_OF_A_STEP = when_used(
    r"collect2: error|g?make(?:\[\d+\])?: \*\*\* |error: (?:subprocess-exited|command|could not compile)"
    r"|Error: (?:Process completed|Prompt execution failed)|.{0,20}failed \(exitcode: |terminate called"
    r"|(?:error|ERROR): (?:pip's dependency resolver|Command errored out)|pip's dependency resolver|Command errored out"
    r"|(?:npm|pnpm) (?:ERR!|error) (?:A complete log|code|errno|path|command)|ERROR: Failed building wheel"
    r"|slurmstepd: error: \*\*\*|srun: error: \S+: task|ninja: "
)
_LONGEST = 600
_AS_ZERO = dict.fromkeys(map(ord, "123456789"), "0")


def says_an_error(text: str, level: str = "") -> bool:
    """True for a line that says that something failed; `level` is that of its record."""
    text = text.strip()[:_LONGEST]
    if not text or _NONE.search(text):
        return False
    return level in _FAILED or _has_the_form(text.translate(_AS_ZERO))


@lru_cache(2048)
def _has_the_form(text: str) -> bool:
    """Asked once of lines that differ in their numbers, none of which the forms name but 0."""
    return _AT_THE_START.match(text) is not None or _ANYWHERE.search(text) is not None


def says_what_failed(text: str, level: str = "") -> bool:
    """True for a line that says that something failed, and not only that some step did, whose own words stand above."""
    return says_an_error(text, level) and _OF_A_STEP.match(text.strip()) is None


def error_line_of(unit: Unit, *, steps: bool = True) -> int | None:
    """The index of the line of a unit that says that something failed; None where none does, and for exceptions, which
    say it by their class. Without `steps`, lines are passed over that only say that some step failed.
    """
    if unit.exception or unit.kind is UnitKind.WARNING:
        return None
    for at, line in enumerate(unit.lines):
        if (says_an_error if steps else says_what_failed)(line.text, line.level):
            return at
    return None
