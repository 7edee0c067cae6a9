#include "line_index.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <memory>

#include "parallel.h"

#if defined(__GNUC__) || defined(__clang__)
#define HEADRACE_INLINE [[gnu::always_inline]] inline
#if defined(__x86_64__)
#define HEADRACE_POPCNT 1
#endif
#else
#define HEADRACE_INLINE inline
#endif

namespace headrace {
namespace {

constexpr std::size_t kPiece = 256 * 1024;  // fits a second-level cache
constexpr std::size_t kMaskBlocks = 64;
constexpr std::uint64_t kWorthAThread = 4 << 20;

std::uint32_t clip(std::uint64_t count) {
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(count, std::numeric_limits<std::uint32_t>::max()));
}

}  // namespace

// Token starts are the bits of words whose lower neighbour is no word; a line's tokens are the population
// count between two line ends. So a long line costs a few instructions a block, a short one a few a line.
HEADRACE_INLINE void LineScanner::blocks_body(const std::uint8_t* data, std::size_t size, const std::uint64_t* newline,
                                              const std::uint64_t* separator) {
  std::uint64_t total = total_, settled = settled_, in_word = in_word_;
  for (std::size_t b = 0, done = 0; done < size; ++b, done += kBlock) {
    const std::size_t here = std::min(kBlock, size - done);
    const std::uint64_t valid = here == kBlock ? ~std::uint64_t{0} : (std::uint64_t{1} << here) - 1;
    const std::uint64_t word = ~separator[b] & valid;
    const std::uint64_t begins = word & ~((word << 1) | in_word);
    in_word = word >> 63;
    std::uint64_t ends = newline[b] & valid;
    if (ends != 0) {
      const auto count = static_cast<std::size_t>(std::popcount(ends));
      std::uint64_t* starts_out = next_starts.room(count);
      std::uint32_t* tokens_out = tokens.room(count);
      next_starts.advance(count);
      tokens.advance(count);
      for (; ends != 0; ends &= ends - 1) {
        const int bit = std::countr_zero(ends);
        const std::uint64_t upto =
            total + static_cast<std::uint64_t>(std::popcount(begins & ((std::uint64_t{1} << bit) - 1)));
        std::uint64_t line = upto - settled;
        if (strip_cr_) {
          const bool lone =
              bit == 0 ? lone_cr_
                       : ((begins >> (bit - 1)) & 1) != 0 && data[done + static_cast<std::size_t>(bit) - 1] == '\r';
          line -= lone ? 1 : 0;
        }
        settled = upto;
        *tokens_out++ = clip(line);
        *starts_out++ = position_ + done + static_cast<std::size_t>(bit) + 1;
      }
    }
    lone_cr_ = (begins >> 63) != 0 && data[done + kBlock - 1] == '\r';
    total += static_cast<std::uint64_t>(std::popcount(begins));
  }
  total_ = total;
  settled_ = settled;
  in_word_ = in_word;
}

void LineScanner::blocks(const std::uint8_t* data, std::size_t size, const std::uint64_t* newline,
                         const std::uint64_t* separator) {
  blocks_body(data, size, newline, separator);
}

#ifdef HEADRACE_POPCNT
[[gnu::target("popcnt,bmi")]] void LineScanner::blocks_popcnt(const std::uint8_t* data, std::size_t size,
                                                              const std::uint64_t* newline,
                                                              const std::uint64_t* separator) {
  blocks_body(data, size, newline, separator);
}
#else
void LineScanner::blocks_popcnt(const std::uint8_t* data, std::size_t size, const std::uint64_t* newline,
                                const std::uint64_t* separator) {
  blocks_body(data, size, newline, separator);
}
#endif

void LineScanner::feed(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return;
#ifdef HEADRACE_POPCNT
  popcnt_ = __builtin_cpu_supports("popcnt") && __builtin_cpu_supports("bmi");
#endif
  std::uint64_t newline[kMaskBlocks], separator[kMaskBlocks];
  for (std::size_t done = 0; done < size;) {
    const std::size_t here = std::min(size - done, kMaskBlocks * kBlock);
    const std::uint8_t* from = data + done;
    in_blocks(from, here, [&](const std::uint8_t* bytes, std::size_t blocks, std::size_t first) {
      byte_masks(bytes, blocks, separators_, newline + first, separator + first);
    });
    if (popcnt_) {
      blocks_popcnt(from, here, newline, separator);
    } else {
      blocks(from, here, newline, separator);
    }
    position_ += here;
    done += here;
  }
  line_open_ = data[size - 1] != '\n';
}

void LineScanner::finish() {
  if (!line_open_) return;
  tokens.push(clip(total_ - settled_));
  next_starts.push(position_ + 1);
  settled_ = total_;
  line_open_ = false;
}

std::size_t useful_parts(const FileBytes& file, unsigned threads) {
  return static_cast<std::size_t>(
      std::clamp<std::uint64_t>(file.size() / kWorthAThread, 1, threads_or_default(threads)));
}

std::vector<std::uint64_t> split_at_lines(const FileBytes& file, std::size_t parts) {
  const std::uint64_t size = file.size();
  std::vector<std::uint64_t> cuts{0};
  std::unique_ptr<std::uint8_t[]> scratch;
  for (std::size_t i = 1; i < parts; ++i) {
    std::uint64_t at = std::max(size / parts * i, cuts.back() + 1);
    if (!scratch) scratch = std::make_unique_for_overwrite<std::uint8_t[]>(kPiece);
    for (--at; at < size;) {  // from one byte before, as a '\n' there makes the nominal place a line start
      const auto count = static_cast<std::size_t>(std::min<std::uint64_t>(kPiece, size - at));
      const std::uint8_t* piece = file.read(at, count, scratch.get());
      const auto* end = static_cast<const std::uint8_t*>(std::memchr(piece, '\n', count));
      if (end != nullptr) {
        at += static_cast<std::uint64_t>(end - piece) + 1;
        break;
      }
      at += count;
    }
    if (at >= size) break;
    cuts.push_back(at);
  }
  if (size > 0) cuts.push_back(size);
  return cuts;
}

LineIndex build_line_index(const FileBytes& file, const Separators& separators, unsigned threads) {
  file.check_unchanged();
  const auto cuts = split_at_lines(file, useful_parts(file, threads));
  const std::size_t parts = cuts.size() - 1;
  std::vector<LineScanner> scanners;
  for (std::size_t i = 0; i < parts; ++i) scanners.emplace_back(separators, cuts[i]);
  LineIndex index;
  if (parts == 0) {
    index.starts.push(0);
    return index;
  }
  scanners[0].next_starts.push(0);  // the first line's own start
  run_parts(parts, [&](std::size_t i) {
    LineScanner& scanner = scanners[i];
    const auto scratch = std::make_unique_for_overwrite<std::uint8_t[]>(kPiece);
    for (std::uint64_t at = cuts[i]; at < cuts[i + 1];) {
      const auto count = static_cast<std::size_t>(std::min<std::uint64_t>(kPiece, cuts[i + 1] - at));
      scanner.feed(file.read(at, count, scratch.get()), count);
      at += count;
    }
    scanner.finish();
  });
  file.check_unchanged();
  if (parts == 1) return {std::move(scanners[0].next_starts), std::move(scanners[0].tokens)};

  std::vector<std::size_t> first{0};  // line of each part
  for (const auto& scanner : scanners) first.push_back(first.back() + scanner.tokens.size());
  index.starts.resize(first.back() + 1);
  index.tokens.resize(first.back());
  run_parts(parts, [&](std::size_t i) {
    const LineScanner& scanner = scanners[i];
    std::uint64_t* starts = index.starts.data() + first[i] + (i == 0 ? 0 : 1);
    std::memcpy(starts, scanner.next_starts.data(), scanner.next_starts.size() * sizeof(std::uint64_t));
    std::memcpy(index.tokens.data() + first[i], scanner.tokens.data(), scanner.tokens.size() * sizeof(std::uint32_t));
  });
  return index;
}

std::uint64_t count_line_feeds(const FileBytes& file, std::uint64_t begin, std::uint64_t end) {
  const auto scratch = std::make_unique_for_overwrite<std::uint8_t[]>(kPiece);
  std::uint64_t count = 0;
  for (std::uint64_t at = begin; at < end;) {
    const auto size = static_cast<std::size_t>(std::min<std::uint64_t>(kPiece, end - at));
    const std::uint8_t* piece = file.read(at, size, scratch.get());
    count += static_cast<std::uint64_t>(std::count(piece, piece + size, '\n'));
    at += size;
  }
  return count;
}

}  // namespace headrace
