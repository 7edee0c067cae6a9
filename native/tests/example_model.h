// Examples by the plainest code, with a string for every message: what the tests and the fuzzer compare with.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "../example.h"

namespace headrace::test {

inline std::string varint(std::uint64_t value) {
  std::string text;
  for (; value >= 128; value >>= 7) text += static_cast<char>(value | 128);
  return text + static_cast<char>(value);
}

// A field that holds a string or message.
inline std::string field(unsigned number, const std::string& content) {
  return varint(number << 3 | 2) + varint(content.size()) + content;
}

struct ModelField {
  std::uint64_t number, type;
  std::uint64_t value = 0;
  std::string content;  // of strings, and of fixed numbers
};

inline std::optional<std::uint64_t> model_varint(const std::string& text, std::size_t& at) {
  std::uint64_t value = 0;
  for (unsigned i = 0; i < 10; ++i) {
    if (at >= text.size()) return std::nullopt;
    const auto byte = static_cast<std::uint8_t>(text[at++]);
    if (i == 9 && byte > 1) return std::nullopt;
    value |= (byte & std::uint64_t{127}) << (7 * i);
    if (byte < 128) return value;
  }
  return std::nullopt;
}

// All fields of a message.
inline std::optional<std::vector<ModelField>> model_fields(const std::string& text) {
  std::vector<ModelField> fields;
  for (std::size_t at = 0; at < text.size();) {
    const auto tag = model_varint(text, at);
    if (!tag || *tag >> 32 != 0 || *tag >> 3 == 0) return std::nullopt;
    ModelField found{*tag >> 3, *tag & 7, 0, ""};
    std::uint64_t size = 0;
    if (found.type == 0) {
      const auto value = model_varint(text, at);
      if (!value) return std::nullopt;
      found.value = *value;
    } else if (found.type == 2) {
      const auto length = model_varint(text, at);
      if (!length) return std::nullopt;
      size = *length;
    } else if (found.type == 1 || found.type == 5) {
      size = found.type == 1 ? 8 : 4;
    } else {
      return std::nullopt;
    }
    if (size > text.size() - at) return std::nullopt;
    found.content = text.substr(at, static_cast<std::size_t>(size));
    at += static_cast<std::size_t>(size);
    fields.push_back(found);
  }
  return fields;
}

// The values of a Feature as strings of their bytes; its kind; nothing where it is malformed.
struct ModelFeature {
  std::uint64_t kind = 0;
  std::vector<std::string> values;
};

inline std::string bytes_of(std::uint64_t value) { return std::string(reinterpret_cast<const char*>(&value), 8); }

inline std::optional<ModelFeature> model_feature(const std::string& text, ExampleKind wanted) {
  const auto fields = model_fields(text);
  if (!fields) return std::nullopt;
  ModelFeature feature;
  std::vector<std::string> lists;
  for (const ModelField& list : *fields) {
    if (list.number > 3) continue;
    if (list.type != 2) return std::nullopt;
    if (list.number != feature.kind) lists.clear();
    feature.kind = list.number;
    lists.push_back(list.content);
  }
  if (feature.kind != static_cast<std::uint64_t>(wanted)) return feature;  // its lists aren't looked at
  for (const std::string& list : lists) {
    const auto values = model_fields(list);
    if (!values) return std::nullopt;
    for (const ModelField& value : *values) {
      if (value.number != 1) continue;
      if (feature.kind == 1) {
        if (value.type != 2) return std::nullopt;
        feature.values.push_back(value.content);
      } else if (feature.kind == 2) {
        if (value.type != 2 && value.type != 5) return std::nullopt;
        if (value.content.size() % 4 != 0) return std::nullopt;
        for (std::size_t i = 0; i < value.content.size(); i += 4) feature.values.push_back(value.content.substr(i, 4));
      } else if (value.type == 0) {
        feature.values.push_back(bytes_of(value.value));
      } else if (value.type == 2) {
        for (std::size_t at = 0; at < value.content.size();) {
          const auto number = model_varint(value.content, at);
          if (!number) return std::nullopt;
          feature.values.push_back(bytes_of(*number));
        }
      } else {
        return std::nullopt;
      }
    }
  }
  return feature;
}

// What one message gives for one wanted feature: values, and of lists the values in each step.
struct ModelTaken {
  std::vector<std::string> values;
  std::vector<std::size_t> steps;
};

// Nothing where the message is refused. `any_lists`: whether any feature wanted is a list, so that lists are looked at.
inline std::optional<ModelTaken> model_take(const std::string& message, const WantedFeature& wanted, bool any_lists) {
  const auto outer = model_fields(message);
  if (!outer) return std::nullopt;
  std::optional<std::string> found;
  for (const ModelField& block : *outer) {
    if (block.number != 1 && (block.number != 2 || !any_lists)) continue;
    if (block.type != 2) return std::nullopt;
    const auto entries = model_fields(block.content);
    if (!entries) return std::nullopt;
    for (const ModelField& entry : *entries) {
      if (entry.number != 1) continue;
      if (entry.type != 2) return std::nullopt;
      const auto parts = model_fields(entry.content);
      if (!parts) return std::nullopt;
      std::string key, value;
      for (const ModelField& part : *parts) {
        if (part.number > 2) continue;
        if (part.type != 2) return std::nullopt;
        (part.number == 1 ? key : value) = part.content;
      }
      if ((block.number == 2) == wanted.list && key == wanted.key) found = value;
    }
  }
  ModelTaken taken;
  const auto fits = [&](const ModelFeature& feature) {
    const auto count = static_cast<std::int64_t>(feature.values.size());
    return feature.kind == static_cast<std::uint64_t>(wanted.kind) && (wanted.count < 0 || count == wanted.count) &&
           count % wanted.multiple == 0;
  };
  if (wanted.list) {
    if (!found) return wanted.required ? std::nullopt : std::optional(taken);
    const auto steps = model_fields(*found);
    if (!steps) return std::nullopt;
    for (const ModelField& step : *steps) {
      if (step.number != 1) continue;
      if (step.type != 2) return std::nullopt;
      const auto feature = model_feature(step.content, wanted.kind);
      if (!feature) return std::nullopt;
      if (feature->kind == 0 ? wanted.count >= 0 : !fits(*feature)) return std::nullopt;
      taken.values.insert(taken.values.end(), feature->values.begin(), feature->values.end());
      taken.steps.push_back(feature->values.size());
    }
    return taken;
  }
  if (found) {
    const auto feature = model_feature(*found, wanted.kind);
    if (!feature || (feature->kind != 0 && !fits(*feature))) return std::nullopt;
    if (feature->kind != 0) return ModelTaken{feature->values, {}};
  }
  if (wanted.required) return std::nullopt;
  for (std::size_t i = 0; i < wanted.fallback.ints.size(); ++i) {
    taken.values.push_back(bytes_of(static_cast<std::uint64_t>(wanted.fallback.ints[i])));
  }
  return taken;
}

// The values of a column between two places, as the model gives them.
inline std::vector<std::string> values_of(const ExampleColumn& column, ExampleKind kind, std::size_t begin,
                                          std::size_t end) {
  std::vector<std::string> values;
  for (std::size_t i = begin; i < end; ++i) {
    if (kind == ExampleKind::kInt64) {
      values.push_back(bytes_of(static_cast<std::uint64_t>(column.values.ints[i])));
    } else if (kind == ExampleKind::kFloat) {
      values.emplace_back(reinterpret_cast<const char*>(&column.values.floats[i]), 4);
    } else {
      const auto from = i == 0 ? std::int64_t{0} : column.values.items[i - 1];
      values.emplace_back(reinterpret_cast<const char*>(column.values.bytes.data()) + from,
                          static_cast<std::size_t>(column.values.items[i] - from));
    }
  }
  return values;
}

inline WantedFeature want(const std::string& key, ExampleKind kind, std::int64_t count = -1, bool required = false,
                          bool list = false, std::int64_t multiple = 1) {
  WantedFeature wanted;
  wanted.key = key;
  wanted.kind = kind;
  wanted.count = count;
  wanted.required = required;
  wanted.list = list;
  wanted.multiple = multiple;
  wanted.described = "as wanted";
  return wanted;
}

}  // namespace headrace::test
