// What a file in CNTK's text format holds, as its reader was told.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace headrace {

struct CtfStream {
  std::string alias;  // what lines call it
  bool sparse = false;
  std::uint64_t dim = 0;  // numbers in a dense sample; one more than the largest index of a sparse one
};

struct CtfSchema {
  std::vector<CtfStream> streams;
  int main = -1;             // number of the stream that defines the size of sequences; -1: their lines do
  bool require_all = false;  // a sequence without a sample of some stream is an error
};

// Throws std::invalid_argument for a schema that no file can follow.
void check_schema(const CtfSchema& schema);

}  // namespace headrace
