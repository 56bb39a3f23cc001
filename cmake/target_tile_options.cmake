#[=======================================================================[.rst:
target_tile_options
-------------------
``target_tile_options(<name> <PRIVATE|PUBLIC|INTERFACE> <option>... [<scope> <option>...]...)``

Appends options of the Tile IR compiler to a target of ``add_tile_kernel``. PRIVATE and PUBLIC reach the commands of the
target itself; PUBLIC and INTERFACE those of kernel targets that name it in ``target_link_tile_kernels``. May be called
after the kernel target was made, and takes generator expressions.

Errors: an option before the first scope; a target that ``add_tile_kernel`` did not make.
#]=======================================================================]
function(target_tile_options name)
  get_target_property(images "${name}" TILE_IMAGES_TARGET)
  if(NOT images)
    message(FATAL_ERROR "target_tile_options(${name}): not a target of add_tile_kernel")
  endif()
  set(scope "")
  foreach(word IN LISTS ARGN)
    if(word MATCHES "^(PRIVATE|PUBLIC|INTERFACE)$")
      set(scope "${word}")
      continue()
    elseif(NOT scope)
      message(FATAL_ERROR "target_tile_options(${name}): '${word}' stands before PRIVATE, PUBLIC or INTERFACE")
    endif()
    if(NOT scope STREQUAL "INTERFACE")
      set_property(TARGET ${name} APPEND PROPERTY TILE_OPTIONS "${word}")
    endif()
    if(NOT scope STREQUAL "PRIVATE")
      set_property(TARGET ${name} APPEND PROPERTY INTERFACE_TILE_OPTIONS "${word}")
    endif()
  endforeach()
endfunction()
