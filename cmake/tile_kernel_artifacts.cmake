#[=======================================================================[.rst:
tile_kernel_artifacts
---------------------
``tile_kernel_artifacts(<name> <format> <outvar> [ARCH <arch>])``

Result: in ``<outvar>`` the absolute paths of one format (cubin, fatbin, header, json, object, ptx, tilebc) of a target of
``add_tile_kernel``, sources outer, architectures inner; with ARCH (``90`` or ``sm_90``) the cubins of that architecture.
In multi-config generators the paths hold ``$<CONFIG>``.

Errors: the format or architecture was not asked for in ``add_tile_kernel``.
#]=======================================================================]
function(tile_kernel_artifacts name format outvar)
  cmake_parse_arguments(PARSE_ARGV 3 query "" "ARCH" "")
  set(properties cubin CUBINS fatbin FATBIN header HEADER json JSON object OBJECT ptx PTX tilebc TILEBC)
  list(FIND properties "${format}" index)
  if(index EQUAL -1)
    message(FATAL_ERROR "tile_kernel_artifacts(${name}): '${format}' is none of cubin fatbin header json object ptx tilebc")
  endif()
  math(EXPR index "${index} + 1")
  list(GET properties ${index} property)
  set(property "TILE_${property}")
  if(query_ARCH)
    if(NOT format STREQUAL "cubin")
      message(FATAL_ERROR "tile_kernel_artifacts(${name}): ARCH goes with the format cubin")
    endif()
    string(REGEX REPLACE "^sm_" "" arch "${query_ARCH}")
    set(property TILE_CUBIN_${arch})
  endif()
  get_target_property(paths "${name}" ${property})
  if(NOT paths)
    message(FATAL_ERROR "tile_kernel_artifacts(${name}): it makes no ${format} ${query_ARCH}; see FORMATS and ARCHITECTURES of add_tile_kernel")
  endif()
  set(${outvar} "${paths}" PARENT_SCOPE)
endfunction()
