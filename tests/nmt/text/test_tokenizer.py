import pytest

from headrace.nmt.text.detokenize import detokenize
from headrace.nmt.text.tokenizer import tokenize


@pytest.mark.parametrize(
    ("text", "language", "words"),
    [
        ("Ein Mann schläft.", "de", "Ein Mann schläft ."),
        ("Um 8.30 Uhr, z.B. am 3. Mai, kommt Dr. med. X.", "de", "Um 8.30 Uhr , z.B. am 3 . Mai , kommt Dr. med . X ."),
        ("1,000 men and 3,5", "en", "1,000 men and 3,5"),
        ("It isn't John's.", "en", "It isn 't John 's ."),
        ("l'eau d’or", "fr", "l' eau d’ or"),
        ("geht's", "de", "geht ' s"),
        ("well-known (very)!", "en", "well-known ( very ) !"),
        ("Wait... what?!", "en", "Wait ... what ? !"),
        ("He left. She stayed.", "en", "He left . She stayed ."),
        ("  ", "en", ""),
        (".", "en", "."),
        ("你好，世界。", "zh", "你好 ， 世界 。"),
    ],
)
def test_words(text: str, language: str, words: str) -> None:
    assert tokenize(text, language) == words


def test_entities() -> None:
    assert tokenize('a "b" & <c> [d] it\'s', "en", entities=True) == (
        "a &quot; b &quot; &amp; &lt; c &gt; &#91; d &#93; it &apos;s"
    )


@pytest.mark.parametrize("text", ['He said: "I know, (really) the T-shirt price."', "A man, a plan.", "It's 3.5 km!"])
@pytest.mark.parametrize("entities", [False, True])
def test_detokenizing_gives_the_text_back(text: str, entities: bool) -> None:
    assert detokenize(tokenize(text, "en", entities)) == text
