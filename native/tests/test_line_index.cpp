// Line starts and token counts, masks of bytes, and UTF-8, against plain models.

#include <cstring>
#include <memory>
#include <random>

#include "check.h"
#include "line_index.h"
#include "text_model.h"
#include "utf8.h"

using namespace headrace;
using namespace headrace::test;

namespace {

std::string random_text(std::mt19937& random, std::size_t size) {
  static constexpr char kBytes[] = {'\n', '\n', '\r', ' ', '\t', 'a', 'b', '\0', static_cast<char>(0xc3)};
  std::string text;
  while (text.size() < size) {
    if (random() % 20 == 0) {
      text += std::string(50 + random() % 30, 'x');
    } else {
      text += kBytes[random() % sizeof kBytes];
    }
  }
  return text;
}

void check_index(std::string_view text, const Separators& separators, const LineIndex& index) {
  const auto lines = model_lines(text);
  CHECK_EQ(index.lines(), lines.size());
  CHECK_EQ(index.starts.size(), lines.size() + 1);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    CHECK_EQ(index.starts[i], lines[i].start);
    CHECK_EQ(index.tokens[i], model_tokens(lines[i].text, separators).size());
  }
  const bool open = !text.empty() && text.back() != '\n';
  CHECK_EQ(index.starts[lines.size()], text.size() + (open ? 1 : 0));
}

}  // namespace

TEST(masks_agree_with_a_loop) {
  std::mt19937 random(1);
  std::string text(64 * 40, '\0');
  for (char& c : text) c = static_cast<char>(random() % 3 == 0 ? random() : 9 + random() % 24);
  for (const Separators& separators : {Separators(), Separators(" "), Separators(std::string_view("\0\x7f~", 3))}) {
    std::uint64_t newline[40], separator[40], newline2[40], separator2[40];
    byte_masks(bytes_of(text), 40, separators, newline, separator);
    byte_masks_portable(bytes_of(text), 40, separators, newline2, separator2);
    for (std::size_t i = 0; i < text.size(); ++i) {
      const auto byte = static_cast<std::uint8_t>(text[i]);
      CHECK_EQ((newline[i / 64] >> (i % 64)) & 1, byte == '\n' ? 1u : 0u);
      CHECK_EQ((separator[i / 64] >> (i % 64)) & 1, separators.contains(byte) ? 1u : 0u);
    }
    CHECK(std::memcmp(newline, newline2, sizeof newline) == 0);
    CHECK(std::memcmp(separator, separator2, sizeof separator) == 0);
  }
}

TEST(separators_are_ascii) {
  CHECK_THROWS(Separators(""), std::invalid_argument, "separators is empty");
  CHECK_THROWS(Separators("\xc3\xa4"), std::invalid_argument, "outside ASCII");
  CHECK(Separators("x").contains('\n'));
  CHECK(!Separators("x").contains(' '));
  for (unsigned byte = 128; byte < 256; ++byte) CHECK(!Separators().contains(static_cast<std::uint8_t>(byte)));
}

TEST(small_texts_are_indexed_as_the_model_says) {
  for (const char* text : {"", "\n", "\r\n", "\r", "a", "a\n", "a\r\n", "a b\r\n\r\n c", "\n\n\n", "a \r", "\r\r\n"}) {
    for (const Separators& separators : {Separators(), Separators(" ")}) {
      check_index(text, separators, build_line_index(*in_memory(text), separators, 1));
    }
  }
}

TEST(random_texts_are_indexed_as_the_model_says) {
  std::mt19937 random(2);
  for (int round = 0; round < 300; ++round) {
    const std::string text = random_text(random, random() % 600);
    for (const Separators& separators : {Separators(), Separators(" "), Separators("\r")}) {
      check_index(text, separators, build_line_index(*in_memory(text), separators, 1));
    }
  }
}

TEST(pieces_give_what_the_whole_gives) {
  std::mt19937 random(3);
  for (int round = 0; round < 200; ++round) {
    const std::string text = random_text(random, 2000);
    const Separators separators(round % 2 == 0 ? " " : " \t\r");
    LineScanner scanner(separators, 0);
    for (std::size_t at = 0; at < text.size();) {
      std::size_t count = std::min(text.size() - at, kBlock * (1 + random() % 5));
      scanner.feed(bytes_of(text) + at, count);
      at += count;
    }
    scanner.finish();
    const auto lines = model_lines(text);
    CHECK_EQ(scanner.tokens.size(), lines.size());
    for (std::size_t i = 0; i < lines.size(); ++i) {
      CHECK_EQ(scanner.tokens[i], model_tokens(lines[i].text, separators).size());
    }
  }
}

TEST(cuts_are_line_starts) {
  std::mt19937 random(4);
  for (int round = 0; round < 200; ++round) {
    const std::string text = random_text(random, 1 + random() % 300);
    const auto cuts = split_at_lines(*in_memory(text), 1 + random() % 8);
    CHECK_EQ(cuts.front(), 0u);
    CHECK_EQ(cuts.back(), text.size());
    for (std::size_t i = 1; i + 1 < cuts.size(); ++i) {
      CHECK(cuts[i] > cuts[i - 1]);
      CHECK_EQ(text[cuts[i] - 1], '\n');
    }
  }
  CHECK_EQ(split_at_lines(*in_memory(""), 4).size(), 1u);
}

TEST(large_texts_are_indexed_by_several_threads) {
  std::mt19937 random(5);
  const std::string text = random_text(random, 13 << 20);
  const auto file = in_memory(text);
  for (const unsigned threads : {1u, 3u})
    check_index(text, Separators(), build_line_index(*file, Separators(), threads));
}

TEST(utf8_is_what_the_standard_says) {
  const auto valid = [](std::string_view text) { return valid_utf8_prefix(bytes_of(text), text.size()); };
  CHECK_EQ(valid("plain text of more than sixteen bytes"), 37u);
  CHECK_EQ(valid("\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80"), 9u);
  CHECK_EQ(valid("\xed\x9f\xbf\xee\x80\x80\xf4\x8f\xbf\xbf"), 10u);
  for (const char* bad :
       {"\x80", "\xc0\xaf", "\xc1\xbf", "\xe0\x9f\xbf", "\xed\xa0\x80", "\xf0\x8f\xbf\xbf", "\xf4\x90\x80\x80",
        "\xf5\x80\x80\x80", "\xff", "\xc3", "\xe2\x82", "\xf0\x9f\x98", "\xc3x"}) {
    CHECK_EQ(valid(std::string("0123456789abcdefg") + bad), 17u);
  }
  CHECK_EQ(valid(""), 0u);
}

TEST(bytes_that_fill_no_block_are_masked_with_zeros_behind) {
  const std::string text(3 * kBlock, '\n');
  for (std::size_t size = 0; size <= text.size(); ++size) {
    const auto bytes = std::make_unique<std::uint8_t[]>(size);  // of exactly that size: reading on would be noticed
    std::memcpy(bytes.get(), text.data(), size);
    std::uint64_t mask[3] = {};
    in_blocks(bytes.get(), size, [&](const std::uint8_t* data, std::size_t blocks, std::size_t first) {
      equal_masks(data, blocks, '\n', mask + first);
    });
    for (std::size_t i = 0; i < text.size(); ++i) CHECK_EQ((mask[i / kBlock] >> (i % kBlock)) & 1, i < size ? 1u : 0u);
  }
}

TEST(utf8_characters_may_lie_over_pieces) {
  std::string text = "x";
  while (text.size() < (1u << 20)) text += "\xf0\x9f\x98\x80";
  CHECK(!find_invalid_utf8(*in_memory(text)).has_value());
  text[700'001 / 4 * 4 + 1] = 'x';
  CHECK_EQ(*find_invalid_utf8(*in_memory(text)), 700'001u / 4 * 4 + 1 + 1);
}

int main() { return headrace::test::run_all(); }
