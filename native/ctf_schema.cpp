#include "ctf_schema.h"

#include <algorithm>
#include <limits>
#include <stdexcept>

namespace headrace {

void check_schema(const CtfSchema& schema) {
  const std::size_t count = schema.streams.size();
  if (count == 0) throw std::invalid_argument("expected at least one stream, got none");
  if (schema.main < -1 || schema.main >= static_cast<int>(count)) {
    throw std::invalid_argument("there is no stream number " + std::to_string(schema.main));
  }
  for (std::size_t i = 0; i < count; ++i) {
    const CtfStream& stream = schema.streams[i];
    const auto unfit = [](char c) { return static_cast<std::uint8_t>(c) <= ' ' || c == '|'; };
    if (stream.alias.empty() || stream.alias[0] == '#' || std::ranges::any_of(stream.alias, unfit)) {
      throw std::invalid_argument(
          "expected the name of a stream without blanks or '|', and without '#' in front, got '" + stream.alias + "'");
    }
    if (stream.dim > std::numeric_limits<std::int32_t>::max()) {
      throw std::invalid_argument("expected a dim of at most 2147483647 of stream '" + stream.alias + "', got " +
                                  std::to_string(stream.dim));
    }
    for (std::size_t j = 0; j < i; ++j) {
      if (schema.streams[j].alias == stream.alias) {
        throw std::invalid_argument("two streams are called '" + stream.alias + "' in the file");
      }
    }
  }
}

}  // namespace headrace
