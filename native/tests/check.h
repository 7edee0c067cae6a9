// The whole test framework: a list of named test functions, CHECK, and a main that runs them.
//
//   TEST(empty_input_has_no_lines) { CHECK_EQ(count_lines(""), 0u); }
//   int main() { return headrace::test::run_all(); }
#pragma once

#include <cstdio>
#include <exception>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

namespace headrace::test {

struct Test {
  const char* name;
  void (*body)();
};

inline std::vector<Test>& all_tests() {
  static std::vector<Test> tests;
  return tests;
}

struct Register {
  Register(const char* name, void (*body)()) { all_tests().push_back({name, body}); }
};

[[noreturn]] inline void fail(const char* file, int line, const std::string& what) {
  throw std::runtime_error(std::string(file) + ":" + std::to_string(line) + ": " + what);
}

template <typename A, typename B>
void check_equal(const A& a, const B& b, const char* text, const char* file, int line) {
  if (a == b) return;
  std::ostringstream message;
  message << text << ": " << a << " is not " << b;
  fail(file, line, message.str());
}

inline int run_all() {
  int failed = 0;
  for (const Test& test : all_tests()) {
    try {
      test.body();
      std::printf("ok    %s\n", test.name);
    } catch (const std::exception& error) {
      ++failed;
      std::printf("FAIL  %s\n      %s\n", test.name, error.what());
    }
  }
  std::printf("%zu tests, %d failed\n", all_tests().size(), failed);
  return failed == 0 ? 0 : 1;
}

}  // namespace headrace::test

#define TEST(name)                                                           \
  static void test_##name();                                                 \
  static const headrace::test::Register register_##name(#name, test_##name); \
  static void test_##name()

#define CHECK(condition)                                                               \
  do {                                                                                 \
    if (!(condition)) headrace::test::fail(__FILE__, __LINE__, "failed: " #condition); \
  } while (false)

#define CHECK_EQ(a, b) headrace::test::check_equal((a), (b), #a " == " #b, __FILE__, __LINE__)

// Passes if the expression throws this type with a message that contains the text.
#define CHECK_THROWS(expression, type, text)                                                     \
  do {                                                                                           \
    bool thrown = false;                                                                         \
    try {                                                                                        \
      (void)(expression);                                                                        \
    } catch (const type& error) {                                                                \
      thrown = true;                                                                             \
      if (std::string(error.what()).find(text) == std::string::npos)                             \
        headrace::test::fail(__FILE__, __LINE__, std::string("other message: ") + error.what()); \
    }                                                                                            \
    if (!thrown) headrace::test::fail(__FILE__, __LINE__, "did not throw: " #expression);        \
  } while (false)
