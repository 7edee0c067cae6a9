// Where the lines of a text file begin, and how many tokens each has: found in one pass at memory speed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "buffer.h"
#include "byte_masks.h"
#include "file_bytes.h"

namespace headrace {

// A line ends at '\n', and the last one also at the end of the bytes. A CR directly before the '\n' is not
// part of the line, any other byte (NUL, a lone CR) is. Bytes that end in '\n' have no empty line after it.
struct LineIndex {
  // Line i is the bytes [starts[i], starts[i + 1] - 1), less a CR before '\n'. One entry more than lines;
  // the last is the size of the bytes, or size + 1 where the last line has no '\n'.
  Buffer<std::uint64_t> starts;
  // Tokens a line; counts beyond 32 bits stay at the largest number.
  Buffer<std::uint32_t> tokens;

  std::size_t lines() const { return tokens.size(); }
};

// Indexes a whole file on `threads` threads (0: as many as are useful).
LineIndex build_line_index(const FileBytes& file, const Separators& separators, unsigned threads);

// Cuts a file into at most `parts` ranges that begin at line starts. Returns the cuts, first 0, last size.
std::vector<std::uint64_t> split_at_lines(const FileBytes& file, std::size_t parts);

// The number of ranges worth a thread each.
std::size_t useful_parts(const FileBytes& file, unsigned threads);

// Line feeds in the bytes [begin, end) of a file.
std::uint64_t count_line_feeds(const FileBytes& file, std::uint64_t begin, std::uint64_t end);

// Indexes bytes that come in pieces.
class LineScanner {
 public:
  // `base` is the offset of the first byte in its file. It must be the start of a line.
  LineScanner(const Separators& separators, std::uint64_t base)
      : separators_(separators), strip_cr_(!separators.contains('\r')), position_(base) {}

  // The next piece. Its size must be a multiple of kBlock, but for the last one's.
  void feed(const std::uint8_t* data, std::size_t size);
  // The end of the bytes: completes a line without '\n'.
  void finish();

  // For each line the start of the next, and its tokens.
  Buffer<std::uint64_t> next_starts;
  Buffer<std::uint32_t> tokens;

 private:
  void blocks(const std::uint8_t* data, std::size_t size, const std::uint64_t* newline, const std::uint64_t* separator);
  void blocks_popcnt(const std::uint8_t* data, std::size_t size, const std::uint64_t* newline,
                     const std::uint64_t* separator);
  void blocks_body(const std::uint8_t* data, std::size_t size, const std::uint64_t* newline,
                   const std::uint64_t* separator);

  Separators separators_;
  bool strip_cr_;  // CR is no separator, so "\r\n" must not count it as a token
  bool popcnt_ = false;
  std::uint64_t position_;     // of the next byte
  std::uint64_t total_ = 0;    // tokens begun before position_
  std::uint64_t settled_ = 0;  // tokens of the lines that are complete
  std::uint64_t in_word_ = 0;  // 1 when the byte before position_ belongs to a token
  bool lone_cr_ = false;       // the byte before position_ is a CR that begins a token
  bool line_open_ = false;     // bytes have come since the last line end
};

}  // namespace headrace
