// The version of the interface between the core and the Python package.
#pragma once

namespace headrace {
inline constexpr int kCoreVersion = 1;
}
