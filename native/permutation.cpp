#include "permutation.h"

#include <algorithm>
#include <bit>
#include <stdexcept>
#include <string>

#include "random.h"

#if defined(__x86_64__) && (defined(__GNUC__) || defined(__clang__))
#define HEADRACE_X86_DISPATCH
#endif
#if defined(__GNUC__) || defined(__clang__)
#define HEADRACE_INLINE [[gnu::always_inline]] inline
#else
#define HEADRACE_INLINE inline
#endif

namespace headrace {
namespace {

constexpr std::uint32_t kSpread = 0x9e3779b1;            // a prime near 2^32 divided by the golden ratio
constexpr std::uint64_t kVersion1 = 0x6864726365703031;  // "hdrcep01" in ASCII
constexpr int kMinBits = 8;
constexpr std::size_t kBlock = 256;  // positions that are worked on together; their halves stay in the L1 cache

// Plain loops over 32-bit lanes, which compilers turn into vector instructions. Always inlined, so that they
// are compiled again for each instruction set below.
HEADRACE_INLINE void change(std::uint32_t* half, const std::uint32_t* other, std::size_t count, PermutationRound round,
                            int bits) {
  // half ^= F(other), with F a keyed function to `bits` bits
  for (std::size_t i = 0; i < count; ++i) {
    std::uint32_t t = (other[i] + round.add) * round.multiply;
    t = (t ^ (t >> 15)) * kSpread;
    half[i] ^= t >> (32 - bits);
  }
}

HEADRACE_INLINE void encrypt_block(std::uint64_t* x, std::size_t count, std::uint64_t offset, std::uint64_t mask,
                                   int high_bits, int low_bits, std::span<const PermutationRound> rounds) {
  std::array<std::uint32_t, kBlock> high;
  std::array<std::uint32_t, kBlock> low;
  const auto low_mask = static_cast<std::uint32_t>(mask >> high_bits);
  for (std::size_t i = 0; i < count; ++i) {
    // The rounds alone are even permutations of the domain; the addition makes half of the keys odd ones.
    const std::uint64_t y = (x[i] + offset) & mask;
    high[i] = static_cast<std::uint32_t>(y >> low_bits);
    low[i] = static_cast<std::uint32_t>(y) & low_mask;
  }
  for (std::size_t r = 0; r < rounds.size(); r += 2) {
    change(high.data(), low.data(), count, rounds[r], high_bits);
    change(low.data(), high.data(), count, rounds[r + 1], low_bits);
  }
  for (std::size_t i = 0; i < count; ++i) x[i] = std::uint64_t{high[i]} << low_bits | low[i];
}

#ifdef HEADRACE_X86_DISPATCH
[[gnu::target("avx2")]] void encrypt_avx2(std::uint64_t* x, std::size_t count, std::uint64_t offset, std::uint64_t mask,
                                          int high_bits, int low_bits, std::span<const PermutationRound> rounds) {
  encrypt_block(x, count, offset, mask, high_bits, low_bits, rounds);
}
#endif

}  // namespace

Permutation::Permutation(const PermutationKey& key, std::uint64_t n) : n_(n) {
  if (n > kMaxSize) throw std::length_error("a permutation has at most 2^48 positions, got " + std::to_string(n));
  // At least 2^8, because a network over fewer bits has too few different functions to look random.
  const int bits = std::max(kMinBits, n < 2 ? 0 : static_cast<int>(std::bit_width(n - 1)));
  low_bits_ = bits / 2;
  high_bits_ = bits - low_bits_;
  mask_ = (std::uint64_t{1} << bits) - 1;

  std::uint64_t state = kVersion1;
  for (const std::uint64_t word : {key.seed, key.epoch, key.stream, n}) state = absorb(state, word);
  SplitMix keys(state);
  offset_ = keys.next();
  for (PermutationRound& round : rounds_) {
    const std::uint64_t word = keys.next();
    round.add = static_cast<std::uint32_t>(word >> 32);
    round.multiply = static_cast<std::uint32_t>(word) | 1;
  }
}

std::uint64_t Permutation::encrypt(std::uint64_t x) const {
  encrypt(&x, 1);
  return x;
}

void Permutation::encrypt(std::uint64_t* x, std::size_t count) const {
#ifdef HEADRACE_X86_DISPATCH
  if (count >= 8 && __builtin_cpu_supports("avx2"))
    return encrypt_avx2(x, count, offset_, mask_, high_bits_, low_bits_, rounds_);
#endif
  encrypt_block(x, count, offset_, mask_, high_bits_, low_bits_, rounds_);
}

std::uint64_t Permutation::operator()(std::uint64_t position) const {
  // Walking along the cycle of the larger domain until it comes back below n permutes [0, n) itself. The
  // domain is less than twice n (for n > 128), so fewer than two steps are needed on average.
  do position = encrypt(position);
  while (position >= n_);
  return position;
}

void Permutation::apply(std::span<const std::int64_t> positions, std::int64_t base, std::span<std::int64_t> out) const {
  std::array<std::uint64_t, kBlock> value;
  std::array<std::uint32_t, kBlock> slot;
  for (std::size_t start = 0; start < positions.size(); start += kBlock) {
    std::size_t count = std::min(kBlock, positions.size() - start);
    const auto to = out.subspan(start, count);
    for (std::size_t i = 0; i < count; ++i) {
      value[i] = static_cast<std::uint64_t>(positions[start + i] - base);
      slot[i] = static_cast<std::uint32_t>(i);
    }
    while (count > 0) {
      encrypt(value.data(), count);
      // Those that fell outside are gathered and walk on together: a branch a value would often be
      // mispredicted.
      std::size_t outside = 0;
      for (std::size_t i = 0; i < count; ++i) {
        const std::uint64_t x = value[i];
        const std::uint32_t where = slot[i];
        to[where] = static_cast<std::int64_t>(x) + base;
        value[outside] = x;
        slot[outside] = where;
        outside += x >= n_;
      }
      count = outside;
    }
  }
}

void check_positions(std::span<const std::int64_t> positions, std::uint64_t n) {
  for (const std::int64_t position : positions)
    if (static_cast<std::uint64_t>(position) >= n)  // negative ones become huge
      throw std::out_of_range("position " + std::to_string(position) + " is outside [0, " + std::to_string(n) + ")");
}

void permute_windows(std::uint64_t seed, std::span<const std::int64_t> epochs, std::uint64_t window, std::uint64_t n,
                     std::span<const std::int64_t> positions, std::span<std::int64_t> out) {
  if (window == 0 || window > Permutation::kMaxSize)
    throw std::length_error("a window has between 1 and 2^48 positions, got " + std::to_string(window));
  const bool one_epoch = epochs.size() == 1;
  std::size_t start = 0;
  while (start < positions.size()) {
    check_positions(positions.subspan(start, 1), n);
    const auto first = static_cast<std::uint64_t>(positions[start]);
    const std::uint64_t number = first / window;
    const std::uint64_t begin = number * window;
    const std::uint64_t size = std::min(window, n - begin);
    const std::int64_t epoch = epochs[one_epoch ? 0 : start];
    // Neighbours that share window and epoch share the keys, which cost as much as some positions do.
    std::size_t stop = start + 1;
    while (stop < positions.size() && static_cast<std::uint64_t>(positions[stop]) - begin < size &&
           (one_epoch || epochs[stop] == epoch))
      ++stop;
    const Permutation permutation({seed, static_cast<std::uint64_t>(epoch), number}, size);
    permutation.apply(positions.subspan(start, stop - start), static_cast<std::int64_t>(begin),
                      out.subspan(start, stop - start));
    start = stop;
  }
}

}  // namespace headrace
