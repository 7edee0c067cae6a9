#include "example_encode.h"

#include <algorithm>
#include <bit>
#include <stdexcept>

namespace headrace {
namespace {

std::size_t varint_size(std::uint64_t value) { return (static_cast<std::size_t>(std::bit_width(value | 1)) + 6) / 7; }

// A field with its tag (one byte) and length.
std::size_t field_size(std::size_t content) { return 1 + varint_size(content) + content; }

std::uint8_t* put_varint(std::uint64_t value, std::uint8_t* to) {
  for (; value >= 128; value >>= 7) *to++ = static_cast<std::uint8_t>(value | 128);
  *to++ = static_cast<std::uint8_t>(value);
  return to;
}

std::uint8_t* put_field(std::uint32_t number, std::size_t content, std::uint8_t* to) {
  *to++ = static_cast<std::uint8_t>(number << 3 | 2);
  return put_varint(content, to);
}

template <class T>
std::uint8_t* put_bytes(std::span<const T> bytes, std::uint8_t* to) {
  const auto* from = reinterpret_cast<const std::uint8_t*>(bytes.data());
  return std::copy(from, from + bytes.size_bytes(), to);
}

// Values [begin, end) of an input as a Feature.
class Feature {
 public:
  Feature(const ExampleInput& input, std::size_t begin, std::size_t end) : input_(input), begin_(begin), end_(end) {
    switch (input.kind) {
      case ExampleKind::kInt64:
        for (const std::int64_t value : input.ints.subspan(begin, end - begin)) {
          packed_ += varint_size(static_cast<std::uint64_t>(value));
        }
        break;
      case ExampleKind::kFloat:
        packed_ = 4 * (end - begin);
        break;
      default:
        for (std::size_t i = begin; i < end; ++i) list_ += field_size(text(i).size());
    }
    if (packed_ > 0) list_ = field_size(packed_);
  }

  std::size_t size() const { return field_size(list_); }

  std::uint8_t* put(std::uint8_t* to) const {
    to = put_field(static_cast<std::uint32_t>(input_.kind), list_, to);
    if (packed_ > 0) to = put_field(1, packed_, to);
    switch (input_.kind) {
      case ExampleKind::kInt64:
        for (const std::int64_t value : input_.ints.subspan(begin_, end_ - begin_)) {
          to = put_varint(static_cast<std::uint64_t>(value), to);
        }
        return to;
      case ExampleKind::kFloat:
        return put_bytes(input_.floats.subspan(begin_, end_ - begin_), to);
      default:
        for (std::size_t i = begin_; i < end_; ++i) to = put_bytes(text(i), put_field(1, text(i).size(), to));
        return to;
    }
  }

 private:
  std::span<const std::uint8_t> text(std::size_t i) const {
    const auto begin = static_cast<std::size_t>(input_.items[i]);
    return input_.bytes.subspan(begin, static_cast<std::size_t>(input_.items[i + 1]) - begin);
  }

  const ExampleInput& input_;
  std::size_t begin_, end_;
  std::size_t packed_ = 0, list_ = 0;
};

// One input's entry in the map of a message.
class Entry {
 public:
  Entry(const ExampleInput& input, std::size_t row) : input_(input) {
    if (input.list) {
      begin_ = static_cast<std::size_t>(input.steps[row]);
      end_ = static_cast<std::size_t>(input.steps[row + 1]);
      for (std::size_t step = begin_; step < end_; ++step) value_ += field_size(feature(step).size());
    } else {
      begin_ = row;
      value_ = feature(row).size();
    }
  }

  std::size_t size() const { return field_size(content()); }

  std::uint8_t* put(std::uint8_t* to) const {
    to = put_field(1, content(), to);
    to = put_bytes(std::span<const char>(input_.key), put_field(1, input_.key.size(), to));
    to = put_field(2, value_, to);
    if (!input_.list) return feature(begin_).put(to);
    for (std::size_t step = begin_; step < end_; ++step) {
      const Feature own = feature(step);
      to = own.put(put_field(1, own.size(), to));
    }
    return to;
  }

 private:
  std::size_t content() const { return field_size(input_.key.size()) + field_size(value_); }
  Feature feature(std::size_t i) const {
    return {input_, static_cast<std::size_t>(input_.offsets[i]), static_cast<std::size_t>(input_.offsets[i + 1])};
  }

  const ExampleInput& input_;
  std::size_t begin_ = 0, end_ = 0;
  std::size_t value_ = 0;
};

void check_offsets(std::span<const std::int64_t> offsets, std::size_t rows, std::size_t total) {
  if (offsets.size() != rows + 1 || offsets.front() < 0 || !std::is_sorted(offsets.begin(), offsets.end()) ||
      offsets.back() > static_cast<std::int64_t>(total)) {
    throw std::invalid_argument("offsets don't fit what they are of");
  }
}

void check(const ExampleInput& input, std::size_t rows) {
  std::size_t values = input.kind == ExampleKind::kInt64 ? input.ints.size() : input.floats.size();
  if (input.kind == ExampleKind::kBytes) {
    if (input.items.empty()) throw std::invalid_argument("strings need offsets");
    values = input.items.size() - 1;
    check_offsets(input.items, values, input.bytes.size());
  } else if (input.kind == ExampleKind::kNone) {
    throw std::invalid_argument("a column without a kind");
  }
  if (input.list) {
    if (input.offsets.empty()) throw std::invalid_argument("lists need offsets");
    check_offsets(input.steps, rows, input.offsets.size() - 1);
  }
  check_offsets(input.offsets, input.list ? input.offsets.size() - 1 : rows, values);
}

}  // namespace

void encode_examples(std::size_t count, std::span<const ExampleInput> inputs, Buffer<std::uint8_t>& data,
                     Buffer<std::int64_t>& offsets) {
  for (const ExampleInput& input : inputs) check(input, count);
  offsets.reserve(count + 1);
  offsets.push(0);
  std::vector<Entry> entries;
  for (std::size_t row = 0; row < count; ++row) {
    entries.clear();
    for (const ExampleInput& input : inputs) entries.emplace_back(input, row);
    for (const bool list : {false, true}) {
      std::size_t size = 0;
      bool any = false;
      for (std::size_t i = 0; i < inputs.size(); ++i) {
        if (inputs[i].list != list) continue;
        size += entries[i].size();
        any = true;
      }
      if (!any) continue;
      std::uint8_t* to = put_field(list ? 2 : 1, size, data.room(field_size(size)));
      for (std::size_t i = 0; i < inputs.size(); ++i) {
        if (inputs[i].list == list) to = entries[i].put(to);
      }
      data.advance(field_size(size));
    }
    offsets.push(static_cast<std::int64_t>(data.size()));
  }
}

}  // namespace headrace
