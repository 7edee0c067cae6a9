// A vocabulary: words to ids and back, over the bytes of a file with one word a line.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "buffer.h"
#include "byte_masks.h"
#include "file_bytes.h"
#include "token_table.h"

namespace headrace {

// How a text becomes ids.
struct Encoding {
  Separators separators;
  std::optional<std::size_t> max_length;  // tokens kept of a text, not counting bos and eos
  std::optional<std::int32_t> bos;        // id put before each text
  std::optional<std::int32_t> eos;        // id put after each text
};

// Immutable and safe to share between threads. The id of a word is its place, from 0.
class Vocabulary {
 public:
  // One word a line. Throws DataError at the first line that is blank, has white space in it or repeats a
  // word, with the line's number.
  static std::shared_ptr<const Vocabulary> from_file(const FileBytes& file);
  // Words at offsets[i] .. offsets[i + 1] of `data`; `name` is for messages.
  static std::shared_ptr<const Vocabulary> from_words(std::span<const std::uint8_t> data,
                                                      std::span<const std::int64_t> offsets, const std::string& name);

  std::size_t size() const { return table_.size(); }
  std::span<const std::uint8_t> word(std::size_t id) const { return table_.token(id); }
  std::size_t bytes() const { return table_.bytes(); }
  // The id of a word, or -1.
  std::int32_t find(std::span<const std::uint8_t> word) const;

  // Appends the ids of the tokens of one text, `unknown` for those not in the vocabulary. `readable_end` as in
  // for_each_token. Returns whether a '\n' was met.
  bool encode(const std::uint8_t* data, std::size_t size, const std::uint8_t* readable_end, const Encoding& encoding,
              std::int32_t unknown, Buffer<std::int32_t>& ids) const;

 private:
  Vocabulary() = default;
  void add(std::span<const std::uint8_t> word, const std::uint8_t* readable_end, const std::string& name,
           std::string_view place);

  TokenTable table_;
};

// The ids of the texts at offsets[i] .. offsets[i + 1] of `data`, and where each text's ids begin.
void encode_texts(const Vocabulary& vocabulary, std::span<const std::uint8_t> data,
                  std::span<const std::int64_t> offsets, const Encoding& encoding, std::int32_t unknown,
                  Buffer<std::int32_t>& ids, Buffer<std::int64_t>& id_offsets);

// The words of ids, joined by blanks, one text a row; a row ends before the first `eos`. Ids outside the
// vocabulary give the word `unknown`.
void decode(const Vocabulary& vocabulary, std::span<const std::int64_t> ids, std::span<const std::int64_t> offsets,
            std::int32_t unknown, std::optional<std::int64_t> eos, Buffer<std::uint8_t>& text,
            Buffer<std::int64_t>& text_offsets);

}  // namespace headrace
