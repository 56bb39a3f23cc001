# Every public command of the package, one file each.
include_guard(GLOBAL)
foreach(_tileiras_file IN ITEMS
    detail/arguments detail/keywords detail/options detail/compile_commands detail/products detail/rules detail/batches
    tileiras_normalize_architectures add_tile_kernel target_link_tile_kernels target_tile_options
    tile_kernel_artifacts install_tile_kernels tile_kernel_matrix add_tile_test)
  include("${CMAKE_CURRENT_LIST_DIR}/${_tileiras_file}.cmake")
endforeach()
unset(_tileiras_file)
