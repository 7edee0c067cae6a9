#include <nanobind/stl/string.h>

#include <stdexcept>
#include <string>
#include <utility>

#include "arrays.h"
#include "bind.h"
#include "ctf_index.h"
#include "file_bytes.h"
#include "line_index.h"

namespace nb = nanobind;
using namespace nb::literals;
using headrace::CtfIndex;
using headrace::FileBytes;

namespace {

using Tables = nb::typed<nb::tuple, bool, std::uint64_t, NewArray<std::uint64_t>, NewArray<std::uint64_t>,
                         NewArray<std::uint64_t>, NewArray<std::uint32_t>>;

}  // namespace

void bind_ctf_index(nb::module_& m) {
  m.def(
      "index_ctf",
      [](const FileBytes& file, bool skip_ids, const std::string& main, unsigned threads) -> Tables {
        CtfIndex index;
        {
          nb::gil_scoped_release unlocked;
          index = headrace::build_ctf_index(file, {skip_ids, main}, threads);
        }
        return nb::make_tuple(index.ids, index.first_line, to_numpy(std::move(index.begins)),
                              to_numpy(std::move(index.ends)), to_numpy(std::move(index.keys)),
                              to_numpy(std::move(index.samples)));
      },
      "file"_a, "skip_ids"_a = false, "main"_a = "", "threads"_a = 0,
      "(ids, first_line, begins, ends, keys, samples): where sequences are. Tables that can be told from others are "
      "empty.");
  m.def(
      "count_line_feeds",
      [](const FileBytes& file, std::uint64_t begin, std::uint64_t end) {
        if (begin > end || end > file.size()) throw std::out_of_range("the bytes are outside the file");
        file.check_unchanged();
        return headrace::count_line_feeds(file, begin, end);
      },
      "file"_a, "begin"_a, "end"_a, nb::call_guard<nb::gil_scoped_release>(),
      "Line feeds in the bytes [begin, end) of a file.");
}
