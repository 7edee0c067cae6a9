#include "arrays.h"
#include "bind.h"
#include "pack.h"

namespace nb = nanobind;
using namespace nb::literals;

#define INTS "numpy.typing.NDArray[numpy.int64]"
#define INTS32 "numpy.typing.NDArray[numpy.int32]"

void bind_pack(nb::module_& m) {
  const auto bind = [&m](const char* name, auto pack, const char* signature, const char* doc) {
    m.def(
        name,
        [pack](const Array<std::int32_t>& lengths, std::int64_t capacity) {
          headrace::Buffer<std::int64_t> bins;
          {
            nb::gil_scoped_release unlocked;
            bins = pack(span_of(lengths), capacity);
          }
          return to_numpy(std::move(bins));
        },
        "lengths"_a, "capacity"_a, nb::sig(signature), doc);
  };
  bind("pack_first_fit", &headrace::pack_first_fit, "def pack_first_fit(lengths: " INTS32 ", capacity: int) -> " INTS,
       "The bin of each piece: the first one that has room for it.");
  bind("pack_best_fit", &headrace::pack_best_fit, "def pack_best_fit(lengths: " INTS32 ", capacity: int) -> " INTS,
       "The bin of each piece: the one that it leaves the least room in.");
}
