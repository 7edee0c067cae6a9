#include "vocabulary.h"

#include <algorithm>
#include <cstring>

#include "errors.h"
#include "line_index.h"
#include "tokeniser.h"
#include "utf8.h"

namespace headrace {
namespace {

// A word as it appears in messages: its beginning, with bytes that could upset a terminal replaced.
std::string shown(std::span<const std::uint8_t> word) {
  constexpr std::size_t kShown = 40;
  std::string text;
  std::size_t end = std::min(word.size(), kShown);
  while (end > 0 && end < word.size() && (word[end] & 0xc0) == 0x80) --end;  // do not cut a character
  const bool readable = valid_utf8_prefix(word.data(), end) == end;
  for (std::size_t i = 0; i < end; ++i) {
    text += word[i] < 32 || word[i] == 127 || (!readable && word[i] > 127) ? '?' : static_cast<char>(word[i]);
  }
  return "'" + text + (end < word.size() ? "..." : "") + "'";
}

// Throws unless begin .. end lies within `size`; `row` is for the message.
void check_range(std::int64_t begin, std::int64_t end, std::size_t size, std::size_t row) {
  if (begin >= 0 && end >= begin && static_cast<std::uint64_t>(end) <= size) return;
  throw std::invalid_argument("offsets must rise, from 0 to at most " + std::to_string(size) + "; row " +
                              std::to_string(row) + " is " + std::to_string(begin) + " to " + std::to_string(end));
}

bool white(std::uint8_t byte) { return byte == ' ' || (byte >= '\t' && byte <= '\r'); }

}  // namespace

void Vocabulary::add(std::span<const std::uint8_t> word, const std::uint8_t* readable_end, const std::string& name,
                     std::string_view place) {
  const auto where = [&](std::size_t i) { return name + ", " + std::string(place) + " " + std::to_string(i + 1); };
  const std::size_t next = table_.size();
  if (next == 0 && begins_as_utf16(word.data(), word.size())) {
    throw DataError(where(next) + " is UTF-16 text by its byte order mark, expected UTF-8; convert the file");
  }
  if (std::all_of(word.begin(), word.end(), white)) {
    throw DataError(where(next) + " is blank: a vocabulary has one word a line and no empty lines; remove it");
  }
  if (std::any_of(word.begin(), word.end(), white)) {
    throw DataError(where(next) + " has white space in it: expected one word alone, found " + shown(word) +
                    "; keep only the words (for a file with counts or scores, its first column)");
  }
  if (next == 0 && word.size() >= 3 && word[0] == 0xef && word[1] == 0xbb && word[2] == 0xbf) {
    throw DataError(where(next) +
                    " begins with a byte order mark, which would become part of the first word; save the file "
                    "as UTF-8 without it");
  }
  const auto [id, fresh] = table_.insert(TokenTable::make_key(word.data(), word.size(), readable_end));
  if (!fresh) {
    throw DataError(where(next) + " repeats the word " + shown(word) + " of " + std::string(place) + " " +
                    std::to_string(id + 1) + ": each word has one id; remove one of the two");
  }
}

std::shared_ptr<const Vocabulary> Vocabulary::from_file(const FileBytes& file) {
  const LineIndex index = build_line_index(file, Separators(), 1);
  std::shared_ptr<Vocabulary> vocabulary(new Vocabulary());
  const std::uint8_t* data = file.data();
  const std::uint8_t* readable_end = data + file.size();
  for (std::size_t i = 0; i < index.lines(); ++i) {
    const std::uint8_t* begin = data + index.starts[i];
    const std::uint8_t* end = data + (index.starts[i + 1] - 1);
    if (end > begin && end < readable_end && end[-1] == '\r') --end;
    vocabulary->add({begin, end}, readable_end, file.name(), "line");
  }
  return vocabulary;
}

std::shared_ptr<const Vocabulary> Vocabulary::from_words(std::span<const std::uint8_t> data,
                                                         std::span<const std::int64_t> offsets,
                                                         const std::string& name) {
  std::shared_ptr<Vocabulary> vocabulary(new Vocabulary());
  for (std::size_t i = 0; i + 1 < offsets.size(); ++i) {
    const std::int64_t begin = offsets[i], end = offsets[i + 1];
    check_range(begin, end, data.size(), i);
    vocabulary->add(data.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin)),
                    data.data() + data.size(), name, "word");
  }
  return vocabulary;
}

std::int32_t Vocabulary::find(std::span<const std::uint8_t> word) const {
  return table_.find(TokenTable::make_key(word.data(), word.size(), word.data() + word.size()));
}

bool Vocabulary::encode(const std::uint8_t* data, std::size_t size, const std::uint8_t* readable_end,
                        const Encoding& encoding, std::int32_t unknown, Buffer<std::int32_t>& ids) const {
  // Keys wait in a short queue between asking for their slot's memory and looking at it.
  constexpr std::size_t kQueue = 16;
  TokenTable::Key queue[kQueue];
  std::size_t queued = 0;
  const auto flush = [&] {
    std::int32_t* to = ids.room(queued);
    for (std::size_t i = 0; i < queued; ++i) {
      const std::int32_t id = table_.find(queue[i]);
      to[i] = id < 0 ? unknown : id;
    }
    ids.advance(queued);
    queued = 0;
  };
  if (encoding.bos) ids.push(*encoding.bos);
  std::size_t left = encoding.max_length.value_or(~std::size_t{0});
  bool line_feed = false;
  if (left > 0) {
    line_feed = for_each_token(data, size, readable_end, encoding.separators,
                               [&](const std::uint8_t* token, std::size_t length) {
                                 queue[queued] = TokenTable::make_key(token, length, readable_end);
                                 table_.prefetch(queue[queued]);
                                 if (++queued == kQueue) flush();
                                 return --left > 0;
                               });
    flush();
  }
  if (encoding.eos) ids.push(*encoding.eos);
  return line_feed;
}

void encode_texts(const Vocabulary& vocabulary, std::span<const std::uint8_t> data,
                  std::span<const std::int64_t> offsets, const Encoding& encoding, std::int32_t unknown,
                  Buffer<std::int32_t>& ids, Buffer<std::int64_t>& id_offsets) {
  id_offsets.reserve(offsets.size() + 1);
  id_offsets.push(0);
  for (std::size_t row = 0; row + 1 < offsets.size(); ++row) {
    const std::int64_t begin = offsets[row], end = offsets[row + 1];
    check_range(begin, end, data.size(), row);
    vocabulary.encode(data.data() + begin, static_cast<std::size_t>(end - begin), data.data() + data.size(), encoding,
                      unknown, ids);
    id_offsets.push(static_cast<std::int64_t>(ids.size()));
  }
}

void decode(const Vocabulary& vocabulary, std::span<const std::int64_t> ids, std::span<const std::int64_t> offsets,
            std::int32_t unknown, std::optional<std::int64_t> eos, Buffer<std::uint8_t>& text,
            Buffer<std::int64_t>& text_offsets) {
  text_offsets.push(0);
  for (std::size_t row = 0; row + 1 < offsets.size(); ++row) {
    const std::int64_t begin = offsets[row], end = offsets[row + 1];
    check_range(begin, end, ids.size(), row);
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t id = ids[static_cast<std::size_t>(i)];
      if (eos && id == *eos) break;
      const bool known = id >= 0 && static_cast<std::uint64_t>(id) < vocabulary.size();
      const auto word = vocabulary.word(static_cast<std::size_t>(known ? id : unknown));
      std::uint8_t* to = text.room(word.size() + 1);
      std::size_t written = 0;
      if (i > begin) to[written++] = ' ';
      std::memcpy(to + written, word.data(), word.size());
      text.advance(written + word.size());
    }
    text_offsets.push(static_cast<std::int64_t>(text.size()));
  }
}

}  // namespace headrace
