#include <stdexcept>

#include "arrays.h"
#include "bind.h"
#include "resize.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace {

using Picture = nb::ndarray<const std::uint8_t, nb::ndim<3>, nb::c_contig, nb::device::cpu>;
using NewPicture = nb::ndarray<std::uint8_t, nb::ndim<3>, nb::c_contig, nb::device::cpu>;

constexpr std::size_t kLongest = 1 << 16;

bool fits(std::size_t size) { return size >= 1 && size <= kLongest; }

}  // namespace

void bind_resize(nb::module_& m) {
  m.def(
      "resize_picture",
      [](const Picture& picture, NewPicture out, float left, float top, float right, float bottom, bool cubic) {
        const bool sizes = fits(picture.shape(0)) && fits(picture.shape(1)) && fits(out.shape(0)) && fits(out.shape(1));
        if (!sizes || picture.shape(2) != out.shape(2) || picture.shape(2) < 1 || picture.shape(2) > 4) {
          throw std::invalid_argument("pictures have sides of 1 to 65536 and equally many channels, 1 to 4");
        }
        const int height = static_cast<int>(picture.shape(0)), width = static_cast<int>(picture.shape(1));
        const bool inside = left >= 0 && top >= 0 && right <= static_cast<float>(width) &&
                            bottom <= static_cast<float>(height) && left < right && top < bottom;
        if (!inside) throw std::invalid_argument("the box lies within the picture and isn't empty");
        nb::gil_scoped_release unlocked;
        headrace::resize_picture(picture.data(), height, width, static_cast<int>(picture.shape(2)),
                                 {left, top, right, bottom},
                                 cubic ? headrace::ResizeFilter::kBicubic : headrace::ResizeFilter::kBilinear,
                                 out.data(), static_cast<int>(out.shape(0)), static_cast<int>(out.shape(1)));
      },
      "picture"_a, "out"_a, "left"_a, "top"_a, "right"_a, "bottom"_a, "cubic"_a,
      nb::sig("def resize_picture(picture: numpy.typing.NDArray[numpy.uint8], out: numpy.typing.NDArray[numpy.uint8], "
              "left: float, top: float, right: float, bottom: float, cubic: bool) -> None"),
      "Part of a picture (height, width, channels) in the size of `out`, as Pillow makes it.");
}
