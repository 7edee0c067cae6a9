// Any bytes, as two messages, give the columns that the plain model gives, or are refused by both.
#include <cstdlib>
#include <string>

#include "example_model.h"

using namespace headrace;
using namespace headrace::test;

namespace {

void check(bool condition) {
  if (!condition) std::abort();
}

void compare(std::vector<WantedFeature> wanted, const std::string (&messages)[2]) {
  bool lists = false;
  for (const auto& feature : wanted) lists = lists || feature.list;
  const std::string joined = messages[0] + messages[1];
  const std::vector<std::uint8_t> bytes(joined.begin(), joined.end());
  const std::int64_t offsets[] = {0, static_cast<std::int64_t>(messages[0].size()),
                                  static_cast<std::int64_t>(bytes.size())};
  std::int64_t bad = -1;
  std::vector<ModelTaken> model;
  for (std::int64_t row = 0; row < 2 && bad < 0; ++row) {
    for (const auto& feature : wanted) {
      auto taken = model_take(messages[row], feature, lists);
      if (!taken) {
        bad = row;
        break;
      }
      model.push_back(*taken);
    }
  }
  const ExampleParser parser(std::move(wanted));
  std::vector<ExampleColumn> columns;
  const ExampleFault fault = parser.parse(bytes, offsets, columns);
  check(fault.row == bad);
  check(fault.text.empty() == (bad < 0));
  if (bad >= 0) return;
  const std::size_t n = parser.wanted().size();
  for (std::size_t i = 0; i < n; ++i) {
    const WantedFeature& feature = parser.wanted()[i];
    std::size_t value = 0, step = 0;
    for (std::size_t row = 0; row < 2; ++row) {
      const ModelTaken& taken = model[row * n + i];
      check(values_of(columns[i], feature.kind, value, value + taken.values.size()) == taken.values);
      for (const std::size_t count : taken.steps) {
        check(columns[i].offsets[step + 1] - columns[i].offsets[step] == static_cast<std::int64_t>(count));
        ++step;
      }
      value += taken.values.size();
      if (feature.list) check(columns[i].steps[row + 1] == static_cast<std::int64_t>(step));
      if (!feature.list && feature.count < 0) check(columns[i].offsets[row + 1] == static_cast<std::int64_t>(value));
    }
    check(columns[i].values.size(feature.kind) == value);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::size_t cut = data[0] % size;
  const std::string text(reinterpret_cast<const char*>(data) + 1, size - 1);
  const std::string messages[2] = {text.substr(0, cut), text.substr(cut)};
  for (const char* key : {"a", ""}) {
    std::vector<WantedFeature> features;
    features.push_back(want(key, ExampleKind::kInt64));
    compare(std::move(features), messages);
    features.clear();
    features.push_back(want(key, ExampleKind::kInt64, 2));
    features.back().fallback.ints.push(7);
    features.back().fallback.ints.push(-7);
    compare(std::move(features), messages);
    features.clear();
    features.push_back(want(key, ExampleKind::kFloat, -1, true, false, 2));
    features.push_back(want("b", ExampleKind::kBytes));
    compare(std::move(features), messages);
    features.clear();
    features.push_back(want(key, ExampleKind::kFloat, 1, false, true));
    features.push_back(want(key, ExampleKind::kBytes, -1, false, true));
    features.push_back(want("b", ExampleKind::kInt64, -1, true, true));
    compare(std::move(features), messages);
  }
  std::vector<SeenFeature> seen;
  const std::vector<std::uint8_t> bytes(data, data + size);
  const std::int64_t offsets[] = {0, static_cast<std::int64_t>(size)};
  (void)survey_examples(bytes, offsets, seen);
  return 0;
}
