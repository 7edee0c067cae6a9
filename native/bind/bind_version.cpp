#include "bind.h"

void bind_version(nanobind::module_& m) {
  m.def(
      "core_version", [] { return HEADRACE_VERSION; },
      "The release that the native core was built for; the package refuses to be imported with another one.");
}
