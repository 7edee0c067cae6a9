// Any bytes: the index is that of the plain model, whole and in pieces, and reading by it gives the model's lines.

#include <cstdlib>

#include "line_index.h"
#include "text_model.h"
#include "text_reader.h"
#include "utf8.h"

using namespace headrace;
using namespace headrace::test;

namespace {

void require(bool condition) {
  if (!condition) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  static const Separators kKinds[] = {Separators(), Separators(" "), Separators("a\r")};
  const Separators& separators = kKinds[data[0] % 3];
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  const auto file = in_memory(text);
  const auto lines = model_lines(text);
  const LineIndex index = build_line_index(*file, separators, 1);
  require(index.lines() == lines.size());

  LineScanner scanner(separators, 0);
  const std::size_t cut = text.size() / 2 / kBlock * kBlock;
  scanner.feed(file->data(), cut);
  scanner.feed(file->data() + cut, text.size() - cut);
  scanner.finish();
  require(scanner.tokens.size() == lines.size());

  const TextReader reader({{file, {index.starts.data(), index.starts.size()}, {}}});
  std::vector<std::int64_t> records;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    records.push_back(static_cast<std::int64_t>(lines.size() - 1 - i));
    const auto tokens = model_tokens(lines[i].text, separators).size();
    require(index.starts[i] == lines[i].start && index.tokens[i] == tokens && scanner.tokens[i] == tokens);
  }
  Buffer<std::uint8_t> read;
  Buffer<std::int64_t> offsets;
  reader.read(records, read, offsets);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const std::string line(read.data() + offsets[i], read.data() + offsets[i + 1]);
    require(line == lines[lines.size() - 1 - i].text);
  }

  const std::size_t valid = valid_utf8_prefix(file->data(), text.size());
  const auto fault = find_invalid_utf8(*file);
  require(fault ? *fault == valid && valid < text.size() : valid == text.size());
  require(valid_utf8_prefix(file->data(), valid) == valid);
  return 0;
}
