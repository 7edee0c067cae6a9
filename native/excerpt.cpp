#include "excerpt.h"

#include <algorithm>
#include <cstddef>

namespace headrace {

std::string excerpt(const FileBytes& file, std::uint64_t offset) {
  if (offset >= file.size()) return "the end of the file";
  constexpr std::size_t kShown = 20;
  const auto count = static_cast<std::size_t>(std::min<std::uint64_t>(file.size() - offset, kShown));
  std::uint8_t scratch[kShown];
  const std::uint8_t* bytes = file.read(offset, count, scratch);
  if (bytes[0] == '\n' || (bytes[0] == '\r' && count > 1 && bytes[1] == '\n')) return "the end of the line";
  std::string text = "'";
  for (std::size_t i = 0; i < count && bytes[i] != '\n'; ++i) {
    const std::uint8_t byte = bytes[i];
    if (byte >= ' ' && byte < 127) {
      text += static_cast<char>(byte);
    } else {
      constexpr char kHex[] = "0123456789abcdef";
      text += {'\\', 'x', kHex[byte >> 4], kHex[byte & 15]};
    }
  }
  return text + "'";
}

}  // namespace headrace
