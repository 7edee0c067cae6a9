// Which bytes of a block are line ends, and which separate tokens: one bit a byte, by vector instructions.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace headrace {

// The set of bytes that separate tokens. A line feed always does. ASCII only, so no UTF-8 character is cut.
class Separators {
 public:
  // Blank, tab, CR, VT, FF (and LF): what Python's bytes.split() splits on.
  Separators() : Separators(std::string_view(" \t\r\v\f")) {}
  // Each byte of `bytes` separates. Throws std::invalid_argument when empty or not ASCII.
  explicit Separators(std::string_view bytes);

  bool contains(std::uint8_t byte) const { return byte < 128 && ((low_[byte & 15] >> (byte >> 4)) & 1) != 0; }
  // For each low half of a byte, the set of high halves (0 to 7) with which it is a separator.
  const std::array<std::uint8_t, 16>& low() const { return low_; }

 private:
  std::array<std::uint8_t, 16> low_{};
};

inline constexpr std::size_t kBlock = 64;

// For `blocks` times 64 bytes: bit i of newline[b] tells whether byte 64 b + i is '\n', and of
// separator[b] whether it is in `separators`. Reads exactly 64 * blocks bytes.
void byte_masks(const std::uint8_t* data, std::size_t blocks, const Separators& separators, std::uint64_t* newline,
                std::uint64_t* separator);

// The same without vector instructions chosen at run time; for tests and other processors.
void byte_masks_portable(const std::uint8_t* data, std::size_t blocks, const Separators& separators,
                         std::uint64_t* newline, std::uint64_t* separator);

// Bit i of mask[b] tells whether byte 64 b + i is `byte`. Reads exactly 64 * blocks bytes.
void equal_masks(const std::uint8_t* data, std::size_t blocks, std::uint8_t byte, std::uint64_t* mask);
void equal_masks_portable(const std::uint8_t* data, std::size_t blocks, std::uint8_t byte, std::uint64_t* mask);

// Calls masks_of(data, blocks, first) for the whole blocks of `size` bytes, where `first` is the number of their first
// mask, and once more for the rest, if there is one: a block of its own with zeros behind. Reads exactly `size` bytes.
template <class MasksOf>
void in_blocks(const std::uint8_t* data, std::size_t size, MasksOf masks_of) {
  const std::size_t whole = size / kBlock, rest = size % kBlock;
  masks_of(data, whole, std::size_t{0});
  if (rest == 0) return;
  std::uint8_t last[kBlock] = {};
  std::memcpy(last, data + whole * kBlock, rest);
  masks_of(last, std::size_t{1}, whole);
}

}  // namespace headrace
