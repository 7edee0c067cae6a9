// Seeded permutations of [0, n) with O(1) memory and O(1) access to any position.
//
// The algorithm is a promise to users ("permutation, version 1", docs/specs/permutation.md): the same key
// gives the same order for ever, on every machine. A change needs a new version beside this one, never
// instead of it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace headrace {

// What selects one permutation. The stream tells apart the permutations of one epoch, such as those of its
// windows.
struct PermutationKey {
  std::uint64_t seed;
  std::uint64_t epoch;
  std::uint64_t stream;
};

// The key of one round.
struct PermutationRound {
  std::uint32_t add;
  std::uint32_t multiply;
};

class Permutation {
 public:
  static constexpr std::uint64_t kMaxSize = std::uint64_t{1} << 48;
  static constexpr int kRounds = 8;

  // n must be at most kMaxSize (throws std::length_error).
  Permutation(const PermutationKey& key, std::uint64_t n);

  std::uint64_t size() const { return n_; }

  // The value at a position below size().
  std::uint64_t operator()(std::uint64_t position) const;

  // out[i] = (*this)(positions[i] - base) + base, in bulk. Positions must be in [base, base + size()).
  void apply(std::span<const std::int64_t> positions, std::int64_t base, std::span<std::int64_t> out) const;

 private:
  std::uint64_t encrypt(std::uint64_t x) const;
  void encrypt(std::uint64_t* x, std::size_t count) const;

  std::uint64_t n_;
  std::uint64_t offset_ = 0;
  std::uint64_t mask_ = 0;
  int high_bits_ = 0;
  int low_bits_ = 0;
  std::array<PermutationRound, kRounds> rounds_{};
};

// Throws std::out_of_range if a position is outside [0, n).
void check_positions(std::span<const std::int64_t> positions, std::uint64_t n);

// Cuts [0, n) into windows of `window` positions (the last may be shorter), each permuted in itself with its
// own number as stream. out[i] is the value at positions[i] in epoch epochs[i], or epochs[0] if there is only
// one. Throws std::out_of_range for a position outside [0, n), std::length_error for a window that is 0 or
// too large.
void permute_windows(std::uint64_t seed, std::span<const std::int64_t> epochs, std::uint64_t window, std::uint64_t n,
                     std::span<const std::int64_t> positions, std::span<std::int64_t> out);

}  // namespace headrace
