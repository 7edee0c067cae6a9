// Cuts bytes into tokens at separators, without copying.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "byte_masks.h"

namespace headrace {

// Calls token(pointer, size) -> bool for each run of bytes without separators in [data, data + size), until
// one call returns false. `readable_end` >= data + size bounds what may be read, which lets whole blocks be
// loaded. Returns whether a '\n' was met, in the part that was looked at.
template <class Token>
bool for_each_token(const std::uint8_t* data, std::size_t size, const std::uint8_t* readable_end,
                    const Separators& separators, Token&& token) {
  constexpr std::size_t kMaskBlocks = 16;
  std::uint64_t newline[kMaskBlocks], separator[kMaskBlocks];
  std::uint64_t in_word = 0;
  const std::uint8_t* open = nullptr;  // start of a token that goes on over the end of a block
  bool line_feed = false;
  for (std::size_t at = 0; at < size;) {
    const std::size_t here = std::min(size - at, kMaskBlocks * kBlock);
    const std::uint8_t* base = data + at;
    const std::size_t needed = (here + kBlock - 1) / kBlock;
    const std::size_t whole = std::min(needed, static_cast<std::size_t>(readable_end - base) / kBlock);
    byte_masks(base, whole, separators, newline, separator);
    if (whole < needed) {
      std::uint8_t last[kBlock] = {};
      std::memcpy(last, base + whole * kBlock, here - whole * kBlock);
      byte_masks(last, 1, separators, newline + whole, separator + whole);
    }
    for (std::size_t b = 0; b < needed; ++b) {
      const std::size_t left = here - b * kBlock;
      const std::uint64_t valid = left >= kBlock ? ~std::uint64_t{0} : (std::uint64_t{1} << left) - 1;
      const std::uint64_t word = ~separator[b] & valid;
      const std::uint64_t before = (word << 1) | in_word;
      std::uint64_t begins = word & ~before;
      std::uint64_t ends = ~word & before;
      in_word = word >> 63;
      line_feed |= (newline[b] & valid) != 0;
      const std::uint8_t* block = base + b * kBlock;
      if (open != nullptr) {
        if (ends == 0) continue;
        const std::uint8_t* end = block + std::countr_zero(ends);
        ends &= ends - 1;
        if (!token(open, static_cast<std::size_t>(end - open))) return line_feed;
        open = nullptr;
      }
      for (; begins != 0; begins &= begins - 1) {
        const std::uint8_t* begin = block + std::countr_zero(begins);
        if (ends == 0) {
          open = begin;
          break;
        }
        const std::uint8_t* end = block + std::countr_zero(ends);
        ends &= ends - 1;
        if (!token(begin, static_cast<std::size_t>(end - begin))) return line_feed;
      }
    }
    at += here;
  }
  if (open != nullptr) token(open, static_cast<std::size_t>(data + size - open));
  return line_feed;
}

}  // namespace headrace
