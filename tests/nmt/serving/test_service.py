"""Requests as documents: what is answered, and what refused with which words."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from headrace.nmt.hparams import HParamError
from headrace.nmt.serving.service import Limits, RequestError, Service
from headrace.nmt.text.subwords import Subwords
from tests.nmt.servers import SENTENCES, make_translator, until


@pytest.fixture
def service() -> Iterator[Service]:
    service = Service(make_translator(), Limits(beam_width=6, sentences=5, words=8))
    yield service
    service.close()


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"beam_width": 3, "nbest": 3},
        {"beam_width": 4, "nbest": 2, "length_penalty_weight": 1.0, "coverage_penalty_weight": 0.5},
    ],
)
def test_translations_are_those_of_the_translator(service: Service, options: dict[str, Any]) -> None:
    answer = service.translate({"text": SENTENCES, "attention": True, **options})
    translator = make_translator()
    nbest = options.pop("nbest", 1)
    translator.hparams = translator.hparams.replace(**options)
    expected = translator.nbest(SENTENCES, nbest, attention=True)
    assert [found["text"] for found in answer["translations"]] == SENTENCES
    for found, wanted in zip(answer["translations"], expected, strict=True):
        assert found["source"] == wanted[0].source
        assert found["unknown"] == []
        assert [h["text"] for h in found["hypotheses"]] == [w.text for w in wanted]
        assert [h["tokens"] for h in found["hypotheses"]] == [w.words for w in wanted]
        assert [h["score"] for h in found["hypotheses"]] == pytest.approx([w.score for w in wanted], abs=1e-5)
        assert [h["log_prob"] for h in found["hypotheses"]] == pytest.approx([w.log_prob for w in wanted], abs=1e-5)
        for h, w in zip(found["hypotheses"], wanted, strict=True):
            assert w.attention is not None
            np.testing.assert_allclose(h["attention"], w.attention, atol=1e-4)


def test_one_sentence_without_attention(service: Service) -> None:
    (found,) = service.translate({"text": "die katze\n am bach"})["translations"]
    assert found["source"] == ["die", "katze", "am", "bach"]
    assert found["unknown"] == [1]
    assert found["hypotheses"][0].keys() == {"text", "tokens", "score", "log_prob"}


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ([1], r'expected an object such as \{"text": "…"\}, got a list'),
        ({}, 'expected a sentence, or a list of them, as "text"'),
        ({"text": []}, 'expected a sentence, or a list of them, as "text"'),
        ({"text": 3}, "the sentence must be text, got a number"),
        ({"text": ["bach", None]}, "sentence 2 of 2 must be text, got null"),
        ({"text": " \n"}, "the sentence is empty: write something to translate"),
        ({"text": "\ud800"}, "the sentence has half of a character"),
        ({"text": "bach " * 9}, "the sentence has 9 words as the model reads them, at most 8 may be: cut it"),
        ({"text": ["bach"] * 6}, "expected at most 5 sentences at once, got 6"),
        ({"text": "bach", "beam": 3}, "unknown option 'beam'; it may have text, beam_width"),
        ({"text": "bach", "beam_widht": 3}, "unknown option 'beam_widht'; did you mean 'beam_width'?"),
        ({"text": "bach", "beam_width": 7}, "beam_width must be a whole number from 0 to 6, got 7"),
        ({"text": "bach", "beam_width": "3"}, "beam_width must be a whole number from 0 to 6, got text"),
        ({"text": "bach", "beam_width": True}, "beam_width must be a whole number from 0 to 6, got true or false"),
        ({"text": "bach", "beam_width": 2.5}, "beam_width must be a whole number from 0 to 6, got 2.5"),
        ({"text": "bach", "nbest": 2}, "nbest may be at most beam_width, got 2 with beam_width 0: give a wider beam"),
        ({"text": "bach", "nbest": 0}, "nbest must be a whole number from 1 to 6, got 0"),
        ({"text": "bach", "length_penalty_weight": -1}, "length_penalty_weight must be a number from 0 to 10, got -1"),
        ({"text": "bach", "length_penalty_weight": float("nan")}, "must be a number from 0 to 10, got nan"),
        ({"text": "bach", "attention": 1}, "attention must be true or false, got a number"),
    ],
)
def test_bad_requests_are_refused(service: Service, document: object, message: str) -> None:
    with pytest.raises(RequestError, match=message) as caught:
        service.translate(document)
    assert caught.value.status == 400


class Held:
    """Holds up a service's translating until it is let go."""

    def __init__(self, service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
        self.began, self.go_on = threading.Event(), threading.Event()
        translate = service.translator.__class__.nbest

        def nbest(*args: Any, **kwargs: Any) -> Any:
            self.began.set()
            assert self.go_on.wait(10)
            return translate(*args, **kwargs)

        monkeypatch.setattr(service.translator.__class__, "nbest", nbest)


def test_who_waits_too_long_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    service = Service(make_translator(), Limits(seconds=0.05))
    held = Held(service, monkeypatch)
    with pytest.raises(RequestError, match=r"not translated within 0\.05 s: try fewer, shorter sentences") as caught:
        service.translate({"text": "bach"})
    assert caught.value.status == 504
    held.go_on.set()
    service.close()


def test_who_finds_a_full_queue_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    service = Service(make_translator(), Limits(sentences=2, waiting=2))
    held = Held(service, monkeypatch)
    answers: list[Any] = []
    callers = []
    for sentences in (["bach"], ["die mühle", "am bach"]):
        caller = threading.Thread(target=lambda texts=sentences: answers.append(service.translate({"text": texts})))
        caller.start()
        callers.append(caller)
        assert held.began.wait(10)
    until(lambda: service.numbers()["waiting"] == 2)
    with pytest.raises(RequestError, match="the server is busy: 2 wait already, at most 2 may") as caught:
        service.translate({"text": "bach"})
    assert (caught.value.status, caught.value.retry_after) == (503, 1)
    held.go_on.set()
    for caller in callers:
        caller.join(10)
    assert sorted(len(answer["translations"]) for answer in answers) == [1, 2]
    service.close()
    assert service.numbers()["largest_batch"] == 2


def test_running_text_for_a_model_of_words() -> None:
    service = Service(make_translator(), lowercase=True, tokenize=True)
    (found,) = service.translate({"text": "Die Mühle mahlt, das Korn."})["translations"]
    assert found["text"] == "Die Mühle mahlt, das Korn."
    assert found["source"] == ["die", "mühle", "mahlt", ",", "das", "korn", "."]
    assert found["unknown"] == [3]
    assert service.model()["reads"] == "text"
    service.close()


def test_hypotheses_that_cannot_be_are_left_out() -> None:
    """A beam that is wider than there are translations has places without one."""
    translator = make_translator(tgt_max_len_infer=1)
    service = Service(translator, Limits(beam_width=30))
    (found,) = service.translate({"text": "bach", "beam_width": 30, "nbest": 30})["translations"]
    assert 1 <= len(found["hypotheses"]) <= len(translator.vocabs.tgt)
    assert all(hypothesis["log_prob"] is not None for hypothesis in found["hypotheses"])
    service.close()


def test_models_that_cannot_be_served() -> None:
    with pytest.raises(HParamError, match="infer_mode cannot be sample"):
        Service(make_translator(infer_mode="sample", sampling_temperature=1.0))
    with pytest.raises(HParamError, match="beam_width=30 is above the limit of 20"):
        Service(make_translator(beam_width=30))
    translator = make_translator(subword_option="bpe")
    translator.subwords = Subwords(b"#version: 0.2\nb a\n")
    with pytest.raises(HParamError, match="leave out --tokenize"):
        Service(translator, tokenize=True)
    with pytest.raises(HParamError, match="limit of words must be above 0, got 0"):
        Limits(words=0)
    with pytest.raises(HParamError, match="may have 9 sentences, but only 4 may wait"):
        Limits(sentences=9, waiting=4)


def test_neighbours_set_no_limit(service: Service) -> None:
    translator = make_translator(whole_batch_limit=True)  # a model whose settings say that they do
    expected = service.translate({"text": SENTENCES})["translations"]
    assert [found.text for found in translator.translate(SENTENCES)] != [e["hypotheses"][0]["text"] for e in expected]
    other = Service(translator, Limits())
    try:
        assert other.translate({"text": SENTENCES})["translations"] == expected
    finally:
        other.close()


def test_subwords_take_text() -> None:
    translator = make_translator(subword_option="bpe")
    translator.subwords = Subwords(b"#version: 0.2\nb a\nc h</w>\nba ch</w>\n")
    service = Service(translator, Limits(words=3))
    assert service.model()["reads"] == "text"
    assert service.translate({"text": "bach"})["translations"][0]["source"] == ["bach"]
    with pytest.raises(RequestError, match="has 4 words as the model reads them"):
        service.translate({"text": "korn"})
    service.close()
