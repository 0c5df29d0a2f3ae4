"""What is cut of a config, and what is kept: a layer of each kind, also where kinds are computed."""

import pytest

torch = pytest.importorskip("torch")

from attn_doctor.patient.semantics import culprit, small  # noqa: E402

TABLES = (small._COUNTS, small._WINDOWS, small._WIDTHS)


class Config:
    """A config whose kinds of layers come from a period and an offset, as Jamba's do."""

    def __init__(self, **written):
        self.__dict__.update(written)

    def to_dict(self):
        return dict(self.__dict__)

    @classmethod
    def from_dict(cls, written):
        return cls(**written)

    @property
    def layers_block_type(self):
        return ["attention" if n % self.period == self.offset else "mamba" for n in range(self.num_hidden_layers)]


@pytest.mark.parametrize(("period", "offset", "layers"), [(8, 4, 5), (2, 1, 2), (3, 0, 2), (40, 30, 2)])
def test_computed_kinds_keep_a_layer_of_each(period, offset, layers):
    config = Config(num_hidden_layers=32, period=period, offset=offset)
    found, words = small._cut(config, 2, TABLES)

    assert found.num_hidden_layers == layers
    if layers < 30 and offset < 12:
        assert set(found.layers_block_type) == {"mamba", "attention"}
    assert f"num_hidden_layers {layers} instead of 32" in words


def test_lists_and_settings_of_single_layers_go_with_their_layers():
    kinds = ["linear", "linear", "linear", "full"] * 4
    written = {
        "num_hidden_layers": 16, "layer_types": list(kinds), "intermediate_size": [8192] * 16,
        "activation_sparsity_pattern": [number / 16 for number in range(16)], "per_layer_config": {3: "a", "7": "b"},
        "unrelated": [1, 2, 3],
    }  # fmt: skip
    small._cut_part(written, 2, TABLES, {})

    assert written["layer_types"] == ["linear", "full"]
    assert written["intermediate_size"] == [64, 64]
    assert written["activation_sparsity_pattern"] == [0.0, 3 / 16]
    assert written["per_layer_config"] == {1: "a"}
    assert written["unrelated"] == [1, 2, 3]


def test_a_larger_cut_keeps_two_of_each_kind():
    written = {"num_hidden_layers": 12, "layer_types": (["linear"] * 3 + ["full"]) * 3}
    small._cut_part(written, 4, TABLES, {})

    assert written["layer_types"] == ["linear", "linear", "full", "full"]


class Counting(torch.nn.Module):
    """Adds each row's number, with the padding when `wrong`."""

    def __init__(self, wrong):
        super().__init__()
        self.wrong = wrong

    def forward(self, x, start):
        return x + torch.arange(x.shape[1])[None, :, None] - (0 if self.wrong else start)


class Two(torch.nn.Module):
    def __init__(self, wrong):
        super().__init__()
        self.layers = torch.nn.ModuleList([Counting(False), Counting(wrong), Counting(False)])

    def forward(self, x, start=0):
        for layer in self.layers:
            x = layer(x, start)
        return x


@pytest.mark.parametrize(("wrong", "named"), [(True, ["layers.1"]), (False, [])])
def test_the_module_where_a_padded_row_parts_from_the_unpadded_one(wrong, named):
    model, x = Two(wrong), torch.randn(1, 19, 8)
    found = culprit.where_lengths_part(model, lambda: model(x, start=9), lambda: model(x[:, 9:]), 19, 9)

    assert [one["module"] for one in found] == named
    if named:
        assert (found[0]["layer"], found[0]["type"], found[0]["at"]["function"]) == (1, "Counting", "forward")
