#include <random>
#include <string>

#include "../byte_masks.h"
#include "../errors.h"
#include "check.h"
#include "ctf_index_model.h"

using namespace headrace;
using namespace headrace::test;

namespace {

std::shared_ptr<FileBytes> in_memory(const std::string& text) {
  return FileBytes::from_memory(reinterpret_cast<const std::uint8_t*>(text.data()), text.size(), nullptr, "text");
}

std::optional<Model> indexed(const std::string& text, const CtfIndexOptions& options, unsigned threads = 1) {
  try {
    return unfold(build_ctf_index(*in_memory(text), options, threads));
  } catch (const DataError&) {
    return std::nullopt;
  }
}

bool agrees(const std::string& text, const CtfIndexOptions& options, unsigned threads = 1) {
  const auto got = indexed(text, options, threads), wanted = model_ctf_index(text, options);
  if (got.has_value() != wanted.has_value()) return false;
  return !got || (got->ids == wanted->ids && got->sequences == wanted->sequences);
}

std::string refusal(const std::string& text, const CtfIndexOptions& options = {}) {
  try {
    build_ctf_index(*in_memory(text), options, 1);
  } catch (const DataError& error) {
    return error.what();
  }
  return "";
}

bool says(const std::string& message, const char* part) { return message.find(part) != std::string::npos; }

const char* const kPieces[] = {"\n",
                               "\n",
                               "\n",
                               "\r\n",
                               "|",
                               "|a 1",
                               "|ab 2",
                               "|a",
                               "|b 0:1",
                               " ",
                               "\t",
                               "1",
                               "2",
                               "01",
                               "10",
                               "18446744073709551615",
                               "18446744073709551616",
                               "12345678",
                               "1234567890123456",
                               "00000000000000000007",
                               "x",
                               "|# note",
                               "\xef\xbb\xbf",
                               "\xc3\xa4",
                               "-"};

std::string random_text(std::mt19937& random, std::size_t pieces) {
  std::string text;
  for (std::size_t i = 0; i < pieces; ++i) text += kPieces[random() % std::size(kPieces)];
  return text;
}

}  // namespace

TEST(lines_without_ids_are_sequences) {
  const auto model = indexed("\n |a 1\n\n|a 2\r\n|a 3", {});
  CHECK(model && !model->ids);
  CHECK_EQ(model->sequences.size(), 4u);
  CHECK(model->sequences[0] == (ModelSequence{2, 7, 1, 1}));
  CHECK(model->sequences[3] == (ModelSequence{14, 18, 4, 1}));
}

TEST(lines_with_one_id_are_one_sequence) {
  const auto model = indexed("100 |a 1\n|a 2\n0100|a 3\n7|a 4\n100 |a 5\n7", {});
  CHECK(model && model->ids);
  CHECK_EQ(model->sequences.size(), 3u);
  CHECK_EQ(model->sequences[0].samples, 3u);
  CHECK_EQ(model->sequences[1].key, 7u);
  CHECK_EQ(model->sequences[2].samples, 2u);  // the digits at the very end are no id
}

TEST(a_main_stream_leaves_out_what_lacks_it) {
  const auto model = indexed("1 |a 1\n1 |b 1\n2 |b 1\n3 |a\n", {.skip_ids = false, .main = "a"});
  CHECK_EQ(model->sequences.size(), 2u);
  CHECK(model->sequences[0] == (ModelSequence{0, 14, 1, 1}));
  CHECK(model->sequences[1] == (ModelSequence{21, 26, 3, 1}));
}

TEST(what_cannot_be_read_is_refused_with_its_place) {
  CHECK(says(refusal(""), "text is empty"));
  CHECK(says(refusal(" \n\t\n"), "nothing but white space"));
  CHECK(says(refusal(std::string("\xff\xfe|\0", 4)), "UTF-16"));
  CHECK(says(refusal("\n  abc |a 1\n"), "line 2, column 3 (byte 3): expected '|' or a sequence id"));
  CHECK(says(refusal("-1 |a 1\n"), "got '-1 |a 1'"));
  CHECK(says(refusal("1 |a 1\n18446744073709551616 |a 2\n"), "line 2, column 1 (byte 7)"));
  CHECK_EQ(refusal("18446744073709551615 |a 2\n"), "");
}

TEST(random_texts_are_indexed_as_the_model_does) {
  std::mt19937 random(3);
  for (int round = 0; round < 20000; ++round) {
    const std::string text = random_text(random, random() % 24);
    for (const bool skip : {false, true}) {
      for (const char* main : {"", "a", "ab"}) {
        if (!agrees(text, {.skip_ids = skip, .main = main})) {
          std::fprintf(stderr, "differs, skip %d, main '%s':\n%s\n", skip, main, text.c_str());
          CHECK(false);
          return;
        }
      }
    }
  }
}

TEST(long_texts_are_indexed_by_several_threads) {
  std::mt19937 random(4);
  for (const bool ids : {false, true}) {
    std::string text = ids ? "1 |a 1\n" : "|a 1\n";
    std::uint64_t id = 1;
    while (text.size() < (13u << 20)) {
      if (random() % 3 == 0) ++id;
      if (ids && random() % 4 != 0) text += std::to_string(id);
      text += random() % 5 == 0 ? "|b 1" : "|a ";
      text.append(random() % 300, '1');
      text += '\n';
    }
    for (const unsigned threads : {1u, 3u}) {
      CHECK(agrees(text, {}, threads));
      CHECK(agrees(text, {.skip_ids = false, .main = "a"}, threads));
    }
    // One sequence over all ranges: no thread but the first finds an id.
    if (ids) {
      std::string one = "5 |a 1\n";
      while (one.size() < (13u << 20)) one += "|a 1234567890 1234567890 1234567890\n";
      CHECK(agrees(one, {}, 3));
    }
  }
}

TEST(masks_of_one_byte_are_those_of_plain_code) {
  std::mt19937 random(6);
  std::string text(64 * 33, ' ');
  for (char& c : text) c = static_cast<char>(random());
  std::uint64_t fast[33], plain[33];
  const auto* data = reinterpret_cast<const std::uint8_t*>(text.data());
  for (const std::uint8_t byte : {std::uint8_t{'\n'}, std::uint8_t{'|'}, std::uint8_t{0}, std::uint8_t{255}}) {
    equal_masks(data, 33, byte, fast);
    equal_masks_portable(data, 33, byte, plain);
    for (int b = 0; b < 33; ++b) CHECK_EQ(fast[b], plain[b]);
  }
}

int main() { return headrace::test::run_all(); }
