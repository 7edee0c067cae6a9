// Runs the parts of one call on a few threads of its own, which end with the call.
#pragma once

#include <algorithm>
#include <cstddef>
#include <exception>
#include <system_error>
#include <thread>
#include <vector>

namespace headrace {

// The number of threads to use when 0 is asked for. More than a few do not make reading memory faster.
inline unsigned threads_or_default(unsigned threads) {
  return threads != 0 ? threads : std::clamp(std::thread::hardware_concurrency(), 1u, 8u);
}

// Calls part(0) ... part(parts - 1), each on a thread; part 0 on this one. Throws the first part's error.
template <class Part>
void run_parts(std::size_t parts, const Part& part) {
  std::vector<std::exception_ptr> errors(parts);
  const auto guarded = [&](std::size_t i) noexcept {
    try {
      part(i);
    } catch (...) {
      errors[i] = std::current_exception();
    }
  };
  std::vector<std::jthread> threads;
  threads.reserve(parts);
  for (std::size_t i = 1; i < parts; ++i) {
    try {
      threads.emplace_back(guarded, i);
    } catch (const std::system_error&) {
      guarded(i);  // no more threads to be had: do it here
    }
  }
  if (parts > 0) guarded(0);
  threads.clear();  // joins
  for (const auto& error : errors) {
    if (error) std::rethrow_exception(error);
  }
}

}  // namespace headrace
