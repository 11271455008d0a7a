import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentgym_ttg.core import Completion, ConfigError, count_tokens, load_tokenizer

TOKENIZER = load_tokenizer()


@settings(max_examples=200, deadline=None)
@given(st.text())
def test_text_comes_back_exactly(text):
    assert TOKENIZER.decode(TOKENIZER.encode(text)) == text


@settings(max_examples=200, deadline=None)
@given(st.text(st.characters(), min_size=1))
def test_any_string_is_counted_surrogates_included(text):
    assert 1 <= count_tokens(text, TOKENIZER) <= 4 * len(text)


def test_a_lone_surrogate_counts_as_the_replacement_character():
    assert TOKENIZER.encode("a\ud800b") == TOKENIZER.encode("a\ufffdb")


def test_sampled_ids_are_counted_and_not_the_text():
    assert count_tokens(Completion("a long text, many words", token_ids=[1]), TOKENIZER) == 1
    assert count_tokens(Completion("text", token_ids=[]), TOKENIZER) == 0
    assert count_tokens(Completion("go north"), TOKENIZER) == count_tokens("go north", TOKENIZER) > 0
    assert count_tokens("", TOKENIZER) == 0


def test_a_huge_message_is_counted_in_full():
    assert count_tokens("a" * 200_000, TOKENIZER) > 1000
    assert count_tokens("word " * 40_000, TOKENIZER) >= 40_000


def test_tokenizers_by_path_and_a_limit_in_the_file_does_not_cap_the_count(tmp_path):
    from tokenizers import Tokenizer, models, pre_tokenizers

    raw = Tokenizer(models.WordLevel({"[UNK]": 0, "go": 1}, unk_token="[UNK]"))
    raw.pre_tokenizer = pre_tokenizers.Whitespace()
    raw.enable_truncation(2)
    raw.enable_padding(length=8)
    raw.save(str(tmp_path / "tokenizer.json"))
    for spec in (str(tmp_path), str(tmp_path / "tokenizer.json")):
        assert count_tokens("go go go north", load_tokenizer(spec)) == 4


@pytest.mark.parametrize("content", [None, "{}", "no json"])
def test_a_bad_path_says_what_is_expected(tmp_path, content):
    path = tmp_path / "tokenizer.json"
    if content is not None:
        path.write_text(content)
    with pytest.raises(ConfigError, match=r"expected a tokenizer\.json, a folder with one, or the id"):
        load_tokenizer(str(path))
