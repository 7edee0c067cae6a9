// Any bytes give the index that the plain model gives, or are refused by both.
#include <cstdlib>
#include <string>

#include "../errors.h"
#include "ctf_index_model.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace headrace;
  const std::string text(reinterpret_cast<const char*>(data), size);
  const auto file = FileBytes::from_memory(data, size, nullptr, "text");
  for (const bool skip : {false, true}) {
    for (const char* main : {"", "a"}) {
      const CtfIndexOptions options{skip, main};
      const auto wanted = test::model_ctf_index(text, options);
      try {
        const auto got = test::unfold(build_ctf_index(*file, options, 1));
        if (!wanted || got.ids != wanted->ids || got.sequences != wanted->sequences) std::abort();
      } catch (const DataError&) {
        if (wanted) std::abort();
      }
    }
  }
  return 0;
}
