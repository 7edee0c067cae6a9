#include "bind.h"
#include "version.h"

void bind_version(nanobind::module_& m) {
  m.def(
      "core_version", [] { return headrace::kCoreVersion; },
      "The version of the native core; the package refuses to be imported with another one.");
}
