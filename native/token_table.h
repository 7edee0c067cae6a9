// Tokens and their numbers: an open-addressing hash table over an arena of bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <utility>

#include "buffer.h"
#include "hash.h"

namespace headrace {

// Numbers tokens from 0 in the order in which they are first inserted. Reading is safe from many threads.
class TokenTable {
 public:
  // What identifies a token in the table: its bytes where at most eight, else their hash.
  struct Key {
    std::uint64_t bits;
    std::uint64_t hash;
    const std::uint8_t* data;
    std::size_t size;
  };

  TokenTable();

  // `readable_end` >= data + size bounds what may be read, so that short tokens load in one instruction.
  static Key make_key(const std::uint8_t* data, std::size_t size, const std::uint8_t* readable_end) {
    if (size > 8) {
      const std::uint64_t hash = hash_bytes(data, size);
      return {hash, hash, data, size};
    }
    std::uint64_t bits;
    if (readable_end - data >= 8 && size > 0) {
      bits = load64(data) & (~std::uint64_t{0} >> (64 - 8 * size));
    } else {
      bits = load_short(data, size);
    }
    return {bits, hash_short(bits, size), data, size};
  }

  void prefetch(const Key& key) const {
#if defined(__GNUC__) || defined(__clang__)
    __builtin_prefetch(&slots_[key.hash & mask_]);
#else
    (void)key;
#endif
  }

  // The token's number, or -1.
  std::int32_t find(const Key& key) const {
    for (std::size_t at = key.hash & mask_;; at = (at + 1) & mask_) {
      const Slot& slot = slots_[at];
      if (slot.number < 0) return -1;
      if (slot.bits == key.bits && slot.size == clipped(key.size) && same(slot, key)) return slot.number;
    }
  }

  // The token's number, and whether it is new. Throws std::length_error beyond 2^31 - 1 tokens.
  std::pair<std::int32_t, bool> insert(const Key& key);

  std::size_t size() const { return offsets_.size() - 1; }
  // The bytes of a token; `number` must be in [0, size()).
  std::span<const std::uint8_t> token(std::size_t number) const {
    return {arena_.data() + offsets_[number], static_cast<std::size_t>(offsets_[number + 1] - offsets_[number])};
  }
  // Bytes of all tokens together.
  std::size_t bytes() const { return static_cast<std::size_t>(offsets_[size()]); }

 private:
  struct Slot {
    std::uint64_t bits;
    std::uint32_t size;
    std::int32_t number;  // -1: empty
  };

  static std::uint32_t clipped(std::size_t size) {
    return size > 0xffffffff ? 0xffffffff : static_cast<std::uint32_t>(size);
  }
  // Given equal bits and clipped sizes, short tokens are equal; long ones may only share their hash.
  bool same(const Slot& slot, const Key& key) const {
    if (key.size <= 8) return true;
    const auto stored = token(static_cast<std::size_t>(slot.number));
    return stored.size() == key.size && std::memcmp(stored.data(), key.data, key.size) == 0;
  }
  void grow();

  Buffer<Slot> slots_;  // a power of two, at most two thirds full
  std::size_t mask_ = 0;
  Buffer<std::uint8_t> arena_;
  Buffer<std::int64_t> offsets_;
};

}  // namespace headrace
