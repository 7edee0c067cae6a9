// Runs a fuzzer's body over inputs that are kept: a file with one input a line, its bytes in hexadecimal.
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

int main(int count, char** arguments) {
  if (count != 2) {
    std::fprintf(stderr, "usage: %s FILE\n", arguments[0]);
    return 2;
  }
  std::ifstream file(arguments[1]);
  std::size_t inputs = 0;
  for (std::string line; std::getline(file, line); ++inputs) {
    if (line.size() % 2 != 0 || line.find_first_not_of("0123456789abcdef") != std::string::npos) {
      std::fprintf(stderr, "%s, line %zu: expected pairs of hexadecimal digits\n", arguments[1], inputs + 1);
      return 2;
    }
    // A vector of its own for each, so that a read beyond its end is seen.
    std::vector<std::uint8_t> bytes;
    for (std::size_t i = 0; i < line.size(); i += 2) {
      bytes.push_back(static_cast<std::uint8_t>(std::stoi(line.substr(i, 2), nullptr, 16)));
    }
    LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
  }
  if (inputs == 0) {
    std::fprintf(stderr, "%s: no inputs\n", arguments[1]);
    return 2;
  }
  return 0;
}
