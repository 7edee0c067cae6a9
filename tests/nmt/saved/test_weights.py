"""Weights by their names in tensorflow/nmt."""

import numpy as np
import pytest

from headrace.nmt.saved.weights import export_variables, import_variables
from tests.nmt.conftest import MakeModel


def test_names_of_a_deep_model(make_model: MakeModel) -> None:
    variables = export_variables(make_model(attention="scaled_luong", encoder_type="bi", num_layers=4))
    assert "dynamic_seq2seq/encoder/bidirectional_rnn/bw/multi_rnn_cell/cell_1/basic_lstm_cell/kernel" in variables
    assert variables["dynamic_seq2seq/decoder/memory_layer/kernel"].shape == (12, 6)
    assert variables["dynamic_seq2seq/decoder/attention/luong_attention/attention_g"].shape == ()
    assert variables["embeddings/encoder/embedding_encoder"].shape == (13, 6)


def test_names_of_a_shallow_model(make_model: MakeModel) -> None:
    variables = export_variables(make_model(num_layers=1, share_vocab=True))
    assert sorted(variables) == [
        "dynamic_seq2seq/decoder/basic_lstm_cell/bias",
        "dynamic_seq2seq/decoder/basic_lstm_cell/kernel",
        "dynamic_seq2seq/decoder/output_projection/kernel",
        "dynamic_seq2seq/encoder/rnn/basic_lstm_cell/bias",
        "dynamic_seq2seq/encoder/rnn/basic_lstm_cell/kernel",
        "embeddings/embedding_share",
    ]


def test_there_and_back(make_model: MakeModel) -> None:
    one, other = make_model(seed=1, attention="luong"), make_model(seed=2, attention="luong")
    import_variables(other, export_variables(one))
    for name, value in export_variables(one).items():
        np.testing.assert_array_equal(export_variables(other)[name], value)


def test_refuses_what_does_not_fit(make_model: MakeModel) -> None:
    model = make_model(attention="luong")
    before = export_variables(model)
    variables = export_variables(make_model(attention="luong"))
    projection = "dynamic_seq2seq/decoder/output_projection/kernel"
    variables[projection] = np.zeros((6, 12), np.float32)
    variables["global_step"] = variables.pop("embeddings/encoder/embedding_encoder")
    with pytest.raises(ValueError, match="do not fit") as caught:
        import_variables(model, variables)
    assert "missing embeddings/encoder/embedding_encoder" in str(caught.value)
    assert "not in this model: global_step" in str(caught.value)
    assert f"{projection} should be of shape (6, 11), got (6, 12)" in str(caught.value)
    for name, value in export_variables(model).items():
        np.testing.assert_array_equal(value, before[name])
