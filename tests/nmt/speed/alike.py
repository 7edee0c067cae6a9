"""The fast way beside the model."""

from __future__ import annotations

import numpy as np
import torch

from headrace.nmt.model import Seq2Seq
from headrace.nmt.saved.weights import export_gradients
from headrace.nmt.speed import fast
from tests.nmt.conftest import MakeBatch, MakeModel


def check_the_fast_way(make_batch: MakeBatch, make_model: MakeModel, **settings: object) -> None:
    """Loss and gradients in training are the same in both ways."""
    batch, results = make_batch([3, 7, 1], [6, 2, 9]), []
    for loss_of in (Seq2Seq.loss, fast.loss):
        model = make_model(**settings).train()
        loss = loss_of(model, batch, model.draw_masks(batch, torch.Generator().manual_seed(5)))
        loss.backward()  # type: ignore[no-untyped-call]
        results.append({"loss": loss.item(), **export_gradients(model)})
    for name, value in results[0].items():
        np.testing.assert_allclose(results[1][name], value, rtol=1e-6, atol=1e-9, err_msg=name)
