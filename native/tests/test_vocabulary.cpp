// Words and ids, and counting, against the containers of the standard library.

#include <map>
#include <random>
#include <unordered_map>

#include "check.h"
#include "errors.h"
#include "text_model.h"
#include "token_counter.h"
#include "vocabulary.h"

using namespace headrace;
using namespace headrace::test;

namespace {

std::span<const std::uint8_t> span_of(std::string_view text) { return {bytes_of(text), text.size()}; }

std::string text_of(std::span<const std::uint8_t> bytes) { return {bytes.begin(), bytes.end()}; }

std::string random_word(std::mt19937& random) {
  std::string word(1 + random() % (random() % 10 == 0 ? 40 : 10), 'a');
  for (char& c : word) c = static_cast<char>('a' + random() % 3);
  return word;
}

}  // namespace

TEST(the_table_is_a_map) {
  std::mt19937 random(1);
  TokenTable table;
  std::unordered_map<std::string, std::int32_t> model;
  for (int i = 0; i < 100'000; ++i) {
    const std::string word = i == 500 ? "" : random_word(random);
    const auto copy = in_memory(word);
    const auto key = TokenTable::make_key(copy->data(), word.size(), copy->data() + word.size());
    CHECK_EQ(table.find(key), model.contains(word) ? model[word] : -1);
    const auto [number, fresh] = table.insert(key);
    const auto [place, added] = model.emplace(word, static_cast<std::int32_t>(model.size()));
    CHECK_EQ(fresh, added);
    CHECK_EQ(number, place->second);
  }
  CHECK_EQ(table.size(), model.size());
  for (const auto& [word, number] : model) CHECK_EQ(text_of(table.token(static_cast<std::size_t>(number))), word);
}

TEST(short_keys_do_not_depend_on_what_follows) {
  const std::string text = "abcdefghijklmnop";
  for (std::size_t size = 0; size <= 8; ++size) {
    const auto alone = in_memory(text.substr(0, size));
    const auto a = TokenTable::make_key(bytes_of(text), size, bytes_of(text) + text.size());
    const auto b = TokenTable::make_key(alone->data(), size, alone->data() + size);
    CHECK_EQ(a.bits, b.bits);
    CHECK_EQ(a.hash, b.hash);
  }
}

TEST(files_give_words_in_order) {
  const auto vocabulary = Vocabulary::from_file(*in_memory("<unk>\r\nthe\nmill"));
  CHECK_EQ(vocabulary->size(), 3u);
  CHECK_EQ(text_of(vocabulary->word(0)), "<unk>");
  CHECK_EQ(vocabulary->find(span_of("mill")), 2);
  CHECK_EQ(vocabulary->find(span_of("wheel")), -1);
  CHECK_EQ(vocabulary->find(span_of("")), -1);
  CHECK_EQ(Vocabulary::from_file(*in_memory(""))->size(), 0u);
}

TEST(malformed_files_are_refused_with_the_line) {
  const auto load = [](std::string_view text) { return Vocabulary::from_file(*in_memory(text, "v")); };
  CHECK_THROWS(load("a\nb\na\n"), DataError, "v, line 3 repeats the word 'a' of line 1");
  CHECK_THROWS(load("a\n\nb\n"), DataError, "v, line 2 is blank");
  CHECK_THROWS(load("a\nb\tc\n"), DataError, "v, line 2 has white space in it");
  CHECK_THROWS(load("\xef\xbb\xbf<unk>\n"), DataError, "v, line 1 begins with a byte order mark");
  CHECK_THROWS(load(std::string(60, 'x') + " y"), DataError, "found '" + std::string(40, 'x') + "...'");
}

TEST(encoding_is_splitting_and_looking_up) {
  std::mt19937 random(2);
  const std::string words = "a\nbb\nab\nabcabcab\nabcabcabc\n";
  const auto vocabulary = Vocabulary::from_file(*in_memory(words));
  std::map<std::string, std::int32_t> model;
  for (const auto& line : model_lines(words)) model.emplace(line.text, static_cast<std::int32_t>(model.size()));
  for (int round = 0; round < 3000; ++round) {
    std::string text;
    for (std::size_t i = random() % 40; i > 0; --i) {
      text += random() % 3 == 0 ? random_word(random) : model_lines(words)[random() % 5].text;
      text += " \t"[random() % 2];
    }
    Encoding encoding;
    if (round % 3 == 0) encoding.max_length = random() % 8;
    if (round % 5 == 0) encoding.bos = 100;
    if (round % 7 == 0) encoding.eos = 101;
    if (round % 2 == 0) encoding.separators = Separators(" ");
    std::vector<std::int32_t> expected;
    if (encoding.bos) expected.push_back(100);
    for (const auto& token : model_tokens(text, encoding.separators)) {
      if (encoding.max_length && expected.size() >= *encoding.max_length + (encoding.bos ? 1 : 0)) break;
      expected.push_back(model.contains(token) ? model[token] : 99);
    }
    if (encoding.eos) expected.push_back(101);
    const auto copy = in_memory(text);
    Buffer<std::int32_t> ids;
    vocabulary->encode(copy->data(), text.size(), copy->data() + text.size(), encoding, 99, ids);
    CHECK_EQ(ids.size(), expected.size());
    for (std::size_t i = 0; i < expected.size(); ++i) CHECK_EQ(ids[i], expected[i]);
  }
}

TEST(decoding_joins_words_up_to_the_end) {
  const auto vocabulary = Vocabulary::from_file(*in_memory("<unk>\n</s>\nthe\nmill\n"));
  const std::vector<std::int64_t> ids{2, 3, 1, 1, 1, 9, -1, 3}, offsets{0, 4, 5, 5, 8};
  Buffer<std::uint8_t> text;
  Buffer<std::int64_t> ends;
  decode(*vocabulary, ids, offsets, 0, 1, text, ends);
  CHECK_EQ(std::string(text.data(), text.data() + text.size()), "the mill<unk> <unk> mill");
  CHECK_EQ(ends[1], 8);
  CHECK_EQ(ends[3], 8);
  const std::vector<std::int64_t> falling{0, 4, 2}, beyond{0, 9};
  CHECK_THROWS(decode(*vocabulary, ids, falling, 0, {}, text, ends), std::invalid_argument, "row 1 is 4 to 2");
  CHECK_THROWS(decode(*vocabulary, ids, beyond, 0, {}, text, ends), std::invalid_argument, "row 0 is 0 to 9");
}

TEST(counting_is_that_of_a_map) {
  std::mt19937 random(3);
  std::string text;
  std::map<std::string, std::int64_t> model;
  while (text.size() < (12u << 20)) {
    const std::string word = random() % 500 == 0 ? std::string(random() % 3000 + 1, 'y') : random_word(random);
    ++model[word];
    text += word;
    text += random() % 10 == 0 ? "\r\n" : " ";
  }
  for (const unsigned threads : {1u, 3u}) {
    TokenCounter counter;
    counter.count(*in_memory(text), Separators(threads == 1 ? " " : " \t\r"), threads);
    CHECK_EQ(counter.size(), model.size());
    const auto order = counter.ranked(2);
    std::int64_t before = counter.occurrences(order[0]);
    std::string word_before;
    for (const std::size_t i : order) {
      const std::string word = text_of(counter.token(i));
      CHECK_EQ(counter.occurrences(i), model[word]);
      CHECK(counter.occurrences(i) < before || (counter.occurrences(i) == before && word > word_before));
      before = counter.occurrences(i);
      word_before = word;
    }
    CHECK(before >= 2);
  }
}

int main() { return headrace::test::run_all(); }
