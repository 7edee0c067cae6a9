#include <stdexcept>

#include "../example.h"
#include "../example_encode.h"
#include "check.h"
#include "example_model.h"

using namespace headrace;
using namespace headrace::test;

namespace {

std::string ints(const std::string& packed) { return field(3, field(1, packed)); }
std::string example(const std::string& key, const std::string& feature) {
  return field(1, field(1, field(1, key) + field(2, feature)));
}

struct Parsed {
  ExampleFault fault;
  std::vector<ExampleColumn> columns;
};

Parsed parse(const std::vector<std::string>& messages, WantedFeature wanted) {
  std::string joined;
  std::vector<std::int64_t> offsets = {0};
  for (const auto& message : messages) {
    joined += message;
    offsets.push_back(static_cast<std::int64_t>(joined.size()));
  }
  const std::vector<std::uint8_t> bytes(joined.begin(), joined.end());
  std::vector<WantedFeature> features;
  features.push_back(std::move(wanted));
  Parsed parsed;
  parsed.fault = ExampleParser(std::move(features)).parse(bytes, offsets, parsed.columns);
  return parsed;
}

std::vector<std::int64_t> ints_of(const std::string& message) {
  const Parsed parsed = parse({message}, want("i", ExampleKind::kInt64));
  CHECK_EQ(parsed.fault.text, "");
  const auto& values = parsed.columns[0].values.ints;
  return {values.data(), values.data() + values.size()};
}

std::string fault_of(const std::string& message, WantedFeature wanted) {
  return parse({message}, std::move(wanted)).fault.text;
}

using Ints = std::vector<std::int64_t>;

}  // namespace

TEST(lists_may_be_packed_or_not_or_both) {
  CHECK(ints_of(example("i", ints("\x01\x02"))) == (Ints{1, 2}));
  CHECK(ints_of(example("i", field(3, std::string("\x08\x01\x08\x02", 4)))) == (Ints{1, 2}));
  CHECK(ints_of(example("i", field(3, field(1, "\x01\x02") + "\x08\x03" + field(1, "\x04")))) == (Ints{1, 2, 3, 4}));
  CHECK(ints_of(example("i", field(3, field(1, "\x01")) + field(3, field(1, "\x02")))) == (Ints{1, 2}));
  CHECK(ints_of(example("i", field(1, field(1, "x")) + ints("\x05"))) == (Ints{5}));
  const std::string minus(9, '\xff');
  CHECK(ints_of(example("i", ints(minus + "\x01" + "\x96\x01"))) == (Ints{-1, 150}));
}

TEST(fields_that_are_not_known_are_passed_over) {
  const std::string strange =
      std::string("\x98\x06\x05", 3) + field(15, "zzz") + std::string("\x7d\x01\x02\x03\x04", 5);
  CHECK(ints_of(strange + example("i", strange + ints("\x01") + strange) + strange) == (Ints{1}));
}

TEST(the_last_of_a_key_counts_and_blocks_join) {
  CHECK(ints_of(example("i", ints("\x01")) + example("i", ints("\x02"))) == (Ints{2}));
  CHECK(ints_of(example("j", ints("\x01")) + example("i", ints("\x02"))) == (Ints{2}));
  CHECK(ints_of(field(1, field(1, field(2, ints("\x03")) + field(1, "i")))) == (Ints{3}));  // value before key
  CHECK(ints_of("") == Ints{});
  CHECK(ints_of(example("i", "")) == Ints{});
}

TEST(what_is_there_must_be_what_is_wanted) {
  const std::string two = example("i", ints("\x01\x02"));
  CHECK_EQ(fault_of(two, want("i", ExampleKind::kInt64, 3)), "feature 'i', as wanted: expected 3 values, found 2");
  CHECK_EQ(fault_of(two, want("i", ExampleKind::kFloat)),
           "feature 'i', as wanted: expected a float list, found an int64 list");
  CHECK_EQ(fault_of(two, want("x", ExampleKind::kInt64, 1, true)),
           "feature 'x', as wanted: it is required, and isn't there; give it a default (its features are 'i')");
  CHECK_EQ(fault_of(two, want("i", ExampleKind::kInt64, -1, false, false, 3)),
           "feature 'i', as wanted: expected a multiple of 3 values, found 2");
  // An empty list is there, and has no values, whatever the default.
  auto with_default = [] {
    WantedFeature wanted = want("i", ExampleKind::kInt64, 1);
    wanted.fallback.ints.push(9);
    return wanted;
  };
  CHECK_EQ(fault_of(example("i", field(3, "")), with_default()),
           "feature 'i', as wanted: expected 1 value, found 0; its list is there, though empty, so "
           "the default isn't taken");
  CHECK_EQ(parse({example("i", "")}, with_default()).columns[0].values.ints[0], 9);
  CHECK_EQ(parse({two, example("i", ints("\x01"))}, want("i", ExampleKind::kInt64, 1)).fault.row, 0);
}

TEST(steps_of_lists_are_told_apart) {
  const std::string list = field(1, ints("\x01")) + field(1, ints("")) + field(1, "") + field(1, ints("\x02\x03"));
  const std::string message = field(2, field(1, field(1, "i") + field(2, list)));
  const Parsed parsed = parse({message, ""}, want("i", ExampleKind::kInt64, -1, false, true));
  CHECK_EQ(parsed.fault.text, "");
  const ExampleColumn& column = parsed.columns[0];
  CHECK((Ints{column.offsets.data(), column.offsets.data() + 5} == Ints{0, 1, 1, 1, 3}));
  CHECK((Ints{column.steps.data(), column.steps.data() + 3} == Ints{0, 4, 4}));
  CHECK_EQ(fault_of(message, want("i", ExampleKind::kInt64, 1, false, true)),
           "feature 'i', as wanted: step 1: expected 1 value, found 0");
}

TEST(every_cut_and_every_flipped_bit_gives_what_the_model_gives) {
  const std::string message = example("i", ints("\x01\xac\x02")) +
                              field(1, field(1, field(1, "f") + field(2, field(2, field(1, "\x01\x02\x03\x04"))))) +
                              field(2, field(1, field(1, "l") + field(2, field(1, field(1, field(1, "text"))))));
  std::vector<std::string> damaged;
  for (std::size_t i = 0; i < message.size(); ++i) {
    damaged.push_back(message.substr(0, i));
    for (int bit = 0; bit < 8; ++bit) {
      damaged.push_back(message);
      damaged.back()[i] = static_cast<char>(damaged.back()[i] ^ 1 << bit);
    }
  }
  for (const std::string& bytes : damaged) {
    for (int which = 0; which < 3; ++which) {
      const auto wanted = [which] {
        return which == 0   ? want("i", ExampleKind::kInt64)
               : which == 1 ? want("f", ExampleKind::kFloat, 1)
                            : want("l", ExampleKind::kBytes, 1, false, true);
      };
      const auto model = model_take(bytes, wanted(), which == 2);
      const Parsed parsed = parse({bytes}, wanted());
      CHECK_EQ(parsed.fault.row, model ? -1 : 0);
      if (!model) continue;
      const WantedFeature feature = wanted();
      CHECK(values_of(parsed.columns[0], feature.kind, 0, parsed.columns[0].values.size(feature.kind)) ==
            model->values);
    }
  }
}

TEST(messages_that_claim_what_they_do_not_have_are_refused) {
  for (const std::string& bad : {std::string("\x0b"), std::string("\x0a\xff\xff\xff\xff\x7f"), std::string("\x0a"),
                                 std::string("\x00", 1), std::string(11, '\xff'), std::string("\x0a\x02\x0a\x05")}) {
    CHECK(fault_of(bad, want("i", ExampleKind::kInt64)).starts_with("expected an Example or SequenceExample, found "));
  }
  CHECK_EQ(fault_of(example("i", field(2, field(1, "abc"))), want("i", ExampleKind::kFloat)),
           "feature 'i', as wanted: expected an Example or SequenceExample, found packed floats whose bytes are no "
           "multiple of 4 at byte 13 of 16");
}

TEST(messages_are_encoded_as_they_are_parsed) {
  const std::int64_t numbers[] = {1, -1, 300}, number_offsets[] = {0, 2, 3};
  const float floats[] = {1.5f};
  const std::int64_t float_offsets[] = {0, 0, 1};
  const std::uint8_t text[] = {'h', 'e', 'y'};
  const std::int64_t items[] = {0, 1, 3}, steps[] = {0, 2, 2};
  const ExampleInput inputs[] = {
      {.key = "i", .ints = numbers, .offsets = number_offsets},
      {.key = "f", .kind = ExampleKind::kFloat, .floats = floats, .offsets = float_offsets},
      {.key = "l",
       .kind = ExampleKind::kBytes,
       .list = true,
       .bytes = text,
       .items = items,
       .offsets = items,
       .steps = steps},
  };
  ExampleInput list = inputs[2];
  const std::int64_t list_offsets[] = {0, 1, 2};
  list.offsets = list_offsets;
  const ExampleInput all[] = {inputs[0], inputs[1], list};
  Buffer<std::uint8_t> data;
  Buffer<std::int64_t> offsets;
  encode_examples(2, all, data, offsets);
  const std::string first(reinterpret_cast<const char*>(data.data()), static_cast<std::size_t>(offsets[1]));
  const auto entry = [](const std::string& key, const std::string& value) {
    return field(1, field(1, key) + field(2, value));
  };
  const std::string wanted =
      field(1, entry("i", ints("\x01" + std::string(9, '\xff') + "\x01")) + entry("f", field(2, ""))) +
      field(2, entry("l", field(1, field(1, field(1, "h"))) + field(1, field(1, field(1, "ey")))));
  CHECK_EQ(first, wanted);
  const std::string second(reinterpret_cast<const char*>(data.data()) + offsets[1],
                           static_cast<std::size_t>(offsets[2] - offsets[1]));
  CHECK_EQ(second,
           field(1, entry("i", ints("\xac\x02")) + entry("f", field(2, field(1, std::string("\0\0\xc0\x3f", 4))))) +
               field(2, entry("l", "")));
  CHECK_THROWS(encode_examples(3, all, data, offsets), std::invalid_argument, "offsets");
}

TEST(features_are_surveyed) {
  std::string joined = example("i", ints("\x01\x02")) + example("t", field(1, field(1, "x")));
  std::vector<std::int64_t> offsets = {0, static_cast<std::int64_t>(joined.size())};
  joined += example("i", ints("\x01"));
  offsets.push_back(static_cast<std::int64_t>(joined.size()));
  const std::vector<std::uint8_t> bytes(joined.begin(), joined.end());
  std::vector<SeenFeature> seen;
  CHECK_EQ(survey_examples(bytes, offsets, seen).row, -1);
  CHECK_EQ(seen.size(), 2u);
  CHECK(seen[0].key == "i" && seen[0].messages == 2 && seen[0].least == 1 && seen[0].most == 2);
  CHECK(seen[1].key == "t" && seen[1].messages == 1 && seen[1].kinds[1] && !seen[1].kinds[3]);
}

int main() { return headrace::test::run_all(); }
