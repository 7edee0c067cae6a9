// tf.train.Example and SequenceExample: messages of protocol buffers, parsed in batches straight into columns.
//
//   Example {1: Features}, SequenceExample {1: Features (context), 2: FeatureLists}
//   Features {1: map<key, Feature>}, FeatureLists {1: map<key, FeatureList>}, FeatureList {1: repeated Feature}
//   Feature {1: BytesList | 2: FloatList | 3: Int64List}, each list {1: repeated}
//
// A key that comes twice counts as it comes last; blocks of packed values are joined, also with single ones; fields
// that the messages don't have are passed over, but groups are refused, as is a known field of another wire type.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "buffer.h"

namespace headrace {

// Numbers are those of the fields of Feature.
enum class ExampleKind : std::uint8_t { kNone = 0, kBytes = 1, kFloat = 2, kInt64 = 3 };

// Values of one kind, one after another.
struct ExampleValues {
  Buffer<std::int64_t> ints;
  Buffer<float> floats;
  Buffer<std::uint8_t> bytes;  // of all strings
  Buffer<std::int64_t> items;  // where each string ends in them

  std::size_t size(ExampleKind kind) const;
  void append(const ExampleValues& other, ExampleKind kind);
};

// What to take out of each message.
struct WantedFeature {
  std::string key;
  ExampleKind kind = ExampleKind::kInt64;
  bool list = false;          // of the feature lists, else of the features
  std::int64_t count = -1;    // values that there are (in each step of a list); -1: any number
  std::int64_t multiple = 1;  // of which their number is a multiple
  bool required = false;      // an error where it is missing
  ExampleValues fallback;     // the values where it is missing
  std::string described;      // the feature in words, for messages
};

struct ExampleColumn {
  ExampleValues values;
  // Values before each message, and in all; of lists, before each step. Empty where each message has `count`.
  Buffer<std::int64_t> offsets;
  Buffer<std::int64_t> steps;  // of lists: steps before each message, and in all
};

// A message that can't be parsed, or has something else in it than is wanted.
struct ExampleFault {
  std::int64_t row = -1;  // none
  std::string text;
};

// Immutable.
class ExampleParser {
 public:
  explicit ExampleParser(std::vector<WantedFeature> wanted);
  ExampleParser(const ExampleParser&) = delete;
  ExampleParser(ExampleParser&&) = default;

  const std::vector<WantedFeature>& wanted() const { return wanted_; }
  // Parses messages, one from each offset to the next. Ends at the first that has a fault.
  ExampleFault parse(std::span<const std::uint8_t> data, std::span<const std::int64_t> offsets,
                     std::vector<ExampleColumn>& columns) const;

 private:
  struct Slot {
    std::string key;
    bool list;
  };
  // The slot of a key, or -1.
  std::int32_t find(bool list, const std::uint8_t* key, std::size_t size) const;

  std::vector<WantedFeature> wanted_;
  std::vector<std::size_t> slot_of_;  // each wanted one's
  std::vector<Slot> slots_;           // keys, each once
  std::vector<std::int32_t> table_;   // slots by hash of the key; -1: none
  bool lists_ = false;
};

// What a feature is in a number of messages.
struct SeenFeature {
  std::string key;
  bool list = false;
  bool kinds[4] = {};                 // which were seen; kNone: nothing set
  std::uint64_t messages = 0;         // that have it
  std::uint64_t least = 0, most = 0;  // values, in a message or a step
};

// Looks at all features of messages.
ExampleFault survey_examples(std::span<const std::uint8_t> data, std::span<const std::int64_t> offsets,
                             std::vector<SeenFeature>& seen);

}  // namespace headrace
