#include "token_table.h"

#include <limits>
#include <stdexcept>

namespace headrace {
namespace {

constexpr std::size_t kFirstSlots = 64;

}  // namespace

TokenTable::TokenTable() {
  slots_.resize(kFirstSlots);
  mask_ = kFirstSlots - 1;
  for (std::size_t i = 0; i < kFirstSlots; ++i) slots_[i] = {0, 0, -1};
  offsets_.push(0);
}

std::pair<std::int32_t, bool> TokenTable::insert(const Key& key) {
  const std::int32_t found = find(key);
  if (found >= 0) return {found, false};
  if (size() >= static_cast<std::size_t>(std::numeric_limits<std::int32_t>::max())) {
    throw std::length_error("more than 2147483647 different tokens");
  }
  if ((size() + 1) * 3 > slots_.size() * 2) grow();
  std::size_t at = key.hash & mask_;
  while (slots_[at].number >= 0) at = (at + 1) & mask_;
  const auto number = static_cast<std::int32_t>(size());
  offsets_.room(1);  // all memory first: a failure leaves the table as it was
  std::uint8_t* to = arena_.room(key.size);
  if (key.size > 0) std::memcpy(to, key.data, key.size);
  arena_.advance(key.size);
  offsets_.push(static_cast<std::int64_t>(arena_.size()));
  slots_[at] = {key.bits, clipped(key.size), number};
  return {number, true};
}

void TokenTable::grow() {
  Buffer<Slot> wider(slots_.size() * 2);
  const std::size_t mask = wider.size() - 1;
  for (std::size_t i = 0; i < wider.size(); ++i) wider[i] = {0, 0, -1};
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    const Slot& slot = slots_[i];
    if (slot.number < 0) continue;
    std::size_t at = (slot.size > 8 ? slot.bits : hash_short(slot.bits, slot.size)) & mask;
    while (wider[at].number >= 0) at = (at + 1) & mask;
    wider[at] = slot;
  }
  slots_.swap(wider);
  mask_ = mask;
}

}  // namespace headrace
