// The limit on what is mapped, and looking at parts of a file beyond it.
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <string>

#include "check.h"
#include "file_window.h"

using namespace headrace;

namespace {

// A file that goes when the test ends.
class TemporaryFile {
 public:
  explicit TemporaryFile(const std::string& content) {
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

std::string text_of(std::size_t size) {
  std::string text(size, ' ');
  for (std::size_t i = 0; i < size; ++i) text[i] = static_cast<char>('a' + (i * i + i / 77) % 23);
  return text;
}

bool same(const FileWindow& window, const std::string& text, std::uint64_t begin, std::uint64_t end) {
  return window.begin() <= begin && end <= window.end() && window.end() <= text.size() &&
         std::memcmp(window.at(begin), text.data() + begin, end - begin) == 0;
}

}  // namespace

TEST(counts_what_is_mapped) {
  const TemporaryFile file(text_of(8 << 20));
  const auto first = FileBytes::open(file.path()), second = FileBytes::open(file.path());
  CHECK(first->may_map(0, 1));
  CHECK(first->may_map(0, 1));  // counted once
  CHECK(first->may_map(1 << 20, (1 << 20) + (600 << 10)));
  CHECK(!second->may_map(0, second->size()));  // the limit is for all
  CHECK(first->may_map(1 << 20, (1 << 20) + (600 << 10)));
  CHECK(!first->may_map(0, first->size()));
}

TEST(gives_back_with_the_file) {
  const TemporaryFile file(text_of(900 << 10));
  for (int i = 0; i < 5; ++i) CHECK(FileBytes::open(file.path())->may_map(0, 900 << 10));
}

TEST(looks_everywhere) {
  const std::string text = text_of(12 << 20);
  const TemporaryFile file(text);
  const auto bytes = FileBytes::open(file.path());
  FileWindow window(*bytes);
  std::uint64_t at = 0;
  for (int i = 0; i < 20'000; ++i) {
    const std::uint64_t length = 1 + static_cast<std::uint64_t>(i) * 7919 % (i % 97 == 0 ? 200'000 : 900);
    if (i % 5 == 0) at = static_cast<std::uint64_t>(i) * 104'729 * 31 % text.size();
    if (at + length > text.size()) at = text.size() - length;
    window.look(at, at + length);
    CHECK(same(window, text, at, at + length));
    at += length;
  }
  window.look(0, text.size());
  CHECK(same(window, text, 0, text.size()));
}

int main() {
  ::setenv("HEADRACE_MAPPED_MB", "4", 1);
  return headrace::test::run_all();
}
