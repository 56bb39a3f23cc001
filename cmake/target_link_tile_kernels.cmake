#[=======================================================================[.rst:
target_link_tile_kernels
------------------------
``target_link_tile_kernels(<consumer> <PRIVATE|PUBLIC|INTERFACE> <kernels>...)``

Links targets of ``add_tile_kernel`` into a library or program, in this or any other directory: the embedded images, the
generated headers on the include path, and the build order (a plain file dependency across directories works with Ninja
and breaks with Make). CUSTOM targets give their headers and order only. A consumer that is itself a kernel target takes
over the options that the others declared PUBLIC or INTERFACE by ``target_tile_options``.

Errors: an unknown scope, a name that is no target.
#]=======================================================================]
function(target_link_tile_kernels consumer scope)
  if(NOT scope MATCHES "^(PRIVATE|PUBLIC|INTERFACE)$")
    message(FATAL_ERROR "target_link_tile_kernels(${consumer}): '${scope}' is none of PRIVATE, PUBLIC, INTERFACE")
  endif()
  if(NOT TARGET ${consumer})
    message(FATAL_ERROR "target_link_tile_kernels(${consumer}): there is no such target")
  endif()
  get_target_property(consumer_type ${consumer} TYPE)
  get_target_property(consumer_images ${consumer} TILE_IMAGES_TARGET)
  foreach(kernels IN LISTS ARGN)
    if(NOT TARGET ${kernels})
      message(FATAL_ERROR "target_link_tile_kernels(${consumer}): '${kernels}' is no target")
    endif()
    get_target_property(aliased ${kernels} ALIASED_TARGET)
    if(aliased)
      set(kernels ${aliased})
    endif()
    get_target_property(type ${kernels} TYPE)
    get_target_property(images ${kernels} TILE_IMAGES_TARGET)
    if(consumer_images)
      set_property(TARGET ${consumer} APPEND PROPERTY TILE_OPTIONS "$<TARGET_PROPERTY:${kernels},INTERFACE_TILE_OPTIONS>")
    endif()
    if(NOT type STREQUAL "UTILITY")
      target_link_libraries(${consumer} ${scope} ${kernels})
    elseif(NOT consumer_type STREQUAL "UTILITY")
      get_target_property(folder ${kernels} TILE_OUTPUT_DIRECTORY)
      target_include_directories(${consumer} ${scope} "$<BUILD_INTERFACE:${folder}>")
    endif()
    if(images)  # an imported library of an installed package has been built already
      add_dependencies(${consumer} ${images})
    endif()
  endforeach()
endfunction()
