// The usual treatment of numbers near zero, whatever the thread has chosen.
#pragma once

#include <cfenv>

namespace headrace {

// While one lives, the thread computes as the language says: rounding to nearest, numbers near zero kept. Training
// often sets threads to treat those as zero, for speed, and even comparing and printing them then goes by that.
class UsualFloats {
 public:
  UsualFloats() {
    std::fegetenv(&before_);
    std::fesetenv(FE_DFL_ENV);
  }
  UsualFloats(const UsualFloats&) = delete;
  UsualFloats& operator=(const UsualFloats&) = delete;
  ~UsualFloats() { std::fesetenv(&before_); }

 private:
  std::fenv_t before_;
};

}  // namespace headrace
