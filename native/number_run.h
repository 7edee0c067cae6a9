// Many numbers in a row, several at a time: the bulk of dense data.
#pragma once

#include <cstddef>
#include <cstdint>

namespace headrace {

struct NumberRun {
  const std::uint8_t* end;  // a blank, or where the next number begins
  std::size_t count;        // numbers read
};

// Reads numbers as parse_decimal does from `p` on, each of which a blank or tab follows; blanks may stand before the
// first. Writes at most `most` numbers, and stops before whatever is not as simple as that: parse_decimal must decide
// about it, also where it is a number all the same. Looks at kNumberRunAhead bytes from p and from each place that it
// gets to below `limit`, so that many must be readable behind the limit. T is float or double.
template <class T>
using ReadNumberRun = NumberRun (*)(const std::uint8_t* p, const std::uint8_t* limit, T* values, std::size_t most);

inline constexpr std::ptrdiff_t kNumberRunAhead = 96;

// The way to do it on this processor, or nullptr where there is none.
template <class T>
ReadNumberRun<T> number_run_reader();

}  // namespace headrace
