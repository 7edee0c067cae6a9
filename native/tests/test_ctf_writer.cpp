#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "check.h"
#include "ctf_writer.h"
#include "errors.h"

using namespace headrace;

namespace {

struct Dense {
  std::vector<float> values;
  std::vector<std::int64_t> offsets;
  std::uint64_t dim;

  CtfColumn column(std::string alias) const {
    return {std::move(alias), std::span<const float>(values), dim, offsets, false, {}, {}};
  }
};

struct Rare {
  std::vector<double> values;
  std::vector<std::int32_t> indices;
  std::vector<std::int64_t> entries;
  std::vector<std::int64_t> offsets;

  CtfColumn column(std::string alias) const {
    return {std::move(alias), std::span<const double>(values), 10, offsets, true, indices, entries};
  }
};

std::string lines(const std::vector<CtfColumn>& columns, const std::vector<std::uint64_t>& ids, std::size_t begin,
                  std::size_t end) {
  Buffer<std::uint8_t> out;
  write_ctf(columns, ids, begin, end, 100, out);
  return {reinterpret_cast<const char*>(out.data()), out.size()};
}

TEST(sequences_have_a_line_a_step) {
  const Dense x{{1, -2.5f, 0.1f, 1e30f, -0.f, 7}, {0, 2, 3}, 2};
  const Rare w{{1, 0.25}, {3, 9}, {0, 1, 1, 2}, {0, 1, 3}};
  const std::vector<CtfColumn> columns = {x.column("x"), w.column("w")};
  CHECK_EQ(lines(columns, {5, 18446744073709551615u}, 0, 2),
           "5\t|x 1 -2.5 |w 3:1\n5\t|x 0.1 1e+30\n18446744073709551615\t|x -0 7 |w\n18446744073709551615\t|w 9:0.25\n");
  CHECK_EQ(lines(columns, {5, 6}, 1, 2), "6\t|x -0 7 |w\n6\t|w 9:0.25\n");
  CHECK_EQ(lines(columns, {5, 6}, 1, 1), "");
}

TEST(single_samples_need_no_ids) {
  const Dense x{{1, 2}, {0, 1, 2}, 1};
  CHECK_EQ(lines({x.column("name")}, {}, 0, 2), "|name 1\n|name 2\n");
}

TEST(what_cannot_be_written_is_named) {
  const Dense nan{{1, 2, std::nanf("")}, {0, 1, 3}, 1};
  CHECK_THROWS(lines({nan.column("x")}, {0, 1}, 0, 2), DataError, "row 101, stream 'x', sample 1 of it: the format");
  const Dense huge{{std::numeric_limits<float>::infinity()}, {0, 1}, 1};
  CHECK_THROWS(lines({huge.column("x")}, {}, 0, 1), DataError, "infinity");
  const Dense none{{1}, {0, 1, 1}, 1};
  CHECK_THROWS(lines({none.column("x")}, {0, 1}, 0, 2), DataError, "row 101: no stream has a sample");
  const Dense two{{1, 2}, {0, 2}, 1};
  CHECK_THROWS(lines({two.column("x")}, {}, 0, 1), DataError, "row 100: 2 samples need as many lines");
  const Rare outside{{1}, {10}, {0, 1}, {0, 1}};
  CHECK_THROWS(lines({outside.column("w")}, {}, 0, 1), DataError, "expected indices in [0, 10), got 10");
}

TEST(offsets_that_leave_their_values_are_refused) {
  const Dense far{{1, 2}, {0, 3}, 1};
  CHECK_THROWS(lines({far.column("x")}, {}, 0, 1), std::invalid_argument, "offsets of rows");
  const Dense falling{{1, 2}, {2, 1}, 1};
  CHECK_THROWS(lines({falling.column("x")}, {}, 0, 1), std::invalid_argument, "offsets of rows");
  const Dense few{{1, 2}, {0, 1}, 1};
  CHECK_THROWS(lines({few.column("x")}, {}, 0, 2), std::invalid_argument, "fewer rows");
  CHECK_THROWS(lines({few.column("x")}, {1}, 1, 2), std::invalid_argument, "");
  const Rare entries{{1}, {1}, {0, 2}, {0, 1}};
  CHECK_THROWS(lines({entries.column("w")}, {}, 0, 1), std::invalid_argument, "offsets of samples");
  const Rare uneven{{1, 2}, {1}, {0, 1}, {0, 1}};
  CHECK_THROWS(lines({uneven.column("w")}, {}, 0, 1), std::invalid_argument, "differ in number");
}

}  // namespace

int main() { return headrace::test::run_all(); }
