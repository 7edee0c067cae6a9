#include <utility>

#include "arrays.h"
#include "bind.h"
#include "cntk_order.h"

namespace nb = nanobind;
using namespace nb::literals;
using headrace::Buffer;
using headrace::CntkSweep;

void bind_cntk_order(nb::module_& m) {
  m.def(
      "form_chunks",
      [](const Array<std::uint64_t>& begins, const Array<std::uint64_t>& ends,
         std::uint64_t limit) -> NewArray<std::int64_t> {
        Buffer<std::int64_t> chunks;
        {
          nb::gil_scoped_release unlocked;
          chunks = headrace::form_chunks(span_of(begins), span_of(ends), limit);
        }
        return nb::cast<NewArray<std::int64_t>>(to_numpy(std::move(chunks)));
      },
      "begins"_a, "ends"_a, "limit"_a, "Where chunks of at most `limit` bytes begin, and last the number of records.");

  nb::class_<CntkSweep>(m, "CntkSweep", "One sweep in CNTK's shuffled order, made window by window.")
      .def(
          "__init__",
          [](CntkSweep* self, const Array<std::int64_t>& chunks, const Array<std::uint64_t>& samples,
             std::uint64_t window, bool in_samples, std::uint64_t seed) {
            new (self) CntkSweep(span_of(chunks), span_of(samples), {window, in_samples}, seed);
          },
          "chunks"_a, "samples"_a, "window"_a, "in_samples"_a, "seed"_a)
      .def_prop_ro("records", &CntkSweep::records)
      .def_prop_ro("position", &CntkSweep::position)
      .def(
          "next",
          [](CntkSweep& self, std::size_t count) -> NewArrays<std::int64_t, std::int64_t> {
            if (count > self.records() - self.position()) {
              throw std::invalid_argument("a sweep has no records behind its end");
            }
            Buffer<std::int64_t> records(count), homes(count);
            {
              nb::gil_scoped_release unlocked;
              self.next({records.data(), count}, {homes.data(), count});
            }
            return nb::make_tuple(to_numpy(std::move(records)), to_numpy(std::move(homes)));
          },
          "count"_a, "(record numbers, places of their chunks in the shuffled order). Not for two threads at once.");
}
