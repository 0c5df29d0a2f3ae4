"""From findings to a plan: which remedy, what is left, and that equal input gives equal bytes."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attn_doctor.diagnose.assume import assume, assume_gpu
from attn_doctor.diagnose.derived import derive
from attn_doctor.diagnose.judge import judge
from attn_doctor.errors import BadInput
from attn_doctor.fix.journal.verify import changed_grounds, troubles
from attn_doctor.fix.plan_builder import Resolve
from attn_doctor.fix.refusal import Refused
from attn_doctor.formats import plan_v1
from attn_doctor.model.facts import Absent, Fact, FactName, FactSet, Known, State, Unknown
from attn_doctor.model.findings import Diagnosis, Finding, OpenQuestion, Safety, Severity
from attn_doctor.model.install_request import InstallRequest
from attn_doctor.model.plans import (
    Cured,
    FileEdit,
    Ground,
    Install,
    PackageChange,
    Plan,
    Remaining,
    Reversal,
    Splice,
    Step,
)
from attn_doctor.planning import plan as planning
from attn_doctor.planning import planned_set
from attn_doctor.planning.choose import Policy
from attn_doctor.probe.configs import configs
from attn_doctor.recipes import shelf
from attn_doctor.recipes.data.gpu_table import named_gpu
from attn_doctor.recipes.recipe import Recipe

HEAD = "stage: sft\nfinetuning_type: lora\n"
X = "package.x-transformers.version"
#: A torch from the index of CPU builds.
CPU_BUILD = {
    "torch.version": "2.13.0+cpu",
    "package.torch.version": "2.13.0+cpu",
    "listed.package": 1,
    "driver.version": "580.95.05",
    "node.machine": "x86_64",
}


@pytest.fixture(scope="module")
def recipes() -> tuple[Recipe, ...]:
    return shelf.bundled()


def facts(*more: Fact, **known: object) -> FactSet:
    given_ = [Fact(name=FactName.parse(name), state=Known(value), how="test") for name, value in known.items()]  # type: ignore[arg-type]
    return derive(FactSet([*given_, *more]))


def fact(name: str, state: State) -> Fact:
    return Fact(name=FactName.parse(name), state=state, how="test")


def checked(change: Install, found: FactSet, before: Diagnosis, judged: Callable[[FactSet], Diagnosis]) -> None:
    """Raises Refused when the planned set has new findings."""
    planned_set.check_facts(found, derive(planned_set.planned(change, found)), before, judged)


def install(request: InstallRequest) -> Install:
    return Install(
        installer="pip",
        requirements=request.requirements,
        no_deps=request.no_deps,
        no_cache=request.no_cache,
        reinstall=request.reinstall,
        changes=(PackageChange(name="x-transformers", before="1.30.1", after="1.30.2"),),
    )


def refuse(request: InstallRequest) -> Install:
    raise Refused("the installer is not asked here")


def plan(
    found: FactSet,
    recipes: tuple[Recipe, ...],
    policy: Policy | None = None,
    *,
    resolve: Resolve = refuse,
    configs: tuple[Path, ...] = (),
) -> Plan:
    return planning.plan(
        judge(found, recipes),
        found,
        recipes,
        policy or Policy(),
        doctor_version="0",
        python=Path("/nowhere/bin/python"),
        prefix=Path("/nowhere"),
        configs=configs,
        resolve=resolve,
    )


def test_an_unsafe_cure_waits_to_be_asked_for(recipes: tuple[Recipe, ...]) -> None:
    """Without --unsafe-fixes it is left, and says what would be done."""
    found = facts(**{X: "1.30.0"})
    left = plan(found, recipes).left

    assert [(one.finding, one.needs_unsafe) for one in left] == [("x-transformers-rotary-fp32", True)]
    assert "1.30.2" in left[0].reason


def test_the_first_remedy_is_taken(recipes: tuple[Recipe, ...]) -> None:
    """In the recipe's order; the plan names recipe and digest."""
    (step,) = plan(facts(**{X: "1.30.1"}), recipes, Policy(unsafe=True), resolve=install).steps

    assert isinstance(step.change, Install)
    assert step.change.requirements == ("x-transformers==1.30.2",)
    assert step.safety is Safety.SAFE
    assert "sha256:" in step.cures[0].origin


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ([("x-transformers", "1.30.1", "1.30.2")], ""),
        ([("x-transformers", "1.30.1", "1.31.0")], "x-transformers 1.30.1 -> 1.31.0"),
        ([("x-transformers", "1.30.1", "1.30.2"), ("einops", "0.8.0", "0.8.1")], "einops 0.8.0 -> 0.8.1"),
        ([("x-transformers", "1.30.1", "1.30.2"), ("loguru", None, "0.7")], "loguru 0.7 is new"),
    ],
)
def test_what_the_installer_makes_of_a_safe_remedy(
    recipes: tuple[Recipe, ...], changes: list[tuple[str, str | None, str]], words: str
) -> None:
    """A patch release of the named package is taken with --yes alone; more than that is not."""

    def resolved(request: InstallRequest) -> Install:
        made = tuple(PackageChange(name=name, before=before, after=after) for name, before, after in changes)
        return replace(install(request), changes=made)

    (step,) = plan(facts(**{X: "1.30.1"}), recipes, resolve=resolved).steps

    assert step.safety is (Safety.UNSAFE if words else Safety.SAFE)
    assert words in step.why_this_safety


class TestWhatRestsOnAnAssumption:
    """A finding that rests on an assumption is not fixed unless it is named."""

    @pytest.fixture
    def supposed(self) -> FactSet:
        """A CPU build of torch, and a GPU that somebody names."""
        neither = (fact(name, Absent("a CPU build")) for name in ("torch.cuda", "torch.hip"))
        return derive(assume_gpu(facts(*neither, **CPU_BUILD), named_gpu("h100")))

    def policy(self, *named: str) -> Policy:
        return Policy(unsafe=True, named=named)

    def test_it_is_left_and_said(self, supposed: FactSet, recipes: tuple[Recipe, ...]) -> None:
        """Although its cure may be taken."""
        found = plan(supposed, recipes, self.policy(), resolve=install)

        assert found.steps == ()
        (left,) = [one for one in found.left if one.finding == "torch-cpu-build"]
        assert left.needs_naming
        assert "it rests on --gpu h100, and not on what is there" in left.reason
        assert plan_v1.loads(plan_v1.dumps(found), about="x").left == found.left

    def test_it_is_mended_where_it_is_named(self, supposed: FactSet, recipes: tuple[Recipe, ...]) -> None:
        """By its own id, or by the remedy that a person picks."""
        (step,) = plan(supposed, recipes, self.policy("torch-cpu-build"), resolve=install).steps

        assert [one.finding for one in step.cures] == ["torch-cpu-build"]

    def test_what_was_seen_is_mended_all_the_same(self, recipes: tuple[Recipe, ...]) -> None:
        """A GPU that is named makes no difference to what does not rest on it."""
        found = derive(assume_gpu(facts(**{X: "1.30.1"}), named_gpu("h100")))

        assert len(plan(found, recipes, self.policy(), resolve=install).steps) == 1

    def test_an_assumed_version_is_an_assumption(self, recipes: tuple[Recipe, ...]) -> None:
        """Any fact that was put in place, not the GPU alone."""
        found = derive(assume(facts(), [f"{X}=1.30.1"]))
        (left,) = plan(found, recipes, self.policy(), resolve=install).left

        assert left.needs_naming
        assert f"--assume {X}=1.30.1" in left.reason

    def test_so_is_what_is_computed_from_one(self) -> None:
        """Or made for the GPU that was named; never what is computed from what was seen."""
        seen = facts(**{"torch.arch_list": ("sm_80",), "package.triton.version": "3.0", X: "1.30.1"})
        compiled = fact("compiled.a.outcome", Known("refuses"))
        found = derive(assume_gpu(seen.with_facts([compiled]), named_gpu("h100")))
        supposed = {str(one.name) for one in found.values() if one.rests_on_assumption}

        assert {"gpu.0.torch_has_code", "gpu.0.bf16_native", "node.bf16_native", "compiled.a.outcome"} <= supposed
        assert not {X, "torch.arch_list", "package.triton.fits_torch"} & supposed


def test_a_person_may_choose_another(recipes: tuple[Recipe, ...]) -> None:
    """--remedy takes a later one."""
    policy = Policy(unsafe=True, remedies=(("x-transformers-rotary-fp32", "newer-release"),))
    (step,) = plan(facts(**{X: "1.30.1"}), recipes, policy, resolve=install).steps

    assert isinstance(step.change, Install)
    assert step.change.requirements == ("x-transformers>=1.30.2,<2",)


def test_a_remedy_whose_condition_is_open_is_not_taken(recipes: tuple[Recipe, ...]) -> None:
    """The driver could not be asked: whether that torch would run here is undecided, so it is not planned."""
    found = facts(
        fact("driver.version", Unknown("the driver hangs")),
        **{
            "package.triton.version": "2.3.1",
            "package.fla-core.version": "0.4.2",
            "source.gsa_states_in_fp32": False,
        },
    )
    policy = Policy(
        unsafe=True, only=("triton-bf16-becomes-i16",), remedies=(("triton-bf16-becomes-i16", "newer-torch"),)
    )

    assert "not known whether" in plan(found, recipes, policy, resolve=install).left[0].reason


def test_a_resolver_that_refuses_leaves_the_finding(recipes: tuple[Recipe, ...]) -> None:
    """The plan contains its reason."""
    made = plan(facts(**{X: "1.30.1"}), recipes, Policy(unsafe=True))

    assert made.steps == ()
    assert made.left[0].reason == "the installer is not asked here"


def test_one_that_cannot_be_had_keeps_no_other_back(recipes: tuple[Recipe, ...]) -> None:
    """All cures are one call of the installer; refused for one of them, it is asked for the rest."""
    found = facts(
        fact("torch.cuda", Absent("a CPU build")),
        fact("torch.hip", Absent("a CPU build")),
        fact("driver.version", Absent("a GPU that was named")),
        **{X: "1.30.1", "torch.version": "2.13.0+cpu", "listed.gpu": 1, "gpu.0.compute_capability": "9.0"},
    )

    def no_torch(request: InstallRequest) -> Install:
        if request.moves_torch:
            raise Refused("the index of torch does not answer")
        return install(request)

    policy = Policy(unsafe=True, only=("torch-cpu-build", "x-transformers-rotary-fp32"))
    made = plan(found, recipes, policy, resolve=no_torch)

    assert [one.finding for step in made.steps for one in step.cures] == ["x-transformers-rotary-fp32"]
    assert [(one.finding, one.reason) for one in made.left] == [
        ("torch-cpu-build", "the index of torch does not answer")
    ]


def test_nothing_wrong_is_an_empty_plan(recipes: tuple[Recipe, ...]) -> None:
    """No steps, nothing left."""
    made = plan(facts(**{X: "1.30.2"}), recipes, Policy(unsafe=True))

    assert (made.steps, made.left) == ((), ())


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (HEAD + "model_name_or_path: Qwen/Qwen2.5-7B\nflash_attn: fa2\n", "auto"),
        (HEAD + "model_name_or_path: google/gemma-2-9b-it\nflash_attn: fa2\n", "disabled"),
        (HEAD + "model_name_or_path: google/gemma-2-9b-it\n", "disabled"),
        (HEAD + "model_name_or_path: Qwen/Qwen2.5-7B\n", None),
        (HEAD + "model_name_or_path: Qwen/Qwen2.5-7B\nflash_attn: fa2\nbf16: true\n", None),
        (
            HEAD + "model_name_or_path: Qwen/Qwen2.5-7B\nflash_attn: fa2\ndo_predict: true\n",
            None,
        ),
    ],
    ids=["fa2", "gemma 2", "gemma 2 without the key", "key absent", "half precision", "predict without precision"],
)
def test_llamafactory(tmp_path: Path, recipes: tuple[Recipe, ...], text: str, value: str | None) -> None:
    """auto; disabled for Gemma 2, where auto becomes FlashAttention-2 again; no edit where the default is right."""
    file = tmp_path / "train.yaml"
    file.write_text(text)
    made = plan(derive(FactSet(configs.probe((file,)))), recipes, configs=(file,))
    edits = [step.change for step in made.steps]

    if value is None:
        assert edits == []
        return
    (edit,) = edits
    assert isinstance(edit, FileEdit)
    assert f"+flash_attn: {value}" in edit.diff
    assert made.steps[0].safety is Safety.SAFE


def test_equal_input_equal_bytes(tmp_path: Path, recipes: tuple[Recipe, ...]) -> None:
    """A plan is a pure function, down to its file; and facts in another order change nothing."""
    file = tmp_path / "train.yaml"
    file.write_text("stage: sft\nfinetuning_type: lora\nflash_attn: fa2\n")
    found = derive(FactSet([*configs.probe((file,)), *facts(**{X: "1.30.1"}).values()]))
    turned = FactSet(reversed(list(found.values())))
    texts = {
        plan_v1.dumps(plan(one, recipes, Policy(unsafe=True), resolve=install, configs=(file,)))
        for one in (found, found, turned)
    }

    assert len(texts) == 1


words = st.text(max_size=20)
edits = st.builds(
    FileEdit,
    file=words,
    before=st.none() | words,
    after=words,
    splices=st.lists(st.builds(Splice, start=st.integers(0, 99), end=st.integers(0, 99), text=words), max_size=2).map(
        tuple
    ),
    diff=words,
    warnings=st.lists(words, max_size=2).map(tuple),
)
changes = st.builds(PackageChange, name=words, before=st.none() | words, after=words, source=words, sha256=words)
texts = st.lists(words, max_size=2).map(tuple)
installs = st.builds(
    Install,
    installer=words,
    requirements=texts,
    no_deps=st.booleans(),
    no_cache=st.booleans(),
    reinstall=st.booleans(),
    changes=st.lists(changes, max_size=2).map(tuple),
    builds=texts,
    build_environment=st.lists(st.tuples(words, words), max_size=2).map(tuple),
    wheels=texts,
    torch_backend=words,
    index_url=st.none() | words,
    no_index=st.booleans(),
    find_links=texts,
    kept_bytes=st.integers(0, 2**40),
    warnings=texts,
)
cures = st.builds(Cured, finding=words, subjects=texts, severity=words, remedy=words, title=words, origin=words)
states = (
    st.builds(Known, words | st.booleans() | st.integers() | texts)
    | st.builds(Absent, words)
    | st.builds(Unknown, words)
)
plans = st.builds(
    Plan,
    doctor_version=words,
    python=words,
    prefix=words,
    configs=texts,
    projects=texts,
    steps=st.lists(
        st.builds(
            Step,
            change=edits | installs,
            cures=st.lists(cures, max_size=2).map(tuple),
            safety=st.sampled_from(Safety),
            why_this_safety=words,
            reversal=st.sampled_from(Reversal),
            why_this_reversal=words,
        ),
        max_size=2,
    ).map(tuple),
    left=st.lists(
        st.builds(Remaining, finding=words, severity=words, title=words, reason=words, by_hand=texts), max_size=2
    ).map(tuple),
    grounds=st.lists(st.builds(Ground, name=words, state=states), max_size=2).map(tuple),
)


@given(plans)
def test_written_and_read_it_is_the_same(one: Plan) -> None:
    """A plan survives its file."""
    assert plan_v1.loads(plan_v1.dumps(one), about="") == one


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | words, lambda inner: st.lists(inner) | st.dictionaries(words, inner)
    )
)
def test_any_other_json_is_told(value: object) -> None:
    """A file that is no plan is a person's mistake, never ours."""
    for text in (json.dumps(value), json.dumps({"schema": plan_v1.SCHEMA, "steps": value})):
        with pytest.raises(BadInput):
            plan_v1.loads(text, about="")


class TestVerify:
    """What counts as cured."""

    cured = Cured(finding="a", subjects=("gpu 0",), severity="error", remedy="r", title="t", origin="o")
    plan = Plan(
        doctor_version="0",
        python="",
        prefix="",
        configs=(),
        projects=(),
        steps=(
            Step(
                change=Install(
                    installer="pip", requirements=(), no_deps=False, no_cache=False, reinstall=False, changes=()
                ),
                cures=(cured,),
                safety=Safety.SAFE,
                why_this_safety="",
                reversal=Reversal.EXACT,
            ),
        ),
        left=(),
        grounds=(Ground(name=X, state=Known("1.30.1")),),
    )
    error = Finding(id="a", severity=Severity.ERROR, title="A", subjects=("gpu 0",))
    other = Finding(id="b", severity=Severity.ERROR, title="B")
    before = Diagnosis(findings=(error,))

    def test_gone_and_nothing_new(self) -> None:
        """That is a cure."""
        assert troubles(self.plan, self.before, Diagnosis()) == ()

    def test_still_there(self) -> None:
        """Also under another finding."""
        hidden = Diagnosis(findings=(replace(self.other, severity=Severity.INFO, symptoms=(self.error,)),))

        assert "still there" in troubles(self.plan, self.before, hidden)[0]

    def test_one_failure_for_another(self) -> None:
        """As bad as what was cured, or worse: no cure. Milder: told elsewhere."""
        assert "b appeared" in troubles(self.plan, self.before, Diagnosis(findings=(self.other,)))[0]
        mild = replace(self.other, severity=Severity.WARNING)
        assert troubles(self.plan, self.before, Diagnosis(findings=(mild,))) == ()

    def test_what_was_there_before_is_not_new(self) -> None:
        """Unless it got worse, or reached another subject."""
        before = Diagnosis(findings=(self.error, self.other))
        assert troubles(self.plan, before, Diagnosis(findings=(self.other,))) == ()
        milder = Diagnosis(findings=(self.error, replace(self.other, severity=Severity.WARNING)))
        assert troubles(self.plan, milder, Diagnosis(findings=(self.other,))) != ()
        elsewhere = Diagnosis(findings=(replace(self.error, subjects=("gpu 1",)),))
        assert troubles(self.plan, self.before, elsewhere) != ()

    def test_could_not_look(self) -> None:
        """An open question is no proof."""
        opened = Diagnosis(open_questions=(OpenQuestion(recipe="a", title="A", undecided=()),))

        assert "not known whether" in troubles(self.plan, self.before, opened)[0]
        assert "not known whether" in troubles(self.plan, self.before, Diagnosis(not_asked=("a",)))[0]

    @pytest.mark.parametrize("state", [Known("1.30.2"), Absent(), Unknown("hangs")])
    def test_facts_that_changed(self, state: State) -> None:
        """The plan is stale."""
        assert changed_grounds(self.plan, FactSet([fact(X, state)]))
        assert not changed_grounds(self.plan, FactSet([fact(X, Known("1.30.1"))]))


def test_a_cure_that_would_break_the_node_is_not_started(recipes: tuple[Recipe, ...]) -> None:
    """A torch for CUDA 13 on a driver for CUDA 12: the planned set is judged before anything is installed."""
    found = facts(
        fact("package.torch.version", Known("2.7.0")),
        fact("torch.version", Known("2.7.0")),
        **{X: "1.30.2"},
    )
    before = judge(found, recipes)
    bad = Install(
        installer="pip", requirements=(), no_deps=True, no_cache=False, reinstall=False,
        changes=(PackageChange(name="x-transformers", before="1.30.2", after="1.30.1"),),
    )  # fmt: skip

    with pytest.raises(Refused, match="x-transformers-rotary-fp32"):
        checked(bad, found, before, lambda these: judge(derive(these), recipes))


def test_what_only_files_tell_is_unknown_in_the_planned_set() -> None:
    """Symbols of an extension that is not installed yet are no healthy symbols."""
    found = facts(
        fact("package.flash-attn.version", Known("2.5.8")),
        fact("extension.flash_attn_2_cuda.missing_symbols", Known(())),
        fact("torch.cuda", Known("12.4")),
    )
    change = Install(
        installer="pip", requirements=(), no_deps=True, no_cache=False, reinstall=False,
        changes=(PackageChange(name="torch", before="2.6.0", after="2.8.0"),),
    )  # fmt: skip
    these = planned_set.planned(change, found)

    assert isinstance(these.fact("extension.flash_attn_2_cuda.missing_symbols").state, Unknown)
    assert isinstance(these.fact("torch.cuda").state, Unknown)


def test_a_package_that_was_not_there_is_not_said_to_lack_its_modules(recipes: tuple[Recipe, ...]) -> None:
    """flash-attn without flash_attn_2_cuda is broken; one whose files nobody has seen yet is not."""
    found = facts(
        fact("listed.package", Known(1)),
        fact("listed.extension", Known(0)),
        fact("listed.import", Known(1)),
        fact("torch.hip", Absent()),
        **{"package.torch.version": "2.11.0"},
    )
    new = Install(
        installer="pip", requirements=(), no_deps=True, no_cache=False, reinstall=False,
        changes=(PackageChange(name="flash-attn", before=None, after="2.8.3"),),
    )  # fmt: skip

    checked(new, found, judge(found, recipes), lambda these: judge(derive(these), recipes))


def test_a_model_in_the_cache_is_left_alone(recipes: tuple[Recipe, ...], tmp_path: Path) -> None:
    """Every snapshot links to the blob, which is named by its content; a model in a folder of one's own is edited."""
    text = '{"model_type": "llama", "attn_implementation": "flash_attention_2", "torch_dtype": "float32"}'
    blob = tmp_path / "models--x/blobs/0123"
    linked = tmp_path / "models--x/snapshots/4567/config.json"
    for file in (blob, linked):
        file.parent.mkdir(parents=True)
    blob.write_text(text)
    linked.symlink_to(blob)
    own = tmp_path / "config.json"
    own.write_text(text)

    def made(file: Path) -> Plan:
        found = derive(FactSet(configs.probe((file,))))
        return plan(found, recipes, Policy(unsafe=True), configs=(file,))

    assert "Hugging Face cache" in made(linked).left[0].reason
    assert made(linked).steps == ()
    assert len(made(own).steps) == 1


@pytest.mark.parametrize(
    ("after", "more", "cuda"),
    [
        ("2.13.0+cu130", (), Known("13.0")),
        ("2.9.0+cu126", (), Known("12.6")),
        ("2.13.0+cpu", (), Absent("a CPU build")),
        ("2.13.0", (("nvidia-cuda-runtime", "13.0.96"),), Known("13.0")),
        ("2.7.1", (("nvidia-cuda-runtime-cu12", "12.6.77"),), Known("12.6")),
        ("2.13.0", (), Unknown("not known before it is installed")),
    ],
)
def test_the_cuda_of_a_planned_torch(after: str, more: tuple[tuple[str, str], ...], cuda: State) -> None:
    """As far as names tell, so that the driver can be held against it before gigabytes are fetched."""
    changes = tuple(PackageChange(name=name, before=None, after=version) for name, version in (("torch", after), *more))
    change = Install(
        installer="pip", requirements=(), no_deps=True, no_cache=False, reinstall=False, changes=changes
    )  # fmt: skip
    these = planned_set.planned(change, facts(fact("torch.version", Known("2.7.0"))))

    assert these.fact("torch.cuda").state == cuda


def test_a_torch_for_a_newer_driver_is_not_fetched(recipes: tuple[Recipe, ...]) -> None:
    """CUDA 13 on a driver for CUDA 12."""
    found = facts(
        fact("torch.version", Known("2.7.0")),
        fact("torch.cuda", Known("12.6")),
        fact("driver.version", Known("550.54.15")),
    )
    changes = (
        PackageChange(name="torch", before="2.7.0", after="2.13.0"),
        PackageChange(name="nvidia-cuda-runtime", before=None, after="13.0.96"),
    )
    new = Install(installer="uv", requirements=(), no_deps=False, no_cache=False, reinstall=False, changes=changes)
    with pytest.raises(Refused, match="driver-too-old"):
        checked(new, found, judge(found, recipes), lambda these: judge(derive(these), recipes))


def _with_requirements(**states: str) -> FactSet:
    """vllm, pinned to one torch, with that torch; and flash-attn, which asks for any."""
    return derive(
        facts(
            fact("listed.requirement", Known(2)),
            fact("listed.package", Known(3)),
            fact("torch.version", Known("2.14.0")),
            **{
                "package.torch.version": "2.14.0",
                "package.vllm.version": "0.33.0",
                "package.flash-attn.version": "2.8.3",
                "requirement.vllm.torch.specifier": "==2.14.0",
                "requirement.flash-attn.torch.specifier": "any",
                **states,
            },
        )
    )


def _moving(name: str, before: str, after: str) -> Install:
    return Install(
        installer="pip", requirements=(), no_deps=True, no_cache=False, reinstall=False,
        changes=(PackageChange(name=name, before=before, after=after),),
    )  # fmt: skip


def test_a_plan_that_leaves_a_pin_unmet_is_refused_and_named(recipes: tuple[Recipe, ...]) -> None:
    """vllm asks for the torch that a cure would take away."""
    found = _with_requirements()

    with pytest.raises(Refused, match=r"packages here are made for torch 2\.14\.0: vllm"):
        checked(_moving("torch", "2.14.0", "2.15.0"), found, judge(found, recipes), lambda these: judge(these, recipes))


def test_what_was_unmet_before_is_no_reason_against_a_plan(recipes: tuple[Recipe, ...]) -> None:
    """And what a changed package asks for itself is known once it is fetched."""
    found = _with_requirements(**{"requirement.vllm.torch.specifier": "==2.13.0"})
    checked(_moving("torch", "2.14.0", "2.14.1"), found, judge(found, recipes), lambda these: judge(these, recipes))
    these = planned_set.planned(_moving("vllm", "0.33.0", "0.34.0"), found)

    assert isinstance(these.fact("requirement.vllm.torch.specifier").state, Unknown)
