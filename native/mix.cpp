#include "mix.h"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "random.h"

namespace headrace {
namespace {

constexpr std::int64_t kMaxCell = 4096;

std::size_t index(std::int64_t i) { return static_cast<std::size_t>(i); }

void check(const MixPattern& pattern, std::int64_t cell) {
  if (cell < 1 || cell > kMaxCell)
    throw std::invalid_argument("a cell has 1 to 4096 positions, got " + std::to_string(cell));
  if (pattern.choice.empty() || pattern.choice.size() != pattern.rank.size())
    throw std::invalid_argument("a pattern needs as many ranks as choices, and at least one");
  for (const std::int32_t plan : pattern.choice)
    if (plan < 0 || index(plan) >= pattern.counts.size())
      throw std::invalid_argument("the pattern names plan " + std::to_string(plan) + " of " +
                                  std::to_string(pattern.counts.size()));
}

// The choices and records of one cell, kept while neighbouring positions ask for them.
class Cell {
 public:
  Cell(const MixPattern& pattern, std::uint64_t seed, std::int64_t cell, std::int64_t n)
      : pattern_(pattern), seed_(seed), cell_(cell), n_(n), next_(pattern.counts.size()) {}

  bool holds(std::int64_t position, std::int64_t epoch) const {
    return position >= begin_ && position - begin_ < size_ && epoch == epoch_;
  }

  void load(std::int64_t position, std::int64_t epoch) {
    const std::int64_t number = position / cell_;
    begin_ = number * cell_;
    size_ = std::min(cell_, n_ - begin_);
    epoch_ = epoch;
    const std::size_t size = index(size_);
    plan_.resize(size);
    choice_.resize(size);
    record_.resize(size);
    place_.resize(size);
    shuffle_places(epoch, number);
    // What the pattern says for each place, without a division a place.
    const std::size_t length = pattern_.choice.size();
    std::size_t x = index(begin_) % length;
    std::int64_t turn = begin_ / static_cast<std::int64_t>(length);
    for (std::size_t i = 0; i < size; ++i) {
      plan_[i] = pattern_.choice[x];
      record_[i] = turn * pattern_.counts[index(plan_[i])] + pattern_.rank[x];
      if (++x == length) {
        x = 0;
        ++turn;
      }
    }
    // From the last place to the first, so that next_ ends up with each plan's first record in the cell.
    for (std::size_t i = size; i-- > 0;) next_[index(plan_[i])] = record_[i];
    for (std::size_t i = 0; i < size; ++i) {
      const std::int32_t plan = plan_[index(place_[i])];
      choice_[i] = plan;
      record_[i] = next_[index(plan)]++;
    }
  }

  std::int32_t choice(std::int64_t position) const { return choice_[index(position - begin_)]; }
  std::int64_t record(std::int64_t position) const { return record_[index(position - begin_)]; }

 private:
  // Cells are small, and a whole one is needed to know how many records of a plan come first, so they are shuffled by
  // swaps.
  void shuffle_places(std::int64_t epoch, std::int64_t number) {
    std::iota(place_.begin(), place_.end(), std::int32_t{0});
    SplitMix random(absorb(absorb(seed_, static_cast<std::uint64_t>(epoch)), static_cast<std::uint64_t>(number)));
    for (std::size_t i = place_.size(); i-- > 1;)
      std::swap(place_[i], place_[random.below(static_cast<std::uint32_t>(i + 1))]);
  }

  const MixPattern& pattern_;
  std::uint64_t seed_;
  std::int64_t cell_;
  std::int64_t n_;
  std::int64_t begin_ = 0;
  std::int64_t size_ = 0;  // nothing loaded yet
  std::int64_t epoch_ = 0;
  std::vector<std::int64_t> next_;
  std::vector<std::int32_t> place_;   // by position
  std::vector<std::int32_t> plan_;    // by place in the pattern
  std::vector<std::int32_t> choice_;  // by position
  std::vector<std::int64_t> record_;
};

}  // namespace

void mix_locate(const MixPattern& pattern, std::uint64_t seed, std::span<const std::int64_t> epochs, std::int64_t cell,
                std::int64_t n, std::span<const std::int64_t> positions, std::span<std::int32_t> choice,
                std::span<std::int64_t> record) {
  check(pattern, cell);
  const auto length = static_cast<std::int64_t>(pattern.choice.size());
  Cell current(pattern, seed, cell, n);
  for (std::size_t i = 0; i < positions.size(); ++i) {
    const std::int64_t position = positions[i];
    if (position < 0 || position >= n)
      throw std::out_of_range("position " + std::to_string(position) + " is outside [0, " + std::to_string(n) + ")");
    if (cell == 1) {
      const std::size_t x = index(position % length);
      choice[i] = pattern.choice[x];
      record[i] = position / length * pattern.counts[index(pattern.choice[x])] + pattern.rank[x];
      continue;
    }
    const std::int64_t epoch = epochs[epochs.size() == 1 ? 0 : i];
    if (!current.holds(position, epoch)) current.load(position, epoch);
    choice[i] = current.choice(position);
    record[i] = current.record(position);
  }
}

}  // namespace headrace
