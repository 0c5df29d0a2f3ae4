"""Extracts the fields that fleet commands use from one report's JSON, or the reason why it is not a report.

Input from other machines is not trusted: every type is checked, and nothing raises."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import Any, NoReturn

from attn_doctor.fleet.nodeset import NAME
from attn_doctor.formats.report_v1 import SCHEMA
from attn_doctor.machine import faults
from attn_doctor.model.fingerprint import hash_of
from attn_doctor.model.fleet import MachineMarks, NodeFinding, NodeReport, Outcome, Unreadable

#: Bytes. A report has some tens of KB; a thousand times that is not a report and must not fill the memory.
LARGEST = 16 << 20
_NAMED = re.compile(rb'"node"\s*:\s*\{[^{}]{0,400}?"name"\s*:\s*"([A-Za-z0-9._-]{1,253})"')
_MOST_WORDS = 400
_PLAIN = frozenset({str, int, float, bool, type(None)})


class _NoReport(Exception):
    """The input is not a report; the text is the reason."""


def report_of(data: bytes, *, source: str, node: str | None = None, task: int | None = None) -> NodeReport | Unreadable:
    """Reads one report; `node` and `task` name the sender, as far as the stream or the file name contains it."""

    def unreadable(reason: str) -> Unreadable:
        return Unreadable(source=source, reason=reason, node=_name_in(data) or node, task=task)

    def read() -> NodeReport | Unreadable:
        try:
            return _read(_parsed(data), task)
        except _NoReport as why:
            return unreadable(str(why))

    return faults.survive(f"reading of {source}", read, unreadable)


def _not_a_number(word: str) -> NoReturn:
    raise _NoReport(f"{word} is no JSON value")


_DECODER = json.JSONDecoder(parse_constant=_not_a_number)


def _parsed(data: bytes) -> Any:
    if len(data) > LARGEST:
        raise _NoReport(f"larger than any report: more than {LARGEST >> 20} MiB")
    if not data.strip():
        raise _NoReport("empty")
    try:
        return _DECODER.decode(data.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise _NoReport(f"not UTF-8 at byte {error.start:,}") from None
    except RecursionError:
        raise _NoReport("nested too deep for JSON that anybody wrote") from None
    except json.JSONDecodeError as error:
        cut = error.pos >= len(data.decode("utf-8-sig").rstrip()) - 1 or error.msg.startswith("Unterminated")
        said = f"cut off after {len(data):,} bytes" if cut else f"no JSON: {error.msg} at character {error.pos:,}"
        raise _NoReport(said) from None
    except ValueError as error:  # an integer of thousands of digits
        raise _NoReport(f"no JSON that can be read: {str(error)[:120]}") from None


def _whole(written: Mapping[str, Any]) -> bool:
    """True when all parts of attn-doctor ran: when one failed, a missing fact does not mean absent."""
    return written.get("failure") is None and not written.get("own_faults")


def _read(written: Any, task: int | None) -> NodeReport:
    if not isinstance(written, dict):
        raise _NoReport(f"a JSON {type(written).__name__}, not a report")
    schema = written.get("schema")
    if schema != SCHEMA:
        if isinstance(schema, str) and schema.startswith("attn-doctor/report/"):
            raise _NoReport(f"a report of another format: {schema[:60]}; this attn-doctor reads {SCHEMA}")
        raise _NoReport(f"no report of attn-doctor: its schema is {json.dumps(schema)[:60]}")
    node, facts_of = _dict(written, "node", {}), _dict(written, "facts", {})
    hostname = _text(node, "hostname", _fact(facts_of, "node.hostname"))
    name = _text(node, "name", hostname)
    if not NAME.match(name):
        raise _NoReport(f"it does not say which node it is of: {json.dumps(name)[:80]}")
    environment = _environment(written, {name, hostname or name})
    cohort = _flat(_dict(written, "cohort", {}), "cohort")
    facts = None if written.get("fingerprint") is None else _hashed_facts(_dict(written, "fingerprint"))
    supposed = _supposed(written)
    return NodeReport(
        node=name,
        environment=environment,
        created=_text(written, "created", "")[:40],
        quick=written.get("quick") is True,
        limited=bool(_limits(written)),
        machine=_marks(_dict(written, "volatile", {})),
        cohort={**cohort, "environment": environment},
        outcome=_outcome(written, _dict(written, "summary"), supposed),
        facts=facts if _whole(written) and not supposed else None,
        task=task,
        kernels=_kernels(written),
        shares=_shares(written),
    )


def _hashed_facts(fingerprint: dict[str, Any]) -> dict[str, Any]:
    """The facts of a fingerprint. Pieces of two reports can make one that is whole, and nobody's: its hash does not fit
    them.
    """
    facts = _flat(_dict(fingerprint, "facts"), "fingerprint")
    if hash_of(facts) != fingerprint.get("sha256"):
        raise _NoReport("damaged: its fingerprint is not that of its facts; pieces of several reports may be mixed")
    return facts


def _environment(written: Mapping[str, Any], names: set[str]) -> str:
    # Not the environment's id: it differs when only the Python version does, and the difference would stay unreported.
    environment = _dict(written, "environment", {})
    folder = _text(environment, "prefix", _text(_dict(written, "target", {}), "python", ""))
    parts = {part for name in names for part in (name, name.partition(".")[0])}
    for one in sorted(parts, key=len, reverse=True):
        if one in folder:
            folder = re.sub(rf"(?<![\w.-]){re.escape(one)}(?![\w-])", "{node}", folder)
    image = _text(environment, "image", "")
    return f"{folder} in {image}" if image else folder


def _marks(volatile: Mapping[str, Any]) -> MachineMarks:
    uuids, boot = volatile.get("gpu_uuids"), volatile.get("boot_id")
    return MachineMarks(
        boot=boot if isinstance(boot, str) else "",
        gpu_uuids=tuple(sorted(one for one in uuids if isinstance(one, str))) if isinstance(uuids, list) else (),
    )


def _flat(values: dict[str, Any], what: str) -> dict[str, Any]:
    """The facts, checked: a value is a text, a number, null, a list of texts, or the reason why it is unknown."""
    if _PLAIN.issuperset(map(type, values.values())):
        return values
    for name, value in values.items():
        if type(value) in _PLAIN:
            continue
        if isinstance(value, list):
            texts = value
        else:
            texts = list(value.values()) if isinstance(value, dict) and set(value) == {"unknown"} else [None]
        if not all(isinstance(one, (str, int)) for one in texts):
            raise _NoReport(f"damaged: {name[:80]} in its {what} has no value that can be compared")
    return values


def _supposed(written: Mapping[str, Any]) -> str:
    """Why the report does not describe the real node (assumed facts); empty when it does."""
    command, assumed = _text(written, "command", "check"), written.get("assumed")
    if command != "check":
        return f"the report is of `{command[:40]}`, not of `check`"
    return "the report judges as if (--gpu, --assume), not what is there" if assumed else ""


def _kernels(written: Mapping[str, Any]) -> str:
    if "kernels" not in written:
        return ""
    from attn_doctor.formats import kernels_v1  # records that few reports need

    return {None: "", True: "ran", False: "none ran"}[kernels_v1.ran(written["kernels"])]


def _shares(written: Mapping[str, Any]) -> dict[str, float] | None:
    """The speed of each kernel that was right: the slowest of a node's GPUs counts."""
    trials = written["kernels"].get("cells") if isinstance(written.get("kernels"), dict) else None
    found: dict[str, float] = {}
    for trial in trials if isinstance(trials, list) else ():
        share = trial.get("share") if isinstance(trial, dict) else None
        reached = share.get("of_matmul") if isinstance(share, dict) else None
        if isinstance(trial, dict) and trial.get("calls") is not None:  # a replay: a model's own call, by its time
            speed = trial.get("speed")
            time = speed.get("ms") if isinstance(speed, dict) else None
            reached = 1.0 / time if isinstance(time, (int, float)) and time > 0 else None
        if isinstance(reached, float) and math.isfinite(reached):
            parts = (trial.get(key) for key in ("backend", "dtype", "direction", "situation"))
            name = " ".join(part[:60] for part in parts if isinstance(part, str))
            found[name] = min(reached, found.get(name, reached))
    return found or None


def _limits(written: Mapping[str, Any]) -> str:
    """Which part of the node the report does not cover, and why; empty when all recipes were evaluated."""
    given = [flag for flag, key in (("--only", "limited_to"), ("--skip", "left_out")) if written.get(key)]
    return f"a part was judged ({', '.join(given)}), nothing is known of the rest" if given else ""


def _outcome(written: Mapping[str, Any], summary: Mapping[str, Any], supposed: str) -> Outcome:
    status = written.get("exit_status", summary.get("exit_status"))
    if isinstance(status, bool) or not isinstance(status, int):
        raise _NoReport("damaged: its exit status is no number")
    findings = written.get("findings")
    questions = written.get("open_questions", [])
    if not isinstance(findings, list) or not isinstance(questions, list):
        raise _NoReport("damaged: its findings are no list")
    kept = []
    for one in findings:
        finding = _as_dict(one, "finding")
        if finding.get("accepted") is None:
            kept.append(
                NodeFinding(
                    id=_text(finding, "id"),
                    severity=_text(finding, "severity"),
                    title=_text(finding, "title", "")[:_MOST_WORDS],
                )
            )
    kept += _found_in_full(written)
    if supposed:
        kept, questions, status = [], [], 3
    limits = "" if supposed else _limits(written)
    if limits and status == 0:
        status = 3
    return Outcome(
        exit_status=status,
        findings=tuple(dict.fromkeys(kept)),
        open_questions=tuple(dict.fromkeys(_text(_as_dict(one, "open question"), "recipe") for one in questions)),
        doctor_version=_text(written, "doctor_version", "unknown")[:40],
        failure=supposed
        or _failure(_dict(written, "failure", {}))
        or (limits if status != 1 else "")
        or (_nothing(summary) if status == 3 else ""),
    )


def _found_in_full(written: Mapping[str, Any]) -> list[NodeFinding]:
    """Errors that a full examination of the same environment found, as a report of files alone passes them on."""
    full = written.get("full_examination")
    findings = full.get("findings") if isinstance(full, dict) else None
    found = []
    for one in findings if isinstance(findings, list) else ():
        if isinstance(one, dict) and one.get("severity") == "error":
            found.append(
                NodeFinding(id=_text(one, "id"), severity="error", title=_text(one, "title", "")[:_MOST_WORDS])
            )
    return found


def _nothing(summary: Mapping[str, Any]) -> str:
    """Why there was nothing to examine on the node."""
    words = _text(summary, "nothing_to_examine", "")
    return f"nothing to examine: {words}"[:_MOST_WORDS] if words else ""


def _failure(failure: Mapping[str, Any]) -> str:
    about = _text(failure, "about", "").partition("\n")[0]
    return f"{_text(failure, 'what', '')}{f' ({about})' if about else ''}"[:_MOST_WORDS]


def _as_dict(value: Any, what: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise _NoReport(f"damaged: its {what} is no object")
    return value


def _dict(written: Mapping[str, Any], key: str, default: dict[str, Any] | None = None) -> dict[str, Any]:
    value = written.get(key, default)
    if value is None and default is not None:
        return default
    return _as_dict(value, key)


def _text(written: Mapping[str, Any], key: str, default: str | None = None) -> str:
    value = written.get(key, default)
    if value is None and default is not None:
        return default
    if not isinstance(value, str):
        raise _NoReport(f"damaged: its {key} is no text")
    return value


def _fact(facts: Mapping[str, Any], name: str) -> str:
    fact = facts.get(name)
    value = fact.get("value") if isinstance(fact, dict) else None
    return value if isinstance(value, str) else ""


def _name_in(data: bytes) -> str | None:
    found = _NAMED.search(data[: 1 << 16])
    name = found[1].decode() if found else ""
    return name if NAME.match(name) else None
