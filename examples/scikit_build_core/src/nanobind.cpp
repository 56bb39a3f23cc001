#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include "launch.h"

NB_MODULE(_nanobind, m) {
  m.def("describe", &describe);
  m.def("launch", &launch);
  m.def("image", [] {
    return nanobind::bytes(reinterpret_cast<const char *>(kernels_vector_add_image), kernels_vector_add_image_size);
  });
}
