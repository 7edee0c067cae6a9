// Reading lines by number, from files that stay and files that change, by indexes that fit and that do not.

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <random>
#include <system_error>

#include "check.h"
#include "errors.h"
#include "line_index.h"
#include "text_model.h"
#include "text_reader.h"

using namespace headrace;
using namespace headrace::test;

namespace {

// A file that goes when the test ends.
class TemporaryFile {
 public:
  explicit TemporaryFile(std::string_view content) {
    char name[] = "/tmp/headrace-test-XXXXXX";
    const int descriptor = ::mkstemp(name);
    CHECK(descriptor >= 0);
    CHECK_EQ(::write(descriptor, content.data(), content.size()), static_cast<ssize_t>(content.size()));
    ::close(descriptor);
    path_ = name;
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  ~TemporaryFile() { ::unlink(path_.c_str()); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

std::span<const std::uint64_t> starts_of(const LineIndex& index) { return {index.starts.data(), index.starts.size()}; }

std::vector<std::string> read(const TextReader& reader, const std::vector<std::int64_t>& records) {
  Buffer<std::uint8_t> data;
  Buffer<std::int64_t> offsets;
  reader.read(records, data, offsets);
  std::vector<std::string> texts;
  for (std::size_t i = 0; i < records.size(); ++i) {
    texts.emplace_back(data.data() + offsets[i], data.data() + offsets[i + 1]);
  }
  return texts;
}

}  // namespace

TEST(lines_of_several_files_are_read_in_any_order) {
  const std::vector<std::string> contents{"one\ntwo\r\n", "", "\n\nfive", "six\n"};
  std::vector<LineIndex> indexes;
  std::vector<std::string> expected;
  for (const auto& content : contents) {
    indexes.push_back(build_line_index(*in_memory(content), Separators(), 1));
    for (const auto& line : model_lines(content)) expected.push_back(line.text);
  }
  std::vector<IndexedFile> files;
  for (std::size_t i = 0; i < contents.size(); ++i)
    files.push_back({in_memory(contents[i]), starts_of(indexes[i]), {}});
  const TextReader reader(std::move(files));
  CHECK_EQ(reader.records(), static_cast<std::int64_t>(expected.size()));
  const std::vector<std::int64_t> records{5, 0, 4, 4, 1, 3, 2};
  const auto texts = read(reader, records);
  for (std::size_t i = 0; i < records.size(); ++i) CHECK_EQ(texts[i], expected[static_cast<std::size_t>(records[i])]);
  CHECK(reader.locate(2) == std::make_pair(std::size_t{2}, std::int64_t{0}));
  CHECK_THROWS(read(reader, {6}), std::out_of_range, "record 6 is not there: expected 0 to 5 (6 records)");
  CHECK_THROWS(read(reader, {-1}), std::out_of_range, "record -1 is not there");
}

TEST(an_index_that_does_not_fit_is_refused_or_gives_lines) {
  // Any 64-bit numbers as an index: each read gives a line of the file, or an error; the sanitizers see the rest.
  std::mt19937_64 random(7);
  const std::string content = "a b\nccc\r\n\nd e f\nlast";
  const auto lines = model_lines(content);
  for (int round = 0; round < 20'000; ++round) {
    std::vector<std::uint64_t> starts(4);
    for (auto& start : starts) start = random() % 8 == 0 ? random() : random() % (content.size() + 3);
    const TextReader reader({{in_memory(content), starts, {}}});
    const auto vocabulary = Vocabulary::from_words({}, std::vector<std::int64_t>{0}, "words");
    for (std::int64_t record = 0; record < 3; ++record) {
      std::string text;
      try {
        text = read(reader, {record})[0];
      } catch (const DataError&) {
        Buffer<std::int32_t> ids;
        Buffer<std::int64_t> offsets;
        CHECK_THROWS(reader.encode({&record, 1}, *vocabulary, {}, 0, ids, offsets), DataError, "does not fit the file");
        continue;
      }
      const auto start = starts[static_cast<std::size_t>(record)];
      bool found = false;
      for (const auto& line : lines) found |= line.start == start && line.text == text;
      CHECK(found);
    }
  }
}

TEST(a_mapped_file_that_changes_is_refused) {
  const TemporaryFile file("one\ntwo\nthree\n");
  const auto bytes = FileBytes::open(file.path());
  const LineIndex index = build_line_index(*bytes, Separators(), 1);
  const TextReader reader({{bytes, starts_of(index), {}}});
  CHECK_EQ(read(reader, {2})[0], "three");
  CHECK_EQ(::truncate(file.path().c_str(), 0), 0);
  CHECK_THROWS(read(reader, {2}), DataChangedError, "expected 14 bytes");
  CHECK_THROWS(build_line_index(*bytes, Separators(), 1), DataChangedError, "found 0 bytes");
  std::uint8_t scratch[4];
  CHECK_THROWS(bytes->read(8, 4, scratch), DataChangedError, "it ends after 8 bytes now");
}

TEST(a_sidecar_that_changes_is_refused) {
  const TemporaryFile sidecar("index");
  const std::string content = "one\n";
  const std::vector<std::uint64_t> starts{0, 4};
  const TextReader reader({{in_memory(content), starts, FileBytes::open(sidecar.path())}});
  CHECK_EQ(read(reader, {0})[0], "one");
  CHECK_EQ(::truncate(sidecar.path().c_str(), 1), 0);
  CHECK_THROWS(read(reader, {0}), DataChangedError, "changed while it was in use");
}

TEST(files_that_cannot_be_opened_are_named) {
  CHECK_THROWS(FileBytes::open("/tmp/headrace-none"), std::system_error, "/tmp/headrace-none");
  CHECK_THROWS(FileBytes::open("/tmp"), std::system_error, "/tmp");
  CHECK_THROWS(FileBytes::from_descriptor(-1, "closed"), std::system_error, "closed");
  const TemporaryFile empty("");
  CHECK_EQ(FileBytes::open(empty.path())->size(), 0u);
}

TEST(samples_see_both_ends_and_the_size) {
  const std::string text(1 << 20, 'x');
  const auto sample = in_memory(text)->sample();
  const TemporaryFile file(text);
  CHECK_EQ(FileBytes::open(file.path())->sample(), sample);
  for (const std::size_t place : {std::size_t{0}, std::size_t{65535}, text.size() - 1}) {
    std::string other = text;
    other[place] = 'y';
    CHECK(in_memory(other)->sample() != sample);
  }
  CHECK(in_memory(text + "x")->sample() != sample);
  CHECK(in_memory("")->sample() != in_memory(std::string(1, '\0'))->sample());
}

int main() { return headrace::test::run_all(); }
