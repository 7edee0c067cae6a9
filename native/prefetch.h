// Asks the processor to bring memory near, ahead of its use.
#pragma once

namespace headrace {

// A hint only: any address will do, and nothing is read.
inline void prefetch_address(const void* address) {
#if defined(__GNUC__) || defined(__clang__)
  __builtin_prefetch(address);
#else
  (void)address;
#endif
}

}  // namespace headrace
