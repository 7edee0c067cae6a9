#include "cntk_order.h"

#include <algorithm>
#include <numeric>
#include <stdexcept>

namespace headrace {

Buffer<std::int64_t> form_chunks(std::span<const std::uint64_t> begins, std::span<const std::uint64_t> ends,
                                 std::uint64_t limit) {
  if (begins.size() != ends.size()) throw std::invalid_argument("begins and ends differ in number");
  Buffer<std::int64_t> chunks;
  std::uint64_t begin = 0, end = 0;
  for (std::size_t i = 0; i < begins.size(); ++i) {
    if (ends[i] < begins[i] || begins[i] < end) throw std::invalid_argument("sequences overlap or run backwards");
    const std::uint64_t size = ends[i] - begins[i];
    // As CNTK adds up: a gap before the sequence does not count, one that is already in the chunk does.
    if (i == 0 || end - begin > limit || size > limit - (end - begin)) {
      chunks.push(static_cast<std::int64_t>(i));
      begin = begins[i];
    }
    end = ends[i];
  }
  chunks.push(static_cast<std::int64_t>(begins.size()));
  return chunks;
}

CntkSweep::CntkSweep(std::span<const std::int64_t> chunks, std::span<const std::uint64_t> samples, CntkWindow window,
                     std::uint64_t seed)
    : random_(seed) {
  if (chunks.empty() || chunks.size() != samples.size() + 1 || samples.size() > (std::size_t{1} << 31)) {
    throw std::invalid_argument("expected the number of samples of each chunk");
  }
  const std::size_t count = samples.size();
  for (std::size_t i = 0; i < count; ++i) {
    if (chunks[i + 1] <= chunks[i] || chunks[0] != 0) throw std::invalid_argument("chunks must ascend from 0");
  }
  // Every draw is from all chunks, as CNTK draws: that is not the shuffle of Fisher and Yates.
  std::vector<std::uint32_t> order(count);
  std::iota(order.begin(), order.end(), 0u);
  std::mt19937_64 random(seed);
  for (std::size_t i = 0; i < count; ++i) std::swap(order[i], order[random() % count]);

  std::vector<std::uint64_t> shuffled(count);
  first_.resize(count);
  starts_.assign(count + 1, 0);
  for (std::size_t i = 0; i < count; ++i) {
    first_[i] = chunks[order[i]];
    starts_[i + 1] = starts_[i] + static_cast<std::uint64_t>(chunks[order[i] + 1] - chunks[order[i]]);
    shuffled[i] = samples[order[i]];
  }
  find_windows(shuffled, window);
}

void CntkSweep::find_windows(std::span<const std::uint64_t> samples, CntkWindow window) {
  const std::size_t n = samples.size();
  begin_.resize(n);
  end_.resize(n);
  const std::uint64_t half = window.size / 2;
  if (!window.in_samples) {
    const std::uint64_t width = std::max<std::uint64_t>(window.size, 1);
    for (std::size_t i = 0; i < n; ++i) {
      std::uint64_t begin = i - std::min<std::uint64_t>(half, i);
      std::uint64_t end = width > n - begin ? n + 1 : begin + width;
      if (end > n) {
        end = n;
        begin = n - std::min<std::uint64_t>(width, n);
      }
      begin_[i] = static_cast<std::uint32_t>(begin);
      end_[i] = static_cast<std::uint32_t>(end);
    }
    return;
  }
  std::vector<std::uint64_t> before(n + 1, 0);
  for (std::size_t i = 0; i < n; ++i) before[i + 1] = before[i] + samples[i];
  std::size_t begin = 0, end = 1;
  for (std::size_t i = 0; i < n; ++i) {
    while (before[i] - before[std::min(begin, i)] > half) ++begin;
    begin = std::min(begin, i);
    end = std::max(end, i + 1);
    while (end < n && before[end + 1] - before[i] < half) ++end;
    begin_[i] = static_cast<std::uint32_t>(begin);
    end_[i] = static_cast<std::uint32_t>(end);
  }
}

// Puts the records of further chunks down in the order of the file.
void CntkSweep::lay_out(std::size_t chunk_end) {
  for (; laid_ < chunk_end; ++laid_) {
    const std::uint64_t size = starts_[laid_ + 1] - starts_[laid_];
    for (std::uint64_t i = 0; i < size; ++i) {
      open_.push_back({first_[laid_] + static_cast<std::int64_t>(i), static_cast<std::uint32_t>(laid_)});
    }
  }
}

// Swaps each record of a chunk with one of its window.
void CntkSweep::shuffle(std::size_t chunk) {
  const std::uint32_t begin = begin_[chunk], end = end_[chunk];
  lay_out(end);
  const std::uint64_t low = starts_[begin], range = starts_[end] - low;
  for (std::uint64_t t = starts_[chunk]; t < starts_[chunk + 1]; ++t) {
    for (;;) {
      const std::uint64_t j = low + random_() % range;
      Record &here = at(t), &there = at(j);
      if (there.home < begin || there.home >= end) continue;
      const auto after = std::upper_bound(starts_.begin() + begin, starts_.begin() + end, j);
      const auto other = static_cast<std::size_t>(after - starts_.begin()) - 1;
      if (here.home < begin_[other] || here.home >= end_[other]) continue;
      std::swap(here, there);
      break;
    }
  }
}

// Goes on until no later swap can reach a chunk.
void CntkSweep::settle(std::size_t chunk) {
  const std::size_t n = first_.size();
  std::size_t reach = end_[chunk];
  while (reach < n && begin_[reach] <= chunk) ++reach;
  for (; shuffled_ < reach; ++shuffled_) shuffle(shuffled_);
  settled_ = chunk + 1;
}

void CntkSweep::next(std::span<std::int64_t> records, std::span<std::int64_t> homes) {
  if (records.size() != homes.size() || records.size() > starts_.back() - position_) {
    throw std::invalid_argument("a sweep has no records behind its end");
  }
  for (std::size_t i = 0; i < records.size(); ++i, ++position_) {
    if (position_ == starts_[chunk_ + 1]) {
      ++chunk_;
    }
    if (settled_ <= chunk_) {
      open_.erase(open_.begin(), open_.begin() + static_cast<std::ptrdiff_t>(starts_[chunk_] - base_));
      base_ = starts_[chunk_];
      settle(chunk_);
    }
    const Record& record = at(position_);
    records[i] = record.number;
    homes[i] = record.home;
  }
}

}  // namespace headrace
