#include <pybind11/pybind11.h>

#include "launch.h"

PYBIND11_MODULE(_pybind11, m) {
  m.def("describe", &describe);
  m.def("launch", &launch);
  m.def("image", [] {
    return pybind11::bytes(reinterpret_cast<const char *>(kernels_vector_add_image), kernels_vector_add_image_size);
  });
}
