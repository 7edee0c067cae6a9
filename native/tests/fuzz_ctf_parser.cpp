// Any bytes give the samples, mistakes and notes that the plain model gives, and messages can be had of all mistakes.
#include <cstdlib>
#include <string>

#include "../errors.h"
#include "ctf_opened.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace headrace;
  if (size < 1) return 0;
  const std::uint8_t choice = data[0];
  const std::string text(reinterpret_cast<const char*>(data + 1), size - 1);
  const CtfSchema schema{{{"a", false, 3}, {"x", true, 100}, {"bc", false, 1 + std::uint64_t{choice} / 16}},
                         (choice & 3) == 3 ? 1 : -1,
                         (choice & 4) != 0};
  try {
    const test::Opened opened(text, schema, (choice & 8) != 0);
    if (!opened.as_model<float>() || !opened.as_model<double>()) std::abort();
    for (const CtfFault& fault : opened.all().faults) {
      if (opened.reader.explain(fault).find(": expected ") == std::string::npos) std::abort();
    }
  } catch (const DataError&) {  // the text has no index
  }
  return 0;
}
