"""The page of `check`, `trace` and `explain`: findings, the dtype path, kernels, and every fact."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from attn_doctor.model import recipe_pages
from attn_doctor.model.findings import Finding
from attn_doctor.model.report import Report
from attn_doctor.report.language import say, say_filled
from attn_doctor.report.pages.page import folded, page, tag, text
from attn_doctor.report.words import advice, phrases, places, steps, verdict

if TYPE_CHECKING:
    from attn_doctor.model.kernels import KernelTrials
    from attn_doctor.model.trace import AttentionCall, Trace
    from attn_doctor.report.words.dtype_path import Cell, Line


def whole(report: Report) -> str:
    """The file."""
    counted = verdict.counted(report)
    body = [tag("h1", f"attn-doctor {report.command}: {counted}"), tag("p", phrases.examined(report), "dim")]
    if report.examined.python:
        lines = (phrases.node(report.facts), *phrases.gpus(report.facts), phrases.stack(report.facts))
        body.append(f"<ul>{''.join(tag('li', line) for line in lines)}</ul>\n")
    body += [tag("p", line) for line in verdict.lines(report)]
    if report.trace is not None:
        body += _trace(report.trace)
    if report.kernels is not None:
        body += _kernels(report.kernels)
    body += [_finding(one, report) for one in report.diagnosis.findings]
    if report.diagnosis.open_questions:
        grouped = phrases.by_reason(report.diagnosis.open_questions).items()
        rows = "".join(tag("li", f"{reason}: {', '.join(recipes)}") for reason, recipes in grouped)
        body.append(f"<section>{tag('h2', say('Not decided: treat as unknown'))}<ul>{rows}</ul></section>\n")
    commands = "".join(
        f"<li>{text(say(label))} <code>{text(told)}</code></li>" for label, told, _ in steps.next_steps(report)
    )
    if commands:
        body.append(f"<section>{tag('h2', say('Next'))}<ul>{commands}</ul></section>\n")
    facts = "".join(
        f"<tr>{tag('td', str(fact.name))}{tag('td', phrases.said(fact))}{tag('td', fact.how)}</tr>\n"
        for fact in report.facts.values()
    )
    if facts:
        table = f'<div class="scroll"><table class="facts">{facts}</table></div>'
        body.append(folded(say("All {number} facts", number=len(tuple(report.facts.values()))), table))
    return page(f"attn-doctor {report.command}: {counted}", "".join(body))


def _finding(finding: Finding, report: Report) -> str:
    accepted = say(", accepted") if finding.accepted else ""
    severity = f'<span class="{finding.severity.value}">{say(finding.severity.value)}{accepted}</span>'
    id_ = text(finding.id)
    parts = [f'<section id="{id_}"><h2>{severity} <code>{id_}</code></h2>\n', tag("p", finding.title)]
    parts += [
        tag("p", say("at {file}", file=places.shown(one.file, one.line)), "dim")
        for one in places.every_place(finding)[:5]
    ]
    quote = places.quoted(finding, report.facts)
    if quote is not None:
        parts.append(f"<pre>{quote.line} | {_marked(quote.source, quote.marked)}</pre>\n")
    elif finding.locations and finding.locations[0].note:
        parts.append(tag("pre", finding.locations[0].note))
    for number, remedy in enumerate(finding.remedies, start=1):
        label = say(advice.label(finding, remedy)).capitalize()
        why = f" ({say(remedy.safety.value)}{f': {remedy.why_this_safety}' if remedy.why_this_safety else ''})"
        parts.append(tag("p", f"{label} {number}: {remedy.title}{why}"))
        parts += [tag("p", words, "dim") for words in advice.by_hand(remedy)]
        parts += [tag("pre", command) for command, _ in advice.commands(remedy)]
    reasons = [tag("p", finding.why)] + (
        [tag("p", say("Note: {known_problems}", known_problems=finding.known_problems))]
        if finding.known_problems
        else []
    )
    reasons += [
        tag("p", say("because {evidence}  [{how}]", evidence=phrases.evidence(fact), how=fact.how), "dim")
        for fact in finding.evidence
    ]
    reasons += [tag("p", say("causes: {title}", title=one.title)) for one in finding.symptoms]
    reasons += [
        f'<p><a href="{text(url)}">{text(url)}</a></p>\n' for url in finding.references if url.startswith("https://")
    ]
    parts.append(folded(say("Why"), "".join(reasons)))
    if address := recipe_pages.address(finding):
        parts.append(f'<p><a href="{text(address)}">{text(address)}</a></p>\n')
    elif command := advice.page(finding, shown_around=True):
        parts.append(f"<p>{text(say('The whole page:'))} <code>{text(command)}</code></p>\n")
    parts.append(tag("p", say("Confidence: {confidence}", confidence=phrases.confidence(finding)), "dim"))
    return "".join(parts) + "</section>\n"


def _marked(source: str, spans: tuple[tuple[int, int], ...]) -> str:
    words, at = [], 0
    for start, end in sorted(set(spans)):
        if start >= at:
            words += [text(source[at:start]), f"<mark>{text(source[start:end])}</mark>"]
            at = end
    return "".join(words) + text(source[at:])


def _trace(trace: Trace) -> Iterator[str]:
    yield tag(
        "p",
        say("Traced {words}: {rules}", words=trace.words, rules=say_filled(trace.rules))
        if trace.words
        else say_filled(trace.rules),
    )
    yield from (tag("p", say_filled(words), "dim") for words in trace.stood_in)
    for number, call in enumerate(trace.calls):
        yield _call(number, call, trace)
    if trace.error:
        yield tag("p", trace.error)


def _call(number: int, call: AttentionCall, trace: Trace) -> str:
    from attn_doctor.report.words import dtype_path

    path = dtype_path.listing(call, trace, whole=True)
    times = f" ×{call.calls}" if call.calls > 1 else ""
    tone = {"clean": "ok", "promoted then repaired": "warning"}.get(call.verdict, "error")
    at = say(" at {file}", file=places.shown(call.place.file, call.place.line)) if call.place else ""
    name = f"{text(call.name)}{times}{text(at)}"
    parts = [f'<section><h2><span class="{tone}">{text(verdict.of_trace(call.verdict))}</span> {name}</h2>\n']
    parts += [tag("p", say_filled(words), "dim") for words in (call.stand_in, call.error) if words]
    parts.append(tag("p", say("gets {gets}", gets=dtype_path.gets(call))))
    promoted = {role: one.dtype_in for one in dtype_path.promotions_of(call, trace) for role in one.roles}
    can_switch = trace.counterfactual.startswith("clean") and bool(promoted)
    if can_switch:
        label = say(
            "show the dtypes with each promotion cast back ({counterfactual})",
            counterfactual=say_filled(trace.counterfactual),
        )
        box = f'<input type="checkbox" class="switch" id="cast-{number}">'
        parts.append(f'{box} <label for="cast-{number}">{text(label)}</label>\n')
    elif trace.counterfactual:
        parts.append(tag("p", say_filled(trace.counterfactual)))
    roles = "".join(f"<th>{text(role)}</th>" for role in path.roles)
    rows = "".join(_row(line, path.roles, promoted if can_switch else {}) for line in path.lines)
    head = f"<tr><th>line</th><th>source</th>{roles}</tr>"
    parts.append(f'<div class="scroll" tabindex="0"><table>{head}{rows}</table></div>\n')
    return "".join(parts) + "</section>\n"


def _row(line: Line, roles: tuple[str, ...], promoted: dict[str, str]) -> str:
    spans = tuple(span for mark in line.marks for span in mark.spans)
    outermost = tuple(one for one in spans if not any(o != one and o[0] <= one[0] and one[1] <= o[1] for o in spans))
    cells = "".join(_cell(line.cells.get(role), promoted.get(role, "")) for role in roles)
    source = _marked(line.place.source, outermost)
    number = f'<td class="n" title="{text(str(line.place))}">{line.place.line}</td>'
    row = f'<tr>{number}<td class="s">{source}</td>{cells}</tr>\n'
    width = len(roles)
    for mark in line.marks:
        expression = say(" or ").join(line.place.source[start:end] for start, end in mark.spans)
        words = f"↑ {f'{expression}: ' if expression else ''}{mark.words}"
        row += f'<tr><td></td><td colspan="{width + 1}" class="warning">{text(words)}</td></tr>\n'
    return row


def _cell(cell: Cell | None, cast: str) -> str:
    from attn_doctor.report.words.dtype_path import short

    if cell is None:
        return "<td></td>"
    wide = cell.promoted or cell.refused
    tone = "w32" if wide or cell.dtype == "float32" else "w16"
    words = text(short(cell.dtype)) + (" ✗" if cell.refused else "")
    if wide and cast:
        both = f'<span class="is">{words}</span><span class="cast">{text(short(cast))}</span>'
        return f'<td class="d {tone} undone">{both}</td>'
    return f'<td class="d {tone}">{words}</td>'


def _kernels(trials: KernelTrials) -> Iterator[str]:
    from attn_doctor.report.words import kernels as words

    yield f"<section>{tag('h2', say('Kernels: {title}', title=words.title(trials)))}"
    yield "".join(tag("p", line, "dim") for line in words.gpus(trials, verbose=True))
    yield "".join(tag("p", f"{one.mark} {one.head}: {one.words}", "error") for one in words.troubles(trials))
    if trials.ran:
        for alike in words.alike(trials):
            heads = "".join(f"<th>{text(head)}</th>" for head in words.HEADS.values())
            rows = "".join(
                f"<tr><th>{text(name)}</th>{''.join(_square(one.mark, one.words, one.share) for one in squares)}</tr>\n"
                for name, squares in words.rows(trials, alike[0])
            )
            head = f"<tr><th>{text(words.where(alike))}</th>{heads}</tr>"
            yield f'<div class="scroll" tabindex="0"><table>{head}{rows}</table></div>\n'
    else:
        yield "".join(tag("p", f"{'  ' * line.depth}{line.words}") for line in words.plan(trials))
    yield "".join(tag("p", line, "dim") for line in words.below(trials, verbose=True)) + "</section>\n"


def _square(mark: str, words: str, share: float | None) -> str:
    told = (
        say("{words}; {share:.0%} of the speed of this GPU's own matrix product", words=words, share=share)
        if share is not None
        else words
    )
    heat = f' style="background:color-mix(in srgb,var(--b16) {min(int((share or 0) * 100), 100)}%,var(--bg))"'
    return f'<td class="d" title="{text(told)}"{heat if share is not None else ""}>{text(words)}</td>'
