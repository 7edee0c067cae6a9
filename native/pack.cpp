#include "pack.h"

#include <algorithm>
#include <cstddef>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace headrace {
namespace {

void check(std::span<const std::int32_t> lengths, std::int64_t capacity) {
  if (capacity < 1) throw std::invalid_argument("the capacity must be at least 1, got " + std::to_string(capacity));
  for (std::size_t i = 0; i < lengths.size(); ++i)
    if (lengths[i] < 0 || lengths[i] > capacity)
      throw std::invalid_argument("piece " + std::to_string(i) + " has a length of " + std::to_string(lengths[i]) +
                                  ", expected one in [0, " + std::to_string(capacity) + "]");
}

// The room in each bin, and above each pair of neighbours the larger of the two, so that the first bin with enough room
// is found by going down from the root. Bins that aren't opened yet have all their room.
class Rooms {
 public:
  explicit Rooms(std::int64_t capacity) : capacity_(capacity), leaves_(64), room_(2 * leaves_, capacity) {}

  std::size_t first_with(std::int64_t length) {
    if (room_[1] < length) grow();
    std::size_t node = 1;
    while (node < leaves_) node = 2 * node + (room_[2 * node] < length ? 1 : 0);
    return node - leaves_;
  }

  void take(std::size_t bin, std::int64_t length) {
    std::size_t node = bin + leaves_;
    room_[node] -= length;
    for (node /= 2; node > 0; node /= 2) {
      const std::int64_t larger = std::max(room_[2 * node], room_[2 * node + 1]);
      if (room_[node] == larger) break;
      room_[node] = larger;
    }
  }

 private:
  void grow() {
    std::vector<std::int64_t> larger(4 * leaves_, capacity_);
    std::copy(room_.begin() + static_cast<std::ptrdiff_t>(leaves_), room_.end(),
              larger.begin() + static_cast<std::ptrdiff_t>(2 * leaves_));
    leaves_ *= 2;
    for (std::size_t node = leaves_; node-- > 1;) larger[node] = std::max(larger[2 * node], larger[2 * node + 1]);
    room_ = std::move(larger);
  }

  std::int64_t capacity_;
  std::size_t leaves_;
  std::vector<std::int64_t> room_;
};

}  // namespace

Buffer<std::int64_t> pack_first_fit(std::span<const std::int32_t> lengths, std::int64_t capacity) {
  check(lengths, capacity);
  Buffer<std::int64_t> bins(lengths.size());
  Rooms rooms(capacity);
  std::int64_t last = 0;
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    if (lengths[i] > 0) {
      const std::size_t bin = rooms.first_with(lengths[i]);
      rooms.take(bin, lengths[i]);
      last = static_cast<std::int64_t>(bin);
    }
    bins[i] = last;
  }
  return bins;
}

Buffer<std::int64_t> pack_best_fit(std::span<const std::int32_t> lengths, std::int64_t capacity) {
  check(lengths, capacity);
  Buffer<std::int64_t> bins(lengths.size());
  std::set<std::pair<std::int64_t, std::int64_t>> open;  // room and number of each bin that isn't full
  std::int64_t opened = 0;
  std::int64_t last = 0;
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    const std::int64_t length = lengths[i];
    if (length > 0) {
      std::int64_t room = capacity;
      const auto found = open.lower_bound({length, -1});
      if (found == open.end()) {
        last = opened++;
      } else {
        room = found->first;
        last = found->second;
        open.erase(found);
      }
      if (room > length) open.emplace(room - length, last);
    }
    bins[i] = last;
  }
  return bins;
}

}  // namespace headrace
