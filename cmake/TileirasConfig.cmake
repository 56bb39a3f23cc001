#[=======================================================================[.rst:
Tileiras
--------
``find_package(Tileiras [version] [CONFIG] [REQUIRED] [COMPONENTS compiler runtime shim])``

Builds CUDA Tile IR kernels (``.tileir`` text, ``.tilebc`` bytecode, cuTile Python) inside a CMake project. No CUDA
toolkit, no CUDA language and no GPU are needed: ``pip install tileiras[toolkit]`` brings everything. CMake finds it in an
active environment, under scikit-build-core, and elsewhere with ``-DTileiras_DIR=$(tileiras-config --cmake-dir)``.

Components: ``compiler`` (some ptxas was found), ``runtime`` (always there), ``shim`` (some nvcc was found).

Set by the user before ``find_package``, as variables or cache entries:

``Tileiras_TOOLKIT_ROOT``       use this CUDA toolkit, look nowhere else
``Tileiras_PYTHON_EXECUTABLE``  the Python 3.10+ that runs the compiler

Result variables:

``Tileiras_VERSION``, ``Tileiras_PYTHON_EXECUTABLE``, ``Tileiras_EXECUTABLE`` (the assembler), ``Tileiras_NVCC_EXECUTABLE``
(the nvcc shim), ``Tileiras_TOOLKIT_ROOT``, ``Tileiras_TOOLKIT_VERSION``, ``Tileiras_PTXAS_EXECUTABLE``,
``Tileiras_SUPPORTED_ARCHITECTURES``, ``Tileiras_BYTECODE_VERSIONS``, ``Tileiras_FINGERPRINT``

Imported targets:

``Tileiras::tileiras``, ``Tileiras::nvcc``  the commands, as imported executables
``Tileiras::headers``, ``Tileiras::runtime``  include path, and what the generated loaders link with
``Tileiras::capi``                          libtileiras, the compiler as a C library (where C is enabled)

Commands, each with its manual page on top of its file:

``add_tile_kernel``, ``target_link_tile_kernels``, ``target_tile_options``, ``tile_kernel_artifacts``,
``install_tile_kernels``, ``tile_kernel_matrix``, ``add_tile_test``, ``tileiras_normalize_architectures``
#]=======================================================================]
cmake_policy(PUSH)
cmake_policy(VERSION 3.20...4.0)

include("${CMAKE_CURRENT_LIST_DIR}/detail/discover.cmake")
_tileiras_discover(_tileiras_problem)

if(_tileiras_problem)
  set(Tileiras_FOUND FALSE)
  set(Tileiras_NOT_FOUND_MESSAGE "${_tileiras_problem}")
else()
  include("${CMAKE_CURRENT_LIST_DIR}/TileirasMacros.cmake")
  _tileiras_define_targets()
  _tileiras_watch_products()
  include("${CMAKE_CURRENT_LIST_DIR}/detail/capi.cmake")
  _tileiras_define_capi()

  set(Tileiras_runtime_FOUND TRUE)
  set(Tileiras_compiler_FOUND FALSE)
  set(Tileiras_shim_FOUND FALSE)
  if(Tileiras_PTXAS_EXECUTABLE)
    set(Tileiras_compiler_FOUND TRUE)
  endif()
  get_property(_tileiras_real_nvcc GLOBAL PROPERTY TILEIRAS_REAL_NVCC)
  if(_tileiras_real_nvcc)
    set(Tileiras_shim_FOUND TRUE)
  endif()
  foreach(_tileiras_component IN LISTS Tileiras_FIND_COMPONENTS)
    if(NOT _tileiras_component MATCHES "^(compiler|runtime|shim)$")
      set(Tileiras_${_tileiras_component}_FOUND FALSE)
      if(Tileiras_FIND_REQUIRED_${_tileiras_component})
        set(Tileiras_FOUND FALSE)
        set(Tileiras_NOT_FOUND_MESSAGE "there is no component '${_tileiras_component}': compiler, runtime, shim")
      endif()
    elseif(Tileiras_FIND_REQUIRED_${_tileiras_component} AND NOT Tileiras_${_tileiras_component}_FOUND)
      set(Tileiras_FOUND FALSE)
      set(Tileiras_NOT_FOUND_MESSAGE
        "component '${_tileiras_component}' needs ptxas and nvcc: pip install tileiras[toolkit] into the environment of ${Tileiras_PYTHON_EXECUTABLE}, or set Tileiras_TOOLKIT_ROOT")
    endif()
  endforeach()
  unset(_tileiras_component)
  unset(_tileiras_real_nvcc)
  set(_tileiras_said "Tileiras ${Tileiras_VERSION}: no ptxas was found (pip install tileiras[toolkit], or set Tileiras_TOOLKIT_ROOT)")
  if(Tileiras_PTXAS_EXECUTABLE)
    set(_tileiras_said "Tileiras ${Tileiras_VERSION}: CUDA toolkit ${Tileiras_TOOLKIT_VERSION}, ${Tileiras_PTXAS_EXECUTABLE}")
  endif()
  if(NOT Tileiras_FIND_QUIETLY AND NOT "${TILEIRAS_SAID}" STREQUAL "${_tileiras_said}")
    message(STATUS "${_tileiras_said}")
    set(TILEIRAS_SAID "${_tileiras_said}" CACHE INTERNAL "What find_package(Tileiras) has said, to say it once")
  endif()
  unset(_tileiras_said)
endif()
unset(_tileiras_problem)
cmake_policy(POP)
