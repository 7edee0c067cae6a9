// The rules of the CTF index once more, as plainly as can be: what the tests and the fuzzer compare with.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "../ctf_index.h"

namespace headrace::test {

struct ModelSequence {
  std::uint64_t begin, end, key, samples;
  bool operator==(const ModelSequence&) const = default;
};

struct Model {
  bool ids = false;
  std::vector<ModelSequence> sequences;
};

// Nothing for a text that must be refused.
inline std::optional<Model> model_ctf_index(const std::string& text, const CtfIndexOptions& options) {
  const auto digit = [](char c) { return c >= '0' && c <= '9'; };
  if (text.empty() || text.starts_with("\xff\xfe") || text.starts_with("\xfe\xff")) return std::nullopt;
  std::size_t at = 0;
  for (const char mark : {'\xef', '\xbb', '\xbf'}) {
    if (at == text.size() || text[at] != mark) break;
    ++at;
  }
  std::uint64_t line_number = 0;
  while (at < text.size() && (text[at] == ' ' || (text[at] >= '\t' && text[at] <= '\r'))) {
    line_number += text[at++] == '\n' ? 1 : 0;
  }
  if (at == text.size()) return std::nullopt;

  Model model;
  model.ids = !options.skip_ids && text[at] != '|';
  std::optional<std::uint64_t> current;
  while (at < text.size()) {
    std::size_t end = text.find('\n', at);
    end = end == std::string::npos ? text.size() : end + 1;
    std::uint64_t counts = 1;
    if (!options.main.empty()) {
      counts = 0;
      for (std::size_t pipe = text.find('|', at); pipe < end; pipe = text.find('|', pipe + 1)) {
        const std::size_t after = pipe + 1 + options.main.size();
        if (text.compare(pipe + 1, options.main.size(), options.main) != 0 || after > text.size()) continue;
        if (after == text.size() || static_cast<unsigned char>(text[after]) <= ' ' || text[after] == '|') counts = 1;
      }
    }
    if (model.ids) {
      std::size_t stop = at;
      std::uint64_t key = 0;
      for (; stop < text.size() && digit(text[stop]); ++stop) {
        const auto value = static_cast<std::uint64_t>(text[stop] - '0');
        if (key > (~std::uint64_t{0} - value) / 10) return std::nullopt;
        key = key * 10 + value;
      }
      const bool found = stop > at && stop < text.size();
      if (!current && !found) return std::nullopt;
      if (found && current != key) {
        if (!model.sequences.empty()) model.sequences.back().end = at;
        model.sequences.push_back({at, text.size(), key, 0});
        current = key;
      }
      model.sequences.back().samples += counts;
    } else if (counts != 0) {
      model.sequences.push_back({at, end, line_number, 1});
    }
    ++line_number;
    at = end;
  }
  std::erase_if(model.sequences, [](const ModelSequence& s) { return s.samples == 0; });
  return model;
}

// What an index says, with its empty tables filled in.
inline Model unfold(const CtfIndex& index) {
  Model model;
  model.ids = index.ids;
  for (std::size_t i = 0; i < index.sequences(); ++i) {
    model.sequences.push_back({index.begins.data()[i],
                               index.ends.size() > 0 ? index.ends.data()[i] : index.begins.data()[i + 1],
                               index.keys.size() > 0 ? index.keys.data()[i] : index.first_line + i,
                               index.samples.size() > 0 ? index.samples.data()[i] : 1});
  }
  return model;
}

}  // namespace headrace::test
