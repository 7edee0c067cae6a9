// Any bytes as a vocabulary and as a text: ids are those of a map, and decoding gives the words back.

#include <cstdlib>
#include <cstring>
#include <map>

#include "errors.h"
#include "text_model.h"
#include "token_counter.h"
#include "vocabulary.h"

using namespace headrace;
using namespace headrace::test;

namespace {

void require(bool condition) {
  if (!condition) std::abort();
}

}  // namespace

// The input is split at its first '|' into words and text.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const std::size_t bar = std::min(input.find('|'), size);
  const std::string_view words = input.substr(0, bar), text = input.substr(std::min(bar + 1, size));
  const auto file = in_memory(text);

  TokenCounter counter;
  counter.count(*file, Separators(), 1);
  std::map<std::string, std::int64_t> counts;
  for (const auto& token : model_tokens(text, Separators())) ++counts[token];
  require(counter.size() == counts.size());
  for (const std::size_t i : counter.ranked(1)) {
    const auto token = counter.token(i);
    require(counter.occurrences(i) == counts[{token.begin(), token.end()}]);
  }

  std::shared_ptr<const Vocabulary> vocabulary;
  try {
    vocabulary = Vocabulary::from_file(*in_memory(words));
  } catch (const DataError&) {
    return 0;
  }
  if (vocabulary->size() == 0) return 0;
  std::map<std::string, std::int32_t> table;
  for (const auto& line : model_lines(words)) table.emplace(line.text, static_cast<std::int32_t>(table.size()));
  require(table.size() == vocabulary->size());
  Buffer<std::int32_t> ids;
  vocabulary->encode(file->data(), text.size(), file->data() + text.size(), {}, 0, ids);
  std::string joined;
  std::vector<std::int64_t> wide;
  std::size_t i = 0;
  for (const auto& token : model_tokens(text, Separators())) {
    const auto found = table.find(token);
    require(i < ids.size() && ids[i] == (found == table.end() ? 0 : found->second));
    const auto word = vocabulary->word(static_cast<std::size_t>(ids[i]));
    joined += (i == 0 ? "" : " ") + std::string(word.begin(), word.end());
    wide.push_back(ids[i++]);
  }
  require(i == ids.size());
  const std::vector<std::int64_t> offsets{0, static_cast<std::int64_t>(wide.size())};
  Buffer<std::uint8_t> decoded;
  Buffer<std::int64_t> ends;
  decode(*vocabulary, wide, offsets, 0, std::nullopt, decoded, ends);
  require(std::string(decoded.data(), decoded.data() + decoded.size()) == joined);
  return 0;
}
