#include "example.h"

#include <algorithm>
#include <bit>
#include <stdexcept>
#include <unordered_map>

#include "hash.h"
#include "wire.h"

namespace headrace {
namespace {

const char* name_of(ExampleKind kind) {
  constexpr const char* names[] = {"no", "a bytes", "a float", "an int64"};
  return names[static_cast<std::size_t>(kind)];
}

// The lists of a Feature: usually one.
struct Lists {
  ExampleKind kind = ExampleKind::kNone;
  WireBytes first;
  std::vector<WireBytes> more;
};

Lists lists_of(WireBytes feature) {
  Lists lists;
  for (Wire wire(feature); !wire.done();) {
    std::uint32_t field, type;
    wire.tag(field, type);
    if (field < 1 || field > 3) {
      wire.skip(type);
      continue;
    }
    const WireBytes list = wire.expect_bytes(type);
    const auto kind = static_cast<ExampleKind>(field);
    if (kind == lists.kind) {
      lists.more.push_back(list);
    } else {  // one of three: the last kind set replaces the others
      lists.kind = kind;
      lists.first = list;
      lists.more.clear();
    }
  }
  return lists;
}

void take_packed_ints(WireBytes packed, Buffer<std::int64_t>& ints) {
  if (packed.size == 0) return;
  // A number ends with each byte that has no upper bit, so memory is what the numbers need.
  std::size_t count = 0;
  for (std::size_t i = 0; i < packed.size; ++i) count += packed.data[i] < 128;
  std::int64_t* to = ints.room(count);
  if (count == packed.size) {
    for (std::size_t i = 0; i < count; ++i) to[i] = packed.data[i];
  } else {
    std::size_t n = 0;
    for (Wire wire(packed); !wire.done(); ++n) {
      const std::uint64_t value = wire.varint();
      to[n] = static_cast<std::int64_t>(value);
    }
  }
  ints.advance(count);
}

void take_ints(WireBytes list, Buffer<std::int64_t>& ints) {
  for (Wire wire(list); !wire.done();) {
    std::uint32_t field, type;
    wire.tag(field, type);
    if (field != 1) {
      wire.skip(type);
    } else if (type == Wire::kBytes) {
      take_packed_ints(wire.bytes(), ints);
    } else if (type == Wire::kVarint) {
      ints.push(static_cast<std::int64_t>(wire.varint()));
    } else {
      throw Malformed{"a list of int64 with something else in it", wire.at()};
    }
  }
}

void append_floats(const std::uint8_t* from, std::size_t bytes, Buffer<float>& floats) {
  if (bytes == 0) return;
  std::memcpy(floats.room(bytes / 4), from, bytes);
  floats.advance(bytes / 4);
}

void take_floats(WireBytes list, Buffer<float>& floats) {
  static_assert(std::endian::native == std::endian::little);
  for (Wire wire(list); !wire.done();) {
    std::uint32_t field, type;
    wire.tag(field, type);
    if (field != 1) {
      wire.skip(type);
    } else if (type == Wire::kBytes) {
      const WireBytes packed = wire.bytes();
      if (packed.size % 4 != 0) throw Malformed{"packed floats whose bytes are no multiple of 4", packed.data};
      append_floats(packed.data, packed.size, floats);
    } else if (type == Wire::kFixed32) {
      append_floats(wire.fixed(4), 4, floats);
    } else {
      throw Malformed{"a list of floats with something else in it", wire.at()};
    }
  }
}

void take_strings(WireBytes list, ExampleValues& values) {
  WireBytes text;
  for (Wire wire(list); !wire.done();) {
    if (!wire.message(1, text)) continue;
    if (text.size > 0) std::memcpy(values.bytes.room(text.size), text.data, text.size);
    values.bytes.advance(text.size);
    values.items.push(static_cast<std::int64_t>(values.bytes.size()));
  }
}

void take_list(ExampleKind kind, WireBytes list, ExampleValues& values) {
  switch (kind) {
    case ExampleKind::kInt64:
      return take_ints(list, values.ints);
    case ExampleKind::kFloat:
      return take_floats(list, values.floats);
    case ExampleKind::kBytes:
      return take_strings(list, values);
    case ExampleKind::kNone:
      return;
  }
}

void take_lists(const Lists& lists, ExampleValues& values) {
  take_list(lists.kind, lists.first, values);
  for (const WireBytes& list : lists.more) take_list(lists.kind, list, values);
}

// Calls use(is_list, key, value) for each entry of the maps of a message.
template <class Use>
void each_entry(WireBytes message, bool lists, const Use& use) {
  for (Wire wire(message); !wire.done();) {
    std::uint32_t field, type;
    wire.tag(field, type);
    if (field != 1 && (field != 2 || !lists)) {
      wire.skip(type);
      continue;
    }
    WireBytes entry;
    for (Wire map(wire.expect_bytes(type)); !map.done();) {
      if (!map.message(1, entry)) continue;
      WireBytes key, value;
      for (Wire parts(entry); !parts.done();) {
        std::uint32_t part, part_type;
        parts.tag(part, part_type);
        if (part == 1) {
          key = parts.expect_bytes(part_type);
        } else if (part == 2) {
          value = parts.expect_bytes(part_type);
        } else {
          parts.skip(part_type);
        }
      }
      if (value.data == nullptr) value.data = entry.data;  // an entry without a value has an empty one
      use(field == 2, key, value);
    }
  }
}

// The keys of a message, for who looks for another; of its lists, or of its features.
std::string keys_of(WireBytes message, bool lists) {
  constexpr std::size_t kMost = 20;
  std::string text;
  std::size_t count = 0;
  each_entry(message, lists, [&](bool list, WireBytes key, WireBytes) {
    if (list != lists || ++count > kMost) return;
    text += count > 1 ? ", '" : "'";
    if (key.size > 0) text.append(reinterpret_cast<const char*>(key.data), key.size);
    text += "'";
  });
  if (count > kMost) text += " and " + std::to_string(count - kMost) + " more";
  const std::string what = lists ? "feature lists" : "features";
  return count > 0 ? " (its " + what + " are " + text + ")" : " (it has no " + what + ")";
}

// What is wanted is not what is there.
struct Unwanted {
  std::string text;
};

// Appends the values of a Feature; returns false where it has none set.
bool take_feature(const WantedFeature& wanted, WireBytes feature, ExampleValues& values) {
  const Lists lists = lists_of(feature);
  if (lists.kind == ExampleKind::kNone) return false;
  if (lists.kind != wanted.kind) {
    throw Unwanted{std::string("expected ") + name_of(wanted.kind) + " list, found " + name_of(lists.kind) + " list"};
  }
  const std::size_t before = values.size(wanted.kind);
  take_lists(lists, values);
  const auto found = static_cast<std::int64_t>(values.size(wanted.kind) - before);
  if (wanted.count >= 0 && found != wanted.count) {
    throw Unwanted{"expected " + std::to_string(wanted.count) +
                   (wanted.count == 1 ? " value, found " : " values, found ") + std::to_string(found) +
                   (found == 0 && wanted.fallback.size(wanted.kind) > 0
                        ? "; its list is there, though empty, so the default isn't taken"
                        : "")};
  }
  if (found % wanted.multiple != 0) {
    throw Unwanted{"expected a multiple of " + std::to_string(wanted.multiple) + " values, found " +
                   std::to_string(found)};
  }
  return true;
}

std::span<const std::uint8_t> check_rows(std::span<const std::uint8_t> data, std::span<const std::int64_t> offsets) {
  if (offsets.empty() || offsets.front() < 0 || !std::is_sorted(offsets.begin(), offsets.end()) ||
      offsets.back() > static_cast<std::int64_t>(data.size())) {
    throw std::invalid_argument("the offsets don't fit the data");
  }
  return data;
}

WireBytes row_of(std::span<const std::uint8_t> data, std::span<const std::int64_t> offsets, std::size_t row) {
  return {data.data() + offsets[row], static_cast<std::size_t>(offsets[row + 1] - offsets[row])};
}

std::string describe(const Malformed& error, WireBytes message) {
  return "expected an Example or SequenceExample, found " + std::string(error.what) + " at byte " +
         std::to_string(error.at - message.data) + " of " + std::to_string(message.size);
}

}  // namespace

std::size_t ExampleValues::size(ExampleKind kind) const {
  switch (kind) {
    case ExampleKind::kInt64:
      return ints.size();
    case ExampleKind::kFloat:
      return floats.size();
    default:
      return items.size();
  }
}

void ExampleValues::append(const ExampleValues& other, ExampleKind kind) {
  if (kind == ExampleKind::kInt64) {
    for (std::size_t i = 0; i < other.ints.size(); ++i) ints.push(other.ints[i]);
  } else if (kind == ExampleKind::kFloat) {
    for (std::size_t i = 0; i < other.floats.size(); ++i) floats.push(other.floats[i]);
  } else {
    const auto base = static_cast<std::int64_t>(bytes.size());
    for (std::size_t i = 0; i < other.bytes.size(); ++i) bytes.push(other.bytes[i]);
    for (std::size_t i = 0; i < other.items.size(); ++i) items.push(base + other.items[i]);
  }
}

ExampleParser::ExampleParser(std::vector<WantedFeature> wanted) : wanted_(std::move(wanted)) {
  for (const WantedFeature& feature : wanted_) {
    if (feature.multiple < 1) throw std::invalid_argument("values come in multiples of 1 or more");
    lists_ = lists_ || feature.list;
    const auto same = std::find_if(slots_.begin(), slots_.end(), [&](const Slot& slot) {
      return slot.key == feature.key && slot.list == feature.list;
    });
    slot_of_.push_back(static_cast<std::size_t>(same - slots_.begin()));
    if (same == slots_.end()) slots_.push_back({feature.key, feature.list});
  }
  table_.assign(std::bit_ceil(2 * slots_.size() + 1), -1);
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    const auto* key = reinterpret_cast<const std::uint8_t*>(slots_[i].key.data());
    std::size_t at = hash_bytes(key, slots_[i].key.size()) & (table_.size() - 1);
    while (table_[at] >= 0) at = (at + 1) & (table_.size() - 1);
    table_[at] = static_cast<std::int32_t>(i);
  }
}

std::int32_t ExampleParser::find(bool list, const std::uint8_t* key, std::size_t size) const {
  for (std::size_t at = hash_bytes(key, size) & (table_.size() - 1); table_[at] >= 0;
       at = (at + 1) & (table_.size() - 1)) {
    const Slot& slot = slots_[static_cast<std::size_t>(table_[at])];
    if (slot.list == list && slot.key.size() == size && std::memcmp(slot.key.data(), key, size) == 0) return table_[at];
  }
  return -1;
}

ExampleFault ExampleParser::parse(std::span<const std::uint8_t> data, std::span<const std::int64_t> offsets,
                                  std::vector<ExampleColumn>& columns) const {
  check_rows(data, offsets);
  const std::size_t rows = offsets.size() - 1;
  columns.clear();
  columns.resize(wanted_.size());
  for (std::size_t i = 0; i < wanted_.size(); ++i) {
    const WantedFeature& wanted = wanted_[i];
    if (wanted.list) columns[i].steps.push(0);
    if (wanted.list || wanted.count < 0) {
      columns[i].offsets.push(0);
    } else {
      // Room for the whole batch at once, as far as so many values can be in so many bytes.
      const std::size_t least = wanted.kind == ExampleKind::kFloat ? 4 : 1;
      const std::size_t room = std::min(rows * static_cast<std::size_t>(wanted.count), data.size() / least);
      if (wanted.kind == ExampleKind::kInt64) columns[i].values.ints.reserve(room);
      if (wanted.kind == ExampleKind::kFloat) columns[i].values.floats.reserve(room);
    }
  }
  const auto feature = [this](std::size_t i) {
    return "feature '" + wanted_[i].key + "', " + wanted_[i].described + ": ";
  };
  std::vector<WireBytes> found(slots_.size());
  static const std::uint8_t nothing = 0;
  for (std::size_t row = 0; row < rows; ++row) {
    WireBytes message = row_of(data, offsets, row);
    if (message.data == nullptr) message.data = &nothing;
    std::fill(found.begin(), found.end(), WireBytes{});
    std::size_t now = wanted_.size();
    try {
      each_entry(message, lists_, [&](bool list, WireBytes key, WireBytes value) {
        static const std::uint8_t none = 0;
        const std::int32_t slot = find(list, key.data != nullptr ? key.data : &none, key.size);
        if (slot >= 0) found[static_cast<std::size_t>(slot)] = value;
      });
      for (now = 0; now < wanted_.size(); ++now) {
        const WantedFeature& wanted = wanted_[now];
        ExampleColumn& column = columns[now];
        const WireBytes value = found[slot_of_[now]];
        bool there = value.data != nullptr;
        if (wanted.list) {
          WireBytes step;
          std::int64_t steps = 0;
          for (Wire wire(value); there && !wire.done();) {
            if (!wire.message(1, step)) continue;
            try {
              if (!take_feature(wanted, step, column.values) && wanted.count >= 0) {
                throw Unwanted{std::string("expected ") + name_of(wanted.kind) + " list, found nothing set"};
              }
            } catch (const Unwanted& error) {
              throw Unwanted{"step " + std::to_string(steps) + ": " + error.text};
            }
            ++steps;
            column.offsets.push(static_cast<std::int64_t>(column.values.size(wanted.kind)));
          }
          column.steps.push(column.steps[row] + steps);
        } else {
          there = there && take_feature(wanted, value, column.values);
          if (!there) column.values.append(wanted.fallback, wanted.kind);
          if (wanted.count < 0) column.offsets.push(static_cast<std::int64_t>(column.values.size(wanted.kind)));
        }
        if (!there && wanted.required) {
          const bool any = wanted.list || wanted.count < 0;
          throw Unwanted{std::string("it is required, and isn't there; ") +
                         (any ? "say allow_missing=True" : "give it a default") + keys_of(message, wanted.list)};
        }
      }
    } catch (const Malformed& error) {
      const std::string where = now < wanted_.size() ? feature(now) : "";
      return {static_cast<std::int64_t>(row), where + describe(error, message)};
    } catch (const Unwanted& error) {
      return {static_cast<std::int64_t>(row), feature(now) + error.text};
    }
  }
  return {};
}

ExampleFault survey_examples(std::span<const std::uint8_t> data, std::span<const std::int64_t> offsets,
                             std::vector<SeenFeature>& seen) {
  check_rows(data, offsets);
  std::unordered_map<std::string, std::size_t> known;
  std::vector<std::size_t> last;  // message that had it last, from 1
  const auto note = [](SeenFeature& feature, WireBytes value, bool first) {
    const Lists lists = lists_of(value);
    feature.kinds[static_cast<std::size_t>(lists.kind)] = true;
    ExampleValues values;
    take_lists(lists, values);
    const std::uint64_t count = values.size(lists.kind);
    feature.least = first ? count : std::min(feature.least, count);
    feature.most = first ? count : std::max(feature.most, count);
  };
  for (std::size_t row = 0; row + 1 < offsets.size(); ++row) {
    const WireBytes message = row_of(data, offsets, row);
    try {
      each_entry(message, true, [&](bool list, WireBytes key, WireBytes value) {
        std::string name;
        if (key.size > 0) name.assign(reinterpret_cast<const char*>(key.data), key.size);
        const auto [place, fresh] = known.try_emplace((list ? 'l' : 'f') + name, seen.size());
        if (fresh) {
          seen.push_back({.key = name, .list = list});
          last.push_back(0);
        }
        SeenFeature& feature = seen[place->second];
        if (last[place->second] != row + 1) ++feature.messages;
        last[place->second] = row + 1;
        bool any = feature.kinds[0] || feature.kinds[1] || feature.kinds[2] || feature.kinds[3];
        if (!list) return note(feature, value, !any);
        WireBytes step;
        for (Wire wire(value); !wire.done();) {
          if (!wire.message(1, step)) continue;
          note(feature, step, !any);
          any = true;
        }
      });
    } catch (const Malformed& error) {
      return {static_cast<std::int64_t>(row), describe(error, message)};
    }
  }
  return {};
}

}  // namespace headrace
