"""What comes with a sentence in a batch changes no bit of its translation, whatever the model and the search."""

import random
from collections.abc import Callable, Sequence

import numpy as np
import pytest
import torch
from torch import Tensor

import headrace as hr
from headrace.nmt.data import Vocabs
from headrace.nmt.hparams import HParams
from headrace.nmt.infer import Translator
from headrace.nmt.layers import gemm
from headrace.nmt.layers.steady import exp, log, multiply, sigmoid, tanh
from headrace.nmt.model import Seq2Seq
from headrace.nmt.translating.decode import GROUPS_OF_WORDS, _largest, translate
from headrace.nmt.translating.ensemble import Ensemble

WORDS = 1700  # more than the search for the likeliest words goes through at once
MODELS: dict[str, dict[str, object]] = {
    "none": {"num_units": 48},
    "scaled_luong": {"attention": "scaled_luong", "encoder_type": "bi", "num_units": 128},
    "luong gru": {"attention": "luong", "unit_type": "gru", "num_units": 33},
    "cudnn_gru": {"attention": "luong", "unit_type": "cudnn_gru", "num_units": 40, "source_reverse": True},
    "bahdanau norm": {"attention": "bahdanau", "unit_type": "layer_norm_lstm", "num_units": 64},
    "normed_bahdanau": {"attention": "normed_bahdanau", "num_units": 96, "num_layers": 3, "residual": True},
    "nas": {"attention": "scaled_luong", "unit_type": "nas", "num_units": 32, "output_attention": False},
    "gnmt": {"attention": "normed_bahdanau", "attention_architecture": "gnmt_v2", "encoder_type": "gnmt"},
    "characters": {"attention": "luong", "use_char_encode": True, "num_units": 56},
    "transformer": {"architecture": "transformer", "num_units": 64, "num_heads": 4, "tied_embeddings": True},
    "narrow": {"attention": "luong", "num_units": 6},
    "narrow transformer": {"architecture": "transformer", "num_units": 20, "num_heads": 2, "num_layers": 1},
}
SEARCHES: dict[str, dict[str, object]] = {
    "greedy": {},
    "beam": {"beam_width": 7, "length_penalty_weight": 0.8, "coverage_penalty_weight": 0.3},
    "sample": {
        "infer_mode": "sample",
        "sampling_temperature": 1.0,
        "random_seed": 3,
        "sampling_top_p": 0.9,
        "num_translations_per_input": 2,
    },
}


def vocab() -> hr.Vocab:
    return hr.Vocab(["<unk>", "<s>", "</s>", *(f"w{i}" for i in range(WORDS - 3))])


def make(settings: dict[str, object], seed: int = 1) -> Seq2Seq:
    model = Seq2Seq(HParams().replace(**settings), WORDS, WORDS, torch.Generator().manual_seed(seed)).eval()
    if model.chars is not None:
        model.chars.set_words(list(vocab()))
    with torch.no_grad():
        for weight in model.parameters():
            weight.mul_(1.5)
    return model


def draw(seed: int, count: int, longest: int) -> list[list[int]]:
    rng = random.Random(seed)
    return [[rng.randrange(3, WORDS) for _ in range(rng.randint(0, longest))] for _ in range(count)]


def run(
    model: Seq2Seq | Ensemble, sources: list[list[int]], padding: int, hparams: HParams
) -> list[tuple[object, ...]]:
    """Translates a batch; returns everything that was found of each sentence."""
    width = max(map(len, sources)) + padding
    src_BS = torch.tensor([[*words, *[2] * (width - len(words))] for words in sources], dtype=torch.int64)
    lengths_B = torch.tensor([len(words) for words in sources])
    found = translate(model, src_BS, lengths_B, hparams)
    looked = None if found.alignments_BKTS is None else found.alignments_BKTS.numpy()
    rows: list[tuple[object, ...]] = []
    for b, words in enumerate(sources):
        each = range(found.ids_BKT.shape[1])
        attention = [] if looked is None else [looked[b, k, : 2 * len(words), : len(words)].tobytes() for k in each]
        numbers = found.scores_BK[b].numpy().tobytes(), found.log_probs_BK[b].numpy().tobytes()
        rows.append(([found.words(b, k) for k in each], *numbers, attention))
    return rows


@pytest.mark.parametrize("search", SEARCHES)
@pytest.mark.parametrize("name", MODELS)
def test_no_bit_of_a_translation_depends_on_its_batch(name: str, search: str) -> None:
    model = make(MODELS[name])
    sources = [*draw(len(name), 6, 14), *draw(len(name) + 1, 2, 70), [], [5]]
    _check(model, model.hparams.replace(tgt_max_len_infer=5, **SEARCHES[search]), sources)


def test_nor_with_two_threads() -> None:
    model = make(MODELS["scaled_luong"])
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        _check(model, model.hparams.replace(tgt_max_len_infer=2, **SEARCHES["beam"]), draw(4, 5, 9), sizes=(2,))
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize("search", SEARCHES)
def test_nor_with_several_models(search: str) -> None:
    names = ("scaled_luong", "transformer", "none")
    models = Ensemble([make(MODELS[name], seed) for seed, name in enumerate(names)])
    _check(models, models.hparams.replace(tgt_max_len_infer=5, **SEARCHES[search]), draw(5, 8, 20))


def _check(
    model: Seq2Seq | Ensemble, hparams: HParams, sources: list[list[int]], sizes: Sequence[int] = (1, 2, 6)
) -> None:
    """Translates all together, then in another order in batches of these sizes, with more padding at times."""
    rng = random.Random(len(sources))
    expected = run(model, sources, 0, hparams)
    for size in sizes:
        order = rng.sample(range(len(sources)), len(sources))
        for start in range(0, len(order) if size > 1 else 3, size):
            rows = order[start : start + size]
            found = run(model, [sources[row] for row in rows], rng.choice((0, 0, 3, 21)), hparams)
            for row, got in zip(rows, found, strict=True):
                assert got == expected[row], (row, len(sources[row]), size)


@pytest.mark.parametrize("search", SEARCHES)
def test_the_programs_batches_change_no_score(search: str) -> None:
    model = make(MODELS["scaled_luong"])
    texts = [" ".join(f"w{word - 3}" for word in words) for words in draw(8, 25, 20)]
    expected: dict[str, tuple[object, ...]] = {}
    for size, seed in ((32, 0), (1, 1), (7, 2), (10, 3)):
        translator = Translator(
            model, Vocabs(vocab(), vocab()), model.hparams.replace(infer_batch_size=size, **SEARCHES[search])
        )
        shuffled = random.Random(seed).sample(texts, len(texts))
        for text, found in zip(shuffled, translator.translate(shuffled), strict=True):
            assert expected.setdefault(text, (found.text, found.score)) == (found.text, found.score)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("kernels", ["the fastest", "PyTorch's own"])
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize(
    ("inputs", "outputs"), [(20, 30), (33, 1), (96, 1), (225, 1003), (300, 1025), (415, 2048), (1536, 2048)]
)
def test_a_row_of_a_product_is_the_same_whatever_comes_with_it(
    inputs: int,
    outputs: int,
    transposed: bool,
    kernels: str,
    dtype: torch.dtype,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if kernels == "PyTorch's own":
        monkeypatch.setattr(gemm, "_operator", None)
    generator = torch.Generator().manual_seed(inputs)
    x = torch.randn(200, inputs, generator=generator, dtype=dtype)
    w, bias = (torch.randn(*shape, generator=generator, dtype=dtype) for shape in ((inputs, outputs), (outputs,)))
    if transposed:
        w = w.t().contiguous().t()
    with torch.no_grad():
        whole, plain = multiply(x, w, bias), multiply(x, w)
        exact = x.double() @ w.double() + bias.double()
        torch.testing.assert_close(whole.double(), exact, rtol=0, atol=4 * torch.finfo(dtype).eps * inputs)
        for rows in (1, 2, 3, 15, 16, 17, 64, 65, 130):
            assert torch.equal(multiply(x[5 : 5 + rows], w, bias), whole[5 : 5 + rows])
            assert torch.equal(multiply(x[7 : 7 + rows], w), plain[7 : 7 + rows])
        assert torch.equal(multiply(x.view(20, 10, inputs), w), plain.view(20, 10, outputs))
        assert multiply(x[:0], w, bias).shape == (0, outputs)
    with torch.enable_grad():
        w.requires_grad_()
        (d_w,) = torch.autograd.grad(multiply(x, w, bias).sum(), w)
    torch.testing.assert_close(d_w, x.sum(dim=0)[:, None].expand(inputs, outputs))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("function", [sigmoid, tanh, exp, log])
def test_an_element_is_the_same_wherever_it_is(function: Callable[[Tensor], Tensor], dtype: torch.dtype) -> None:
    x = torch.rand(70_001, generator=torch.Generator().manual_seed(1), dtype=dtype) + 0.5
    before = torch.get_num_threads()
    with torch.no_grad():
        whole = function(x)
        torch.testing.assert_close(whole, getattr(torch, function.__name__)(x))
        try:
            for threads in (1, 2):
                torch.set_num_threads(threads)
                for start, size in ((0, 1), (5, 31), (7, 33), (31, 64), (64, 40_000), (3, 69_990)):
                    assert torch.equal(function(x[start : start + size]), whole[start : start + size])
                table = x[:70_000].view(350, 200)
                assert torch.equal(function(table[:, 5:101]), whole[:70_000].view(350, 200)[:, 5:101])
                assert torch.equal(function(table[:1, 50:107]), whole[:70_000].view(350, 200)[:1, 50:107])
        finally:
            torch.set_num_threads(before)
        assert function(x[:0]).shape == (0,)
        assert function(x[7]) == whole[7]


@pytest.mark.parametrize("words", [5, GROUPS_OF_WORDS * 4 - 1, GROUPS_OF_WORDS * 4, 2345])
def test_the_likeliest_words_are_found_as_by_sorting(words: int) -> None:
    rng = np.random.default_rng(words)
    for scale in (1.0, 1e-6):
        x = torch.from_numpy(rng.permutation(7 * words).reshape(7, words) * scale)
        for count in (1, 3, 5):
            for got, wanted in zip(_largest(x, count), x.topk(count, dim=1), strict=True):
                assert torch.equal(got, wanted)
    equal = torch.zeros(2, words)
    best, where = _largest(equal, 4)
    assert not best.any()
    assert all(len(set(row)) == 4 for row in where.tolist())
