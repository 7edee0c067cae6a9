// The hash and the generator from which the orders of this folder are made (docs/specs/permutation.md).
#pragma once

#include <cstdint>

namespace headrace {

inline constexpr std::uint64_t kGolden = 0x9e3779b97f4a7c15;  // 2^64 divided by the golden ratio

// The finaliser of splitmix64: a bijection in which every bit of the input reaches every bit of the result.
inline std::uint64_t mix64(std::uint64_t z) {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

// Takes one more word into a hash.
inline std::uint64_t absorb(std::uint64_t hash, std::uint64_t word) { return mix64((hash ^ word) + kGolden); }

// The generator splitmix64.
class SplitMix {
 public:
  explicit SplitMix(std::uint64_t state) : state_(state) {}

  std::uint64_t next() { return mix64(state_ += kGolden); }

  // A number in [0, bound), uniform to within bound / 2^32.
  std::uint32_t below(std::uint32_t bound) { return static_cast<std::uint32_t>((next() >> 32) * bound >> 32); }

 private:
  std::uint64_t state_;
};

}  // namespace headrace
