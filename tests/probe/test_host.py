"""Host and fabric, read from a planted /sys: known, absent, or could not look."""

from __future__ import annotations

import marshal
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from attn_doctor.diagnose.fingerprint import Places, fingerprint_from
from attn_doctor.model.facts import Absent, FactSet, Known, Unknown
from attn_doctor.model.fingerprint import Importance, differences, importance
from attn_doctor.probe.host import host_facts, host_reads, nvml_reads


class Machine:
    """A planted root folder."""

    def __init__(self, root: Path) -> None:
        self.root = root
        for folder in ("sys/bus/pci/devices", "sys/class/net", "sys/module", "sys/kernel/mm/hugepages"):
            (root / folder).mkdir(parents=True)

    def write(self, path: str, text: str) -> None:
        file = self.root / "sys" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text + "\n")

    def device(self, address: str, kind: str, *, vendor: str = "0x15b3", device: str = "0x1021", **more: str) -> str:
        own = f"bus/pci/devices/{address}"
        for name, text in {"class": kind, "vendor": vendor, "device": device, **more}.items():
            self.write(f"{own}/{name}", text)
        return own

    def nic(self, number: int, *, width: str = "16", state: str = "up", rate: str = "400000") -> str:
        """An adapter with an interface and an RDMA device of one port."""
        own = self.device(
            f"0000:{number:02x}:00.0", "0x020700", current_link_width=width, max_link_width="16",
            current_link_speed="32.0 GT/s PCIe", max_link_speed="32.0 GT/s PCIe",
        )  # fmt: skip
        self.write(f"{own}/net/ib{number}/operstate", state)
        self.write(f"{own}/net/ib{number}/speed", rate)
        self.write(f"{own}/infiniband/mlx5_{number}/fw_ver", "28.39.1002")
        self.port(f"mlx5_{number}", "4: ACTIVE" if state == "up" else "1: DOWN")
        return own

    def port(self, name: str, state: str, rate: str = "400 Gb/sec (4X NDR)") -> None:
        own = f"class/infiniband/{name}"
        self.write(f"{own}/hca_type", "MT4129")
        self.write(f"{own}/board_id", "MT_0000000838")
        self.write(f"{own}/fw_ver", "28.39.1002")
        for key, text in {
            "state": state, "phys_state": "5: LinkUp", "rate": rate, "link_layer": "InfiniBand",
        }.items():  # fmt: skip
            self.write(f"{own}/ports/1/{key}", text)

    def facts(self) -> FactSet:
        answer = self.root / "host"
        answer.write_bytes(marshal.dumps(host_reads.read(str(self.root))))
        return FactSet(host_facts.probe(answer))

    def traits(self) -> dict[str, Any]:
        return dict(fingerprint_from(self.facts(), packages=(), places=Places()).facts)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_adapters_and_ports(machine: Machine) -> None:
    """Model, firmware, link, rate, and the PCIe width beside what the adapter has."""
    machine.nic(1)
    machine.nic(2, width="8")

    seen = machine.facts()

    assert seen.value("listed.nic") == 2
    assert seen.value("nic.0000:01:00.0.model") == "15b3:1021"
    assert seen.value("nic.0000:01:00.0.firmware") == "28.39.1002"
    assert (seen.value("nic.0000:01:00.0.link"), seen.value("nic.0000:01:00.0.mbps")) == ("up", 400000)
    assert (seen.value("nic.0000:02:00.0.pcie_width"), seen.value("nic.0000:02:00.0.pcie_max_width")) == (8, 16)
    assert seen.value("nic.0000:02:00.0.pcie_speed") == "32.0 GT/s"
    assert seen.value("rdma.mlx5_1/1.state") == "ACTIVE"
    assert seen.value("rdma.mlx5_1/1.model") == "MT4129 MT_0000000838"
    assert seen.value("rdma.mlx5_1/1.rate") == "400 Gb/sec (4X NDR)"


def test_a_port_that_is_down_gates_and_a_slower_link_is_told(tmp_path: Path) -> None:
    """Of two nodes that are alike but for one port, the difference is critical; half of the PCIe lanes are benign."""
    good, bad, slow = (Machine(tmp_path / name) for name in ("good", "bad", "slow"))
    for machine in (good, bad, slow):
        machine.nic(1)
    good.nic(2)
    bad.nic(2, state="down")
    slow.nic(2, width="8")

    changes = {one.name: one for one in differences(good.traits(), bad.traits())}
    assert changes["rdma_ports"].importance is Importance.CRITICAL
    assert changes["rdma_ports"].new == "1 × InfiniBand ACTIVE, 1 × InfiniBand DOWN"
    assert changes["nic_links"].importance is Importance.BENIGN
    slower = list(differences(good.traits(), slow.traits()))
    assert [(one.name, one.importance) for one in slower] == [("nic_pcie", Importance.BENIGN)]
    assert slower[0].new == "1 × x16 32.0 GT/s, 1 × x8 32.0 GT/s"


def test_names_and_addresses_do_not_tell_equal_nodes_apart(tmp_path: Path) -> None:
    """The same adapters in other slots under other names are the same fabric."""
    here, there = Machine(tmp_path / "here"), Machine(tmp_path / "there")
    here.nic(1)
    here.nic(2)
    there.nic(7)
    there.nic(9)

    assert list(differences(here.traits(), there.traits())) == []


def test_without_adapters_there_are_none(machine: Machine) -> None:
    """A machine without RDMA is known to have none, and its limit of locked memory gates nothing."""
    machine.device("0000:00:01.0", "0x060000")

    seen = machine.facts()

    assert (seen.value("listed.nic"), seen.value("listed.rdma")) == (0, 0)
    assert seen.value("node.iommu") == "off"
    traits = machine.traits()
    assert traits["rdma_ports"] is None
    assert "limits.memlock" not in traits


def test_locked_memory_counts_where_there_is_rdma(machine: Machine) -> None:
    """A node on which memory cannot be locked cannot register it."""
    machine.nic(1)

    assert "limits.memlock" in machine.traits()
    assert importance("limits.memlock") is Importance.CRITICAL
    assert importance("limits.nofile") is Importance.BENIGN


def test_without_sys_nothing_is_absent(tmp_path: Path) -> None:
    """Where /sys is not mounted nobody could look."""
    seen = FactSet(host_facts.probe(_answer(tmp_path, host_reads.read(str(tmp_path)))))

    for name in ("listed.nic", "listed.rdma", "listed.kernel_module", "node.iommu", "node.acs_bridges"):
        assert isinstance(seen.fact(name).state, Unknown), name
    assert isinstance(seen.fact("rdma.mlx5_0/1.state").state, Unknown)


def test_an_answer_that_did_not_come(tmp_path: Path) -> None:
    """A port whose firmware hangs: every fact of the host is unknown, and says why."""
    seen = FactSet(host_facts.probe(tmp_path / "never-written"))

    states = [seen.fact(name).state for name in ("listed.nic", "listed.limit", "node.clock_synchronized")]
    assert all(isinstance(state, Unknown) and "firmware hangs" in state.reason for state in states)


def test_an_interface_elsewhere_is_not_absent(machine: Machine) -> None:
    """In a container the adapters are on the bus and their interfaces in the host's namespace."""
    machine.device("0000:05:00.0", "0x020000")

    seen = machine.facts()

    assert seen.value("nic.0000:05:00.0.model") == "15b3:1021"
    assert isinstance(seen.fact("nic.0000:05:00.0.link").state, Unknown)
    assert isinstance(seen.fact("nic.0000:05:00.0.pcie_width").state, Absent)


def test_functions_that_are_lent_out_do_not_count(machine: Machine) -> None:
    """Virtual functions come and go with virtual machines."""
    own = machine.nic(1)
    lent = machine.root / "sys" / machine.device("0000:01:00.1", "0x020700")
    (lent / "physfn").symlink_to(machine.root / "sys" / own)

    assert machine.facts().value("listed.nic") == 1


@pytest.mark.parametrize(("kind", "said"), [("identity", "identity"), ("DMA-FQ", "DMA-FQ"), (None, "on")])
def test_iommu_of_a_gpu(machine: Machine, kind: str | None, said: str) -> None:
    """The domain that the GPU is in; an old kernel tells only that there is one."""
    own = machine.root / "sys" / machine.device("0000:18:00.0", "0x030200", vendor="0x10de")
    group = machine.root / "sys/kernel/iommu_groups/12"
    group.mkdir(parents=True)
    (own / "iommu_group").symlink_to(group)
    if kind is not None:
        (group / "type").write_text(f"{kind}\n")

    assert machine.facts().value("node.iommu") == said


@pytest.mark.parametrize(("control", "count"), [(0x1D, 1), (0x0, 0)])
def test_bridges_that_redirect_peers(machine: Machine, control: int, count: int) -> None:
    """ACS is read from the bridge above a GPU, and not from one above nothing."""
    space = bytearray(4096)
    space[0x100:0x104] = (0x0001 | 1 << 16 | 0x140 << 20).to_bytes(4, "little")
    space[0x140:0x144] = (0x000D | 1 << 16).to_bytes(4, "little")
    space[0x146:0x148] = control.to_bytes(2, "little")
    _under_a_bridge(machine, bytes(space))

    assert machine.facts().value("node.acs_bridges") == count


def test_who_is_not_root_cannot_see_redirects(machine: Machine) -> None:
    """The kernel shows the first 64 bytes alone."""
    _under_a_bridge(machine, bytes(64))

    state = machine.facts().fact("node.acs_bridges").state
    assert isinstance(state, Unknown)
    assert "root" in state.reason


def _under_a_bridge(machine: Machine, space: bytes) -> None:
    bridge = machine.root / "sys/devices/pci0000:17/0000:17:01.0"
    gpu = bridge / "0000:18:00.0"
    gpu.mkdir(parents=True)
    (bridge / "class").write_text("0x060400\n")
    (bridge / "config").write_bytes(space)
    for name, text in {"class": "0x030200", "vendor": "0x10de"}.items():
        (gpu / name).write_text(f"{text}\n")
    (machine.root / "sys/bus/pci/devices/0000:18:00.0").symlink_to(gpu)


def test_pages_modules_and_limits(machine: Machine) -> None:
    """Sizes that are set aside, the mode in brackets, versions of modules, limits as the shell tells them."""
    machine.write("kernel/mm/hugepages/hugepages-2048kB/nr_hugepages", "512")
    machine.write("kernel/mm/hugepages/hugepages-1048576kB/nr_hugepages", "0")
    machine.write("kernel/mm/transparent_hugepage/enabled", "always [madvise] never")
    machine.write("module/nvidia_peermem/version", "580.95.05")
    (machine.root / "sys/module/ib_core").mkdir()

    seen = machine.facts()

    assert seen.value("node.hugepages") == "512 of 2048kB"
    assert seen.value("node.transparent_hugepages") == "madvise"
    assert seen.value("kernel_module.nvidia_peermem.version") == "580.95.05"
    assert isinstance(seen.fact("kernel_module.ib_core.version").state, Absent)
    assert isinstance(seen.fact("kernel_module.gdrdrv.loaded").state, Absent)
    assert machine.traits()["kernel_modules.ib_core"] == "loaded"
    assert seen.subjects("limit") == host_reads.LIMITS


def test_this_machine() -> None:
    """The real one answers without an error; each reading is a value, absent, or a reason."""
    found = host_reads.read()

    assert isinstance(found["clock"], dict)
    assert found["limits"]["nofile"][0].isdigit() or found["limits"]["nofile"][0] == "unlimited"
    if Path("/sys/bus/pci").is_dir() and os.listdir("/sys/bus/pci/devices"):
        assert isinstance(found["nics"], list)


# What NVML tells of each GPU


class _Refusal(Exception):
    def __init__(self, value: int) -> None:
        super().__init__(f"error {value}")
        self.value = value


def _nvml(links: list[bool] | int, **more: Any) -> Any:
    def link(_: str, number: int) -> int:
        if isinstance(links, int):
            raise _Refusal(links)
        if number >= len(links):
            raise _Refusal(2)
        return int(links[number])

    answers = {
        "CurrPcieLinkWidth": 8, "MaxPcieLinkWidth": 16, "MaxPcieLinkGeneration": 5, "PersistenceMode": 1,
        "EccMode": [1, 1], "RemappedRows": [2, 1, 0, 0],
    }  # fmt: skip
    calls = {f"nvmlDeviceGet{name}": lambda _, answer=answer: answer for name, answer in answers.items()}
    calls |= {"nvmlDeviceGetTotalEccErrors": lambda *_: 0, "nvmlDeviceGetNvLinkState": link}
    marks = {"NVML_NVLINK_MAX_LINKS": 18, "NVML_MEMORY_ERROR_TYPE_UNCORRECTED": 1, "NVML_VOLATILE_ECC": 0}
    return SimpleNamespace(**{**calls, **marks, "NVMLError": _Refusal, **more})


def test_what_lasts_of_a_gpu() -> None:
    """Bus, modes, rows, links."""
    found = nvml_reads._lasting(_nvml([True] * 17 + [False]), "handle")

    assert (found["pcie_width"], found["pcie_max_width"], found["pcie_generation"]) == (8, 16, 5)
    assert (found["persistence"], found["ecc"], found["ecc_errors"]) == (True, True, 0)
    assert (found["remapped_rows"], found["row_remapping"]) == (3, "good")
    assert (found["nvlinks_up"], found["nvlinks"]) == (17, 18)


@pytest.mark.parametrize(("rows", "word"), [([0, 0, 1, 0], "pending"), ([0, 9, 1, 1], "failed")])
def test_rows_that_cannot_be_mended(rows: list[int], word: str) -> None:
    """A failed remapping is worse than one that waits for a reset."""
    found = nvml_reads._lasting(_nvml(3, nvmlDeviceGetRemappedRows=lambda _: rows), "handle")

    assert found["row_remapping"] == word


def test_refused_is_not_absent() -> None:
    """Not supported means that the GPU has none; any other error that nobody could look."""

    def fails(_: str) -> Any:
        raise _Refusal(999)

    def unsupported(_: str) -> Any:
        raise _Refusal(3)

    found = nvml_reads._lasting(
        _nvml(3, nvmlDeviceGetEccMode=unsupported, nvmlDeviceGetPersistenceMode=fails), "handle"
    )
    lost = nvml_reads._lasting(_nvml(15), "handle")

    assert found["ecc"] is None
    assert found["persistence"] == {"unknown": "NVML: error 999"}
    assert (found["nvlinks"], found["nvlinks_up"]) == (0, 0)
    assert lost["nvlinks"] == {"unknown": "NVML: error 15"}


def test_the_weights_of_the_fabric() -> None:
    """What keeps ranks apart is critical; what makes them slower, or is a setting, is benign."""
    critical = {"rdma_ports", "rdma_devices", "gpu_nvlinks", "gpu_mig", "gpu_row_remapping", "limits.memlock"}
    benign = {"rdma_rate", "gpu_pcie", "nic_firmware", "iommu", "hugepages", "clock_synchronized", "kernel_modules.x"}

    assert {name for name in critical | benign if importance(name) is Importance.CRITICAL} == critical


def _answer(folder: Path, found: dict[str, Any]) -> Path:
    file = folder / "host"
    file.write_bytes(marshal.dumps(found))
    return file


def test_known_states_are_known(machine: Machine) -> None:
    """The clock and the limits come from the kernel, whatever /sys says."""
    seen = machine.facts()

    assert isinstance(seen.fact("limit.nofile.soft").state, Known)
