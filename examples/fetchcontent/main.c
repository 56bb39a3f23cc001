/* Lists the kernels of the embedded image. A GPU is not needed: nothing is loaded until the first launch. */
#include <stdio.h>

#include "vector_add_tile.h"

int main(void) {
  for (unsigned i = 0; i < vector_add_kernel_count; ++i) {
    const tileirasKernel *kernel = &vector_add_kernels[i];
    printf("%s: %u parameters, block %u, for %s\n", kernel->name, kernel->param_count, kernel->block[0], kernel->archs);
  }
  return vector_add_kernel_count == 1 && vector_add_image_size > 64 ? 0 : 1;
}
