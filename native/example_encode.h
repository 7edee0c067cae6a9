// Columns to messages of tf.train.Example and SequenceExample: what example.h parses.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "buffer.h"
#include "example.h"

namespace headrace {

// A column to make messages of. The spans must fit each other; `encode_examples` looks at that.
struct ExampleInput {
  std::string key;
  ExampleKind kind = ExampleKind::kInt64;
  bool list = false;
  std::span<const std::int64_t> ints;
  std::span<const float> floats;
  std::span<const std::uint8_t> bytes;
  std::span<const std::int64_t> items;    // of strings: where each begins, and the end
  std::span<const std::int64_t> offsets;  // values before each message and in all; of lists, before each step
  std::span<const std::int64_t> steps;    // of lists: steps before each message and in all
};

// Makes `count` messages, with the keys in the order given and lists packed. Throws std::invalid_argument.
void encode_examples(std::size_t count, std::span<const ExampleInput> inputs, Buffer<std::uint8_t>& data,
                     Buffer<std::int64_t>& offsets);

}  // namespace headrace
