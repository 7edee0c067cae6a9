// What lines and tokens are, written as plainly as possible, for the tests to compare with.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "byte_masks.h"
#include "file_bytes.h"

namespace headrace::test {

struct ModelLine {
  std::uint64_t start;
  std::string text;
};

inline std::vector<ModelLine> model_lines(std::string_view bytes) {
  std::vector<ModelLine> lines;
  for (std::size_t at = 0; at < bytes.size();) {
    std::size_t end = bytes.find('\n', at);
    const bool ended = end != std::string_view::npos;
    if (!ended) end = bytes.size();
    std::string text(bytes.substr(at, end - at));
    if (ended && text.ends_with('\r')) text.pop_back();
    lines.push_back({at, std::move(text)});
    at = end + 1;
  }
  return lines;
}

inline std::vector<std::string> model_tokens(std::string_view text, const Separators& separators) {
  std::vector<std::string> tokens;
  std::string token;
  for (const char c : text) {
    if (!separators.contains(static_cast<std::uint8_t>(c))) {
      token += c;
    } else if (!token.empty()) {
      tokens.push_back(std::move(token));
      token.clear();
    }
  }
  if (!token.empty()) tokens.push_back(std::move(token));
  return tokens;
}

inline const std::uint8_t* bytes_of(std::string_view text) {
  return reinterpret_cast<const std::uint8_t*>(text.data());
}

// A copy with nothing readable behind it, so that the address sanitizer sees each byte read too many.
inline std::shared_ptr<FileBytes> in_memory(std::string_view text, std::string name = "memory") {
  auto copy = std::make_shared<std::vector<std::uint8_t>>(text.begin(), text.end());
  copy->shrink_to_fit();
  return FileBytes::from_memory(copy->data(), copy->size(), copy, std::move(name));
}

}  // namespace headrace::test
