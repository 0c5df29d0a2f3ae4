"""Starting a task in the patient's interpreter, and what happens when it cannot be started."""

import json
import multiprocessing
import platform
import sys
import time
from pathlib import Path

import pytest


class TestInterpreter:
    def test_says_who_it_is(self, patient):
        """The interpreter task names this very interpreter, without importing any package."""
        done = patient.run({"task": "interpreter"})
        found = patient.answers["interpreter"]

        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
        assert found["executable"] == sys.executable
        assert found["version"] == platform.python_version()
        assert found["prefix"] == sys.prefix
        assert found["ext_suffix"] in found["extension_suffixes"]
        assert found["libc"].startswith("glibc ") or found["libc_reason"]
        assert str(patient.stubs) in found["sys_path"]

    def test_markers_are_those_of_packaging(self, patient):
        """The marker environment is the one that packaging computes in the same interpreter."""
        markers = pytest.importorskip("packaging.markers")
        patient.run({"task": "interpreter"})

        theirs = markers.default_environment()
        assert {name: theirs[name] for name in patient.answers["interpreter"]["markers"]} == patient.answers[
            "interpreter"
        ]["markers"]

    def test_other_pythons(self, other_patient):
        """Older and newer Pythons answer as well."""
        done = other_patient.run({"task": "interpreter"})

        assert done.returncode == 0, done.stderr
        assert other_patient.answers["interpreter"]["prefix"] in other_patient.python + "/"
        assert other_patient.answers["interpreter"]["markers"]["python_version"] in other_patient.python


class TestShadowing:
    def test_own_folder_is_not_on_the_path(self, patient):
        """patient/'s modules shadow neither the standard library's nor the patient's."""
        import attn_doctor

        patient.run({"task": "interpreter"})
        inside = attn_doctor.__path__[0] + "/patient"

        assert inside not in patient.answers["interpreter"]["sys_path"]

    def test_own_folder_by_a_symbolic_link(self, patient):
        """Nor do they when the doctor is reached by a symbolic link."""
        link = patient.folder / "linked"
        link.symlink_to(patient.bootstrap.parent)
        patient.bootstrap = link / "bootstrap.py"
        patient.stub("samples", "raise ImportError('the patient has a package of this name')")
        patient.stub("answers", "raise ImportError('and of this')")
        done = patient.run({"task": "interpreter"})

        assert done.returncode == 0, done.stderr
        paths = patient.answers["interpreter"]["sys_path"]
        assert not {str(link), str(link.resolve())} & set(paths)

    def test_patients_own_packages_win(self, patient):
        """A package of the patient's that bears the name of one of our modules is the one that gets imported."""
        mine = patient.stub("imports", "__version__ = '7'")
        found = patient.examine("imports", "trace")

        assert (found["imports"]["version"], found["imports"]["path"]) == ("7", str(mine))
        assert found["trace"]["path"].endswith("/trace.py")


class TestUnusable:
    @pytest.mark.parametrize(
        ("request_text", "message"),
        [
            ("{", "request"),
            ("[]", "names no task"),
            ('{"task": 3}', "names no task"),
            ('{"task": "../examine"}', "names no task"),
            ('{"task": "nothing_of_the_kind"}', "no such task: nothing_of_the_kind"),
            ('{"task": "answers"}', "no such task: answers"),
        ],
    )
    def test_broken_request(self, patient, request_text, message):
        """A request that cannot be used is refused with one line and exit status 2."""
        done = patient.run(request_text)

        assert done.returncode == 2
        assert message in done.stderr
        assert done.stderr.count("\n") == 1

    def test_missing_request(self, patient):
        """So is one that is not there."""
        done = patient.run("{}", arguments=[str(patient.folder / "nowhere.json"), str(patient.answers_dir)])

        assert done.returncode == 2
        assert "nowhere.json" in done.stderr

    @pytest.mark.parametrize("kind", ["missing", "a file"])
    def test_unwritable_answers(self, patient, kind):
        """So is a folder in which no answer can be written."""
        folder = patient.folder / "elsewhere"
        if kind == "a file":
            folder.write_text("")
        request = patient.folder / "request.json"
        done = patient.run(json.dumps({"task": "interpreter"}), arguments=[str(request), str(folder)])

        assert done.returncode == 2
        assert "answers folder" in done.stderr

    def test_wrong_arguments(self, patient):
        """So is a wrong number of arguments."""
        assert patient.run("{}", arguments=["only-one"]).returncode == 2


class TestParent:
    def test_hung_import_ends_with_a_killed_doctor(self, patient, tmp_path):
        """A torch whose import hangs does not outlive a doctor that was killed and could not end it."""
        told = tmp_path / "pid"
        patient.stub("torch", f"import os, time\nopen({str(told)!r}, 'w').write(f'{{os.getpid()}}.')\ntime.sleep(600)")
        doctor = multiprocessing.get_context("fork").Process(target=patient.examine, kwargs={"torch": True})
        doctor.start()
        _until(lambda: told.exists() and told.read_text().endswith("."))
        hung = Path("/proc", told.read_text().rstrip("."))
        assert hung.exists()

        doctor.kill()
        doctor.join()

        _until(lambda: not hung.exists() or "State:\tZ" in (hung / "status").read_text())


def _until(holds):
    deadline = time.monotonic() + 30
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.02)
