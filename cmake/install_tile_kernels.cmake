#[=======================================================================[.rst:
install_tile_kernels
--------------------
::

  install_tile_kernels(TARGETS <kernels>... [EXPORT <export>] [DESTINATION <dir>] [HEADERS_DESTINATION <dir>]
    [FORMATS <format>...] [COMPONENT <component>])

Installs targets of ``add_tile_kernel``: the library (STATIC, SHARED, MODULE, INTERFACE; in EXPORT, so that an installed package offers
it), its headers below HEADERS_DESTINATION (default ``include``; there they lie below ``<kernels>/``, as in the build), and the
images of FORMATS (default none; any of cubin fatbin json ptx tilebc) in DESTINATION/<kernels> (default
``share/<project>/tile/<kernels>``). All paths in the export are relative: the
installed tree may be moved, and its consumers need neither this package nor CUDA.

Errors: a target that ``add_tile_kernel`` did not make, a format that it does not make, and an INTERFACE library with
EMBED incbin, whose source names the image in the build tree.

OBJECT libraries: CMake installs their objects apart from any archive, which a consumer cannot link by name, so only
their headers and images are installed, with a warning when EXPORT is given.
#]=======================================================================]
function(install_tile_kernels)
  cmake_parse_arguments(PARSE_ARGV 0 install "" "EXPORT;DESTINATION;HEADERS_DESTINATION;COMPONENT" "TARGETS;FORMATS")
  _tileiras_check_keywords("install_tile_kernels" install
    "TARGETS;EXPORT;DESTINATION;HEADERS_DESTINATION;FORMATS;COMPONENT" "FORMATS" "TARGETS")
  if(NOT install_TARGETS)
    message(FATAL_ERROR "install_tile_kernels: needs TARGETS")
  endif()
  include(GNUInstallDirs)
  if(NOT install_HEADERS_DESTINATION)
    set(install_HEADERS_DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}")
  endif()
  if(NOT install_DESTINATION)
    set(install_DESTINATION "${CMAKE_INSTALL_DATADIR}/${PROJECT_NAME}/tile")
  endif()
  set(component "")
  if(install_COMPONENT)
    set(component COMPONENT "${install_COMPONENT}")
  endif()
  foreach(target IN LISTS install_TARGETS)
    get_target_property(aliased "${target}" ALIASED_TARGET)
    if(aliased)
      set(target "${aliased}")
    endif()
    get_target_property(images "${target}" TILE_IMAGES_TARGET)
    if(NOT images)
      message(FATAL_ERROR "install_tile_kernels: '${target}' is not a target of add_tile_kernel")
    endif()
    get_target_property(type "${target}" TYPE)
    get_target_property(root "${target}" TILE_OUTPUT_DIRECTORY)

    # Kernels of the same name in two source directories have their headers in two folders: keep those folders.
    get_target_property(headers "${target}" TILE_HEADER)
    if(headers)
      foreach(header IN LISTS headers)
        _tileiras_below("${root}" "${header}" place)
        get_filename_component(file "${header}" NAME)
        set(installed "${install_HEADERS_DESTINATION}/${place}/${file}")
        get_property(owner GLOBAL PROPERTY "TILEIRAS_INSTALLER_OF_${installed}")
        if(owner AND NOT owner STREQUAL target)
          message(FATAL_ERROR "install_tile_kernels: '${target}' and '${owner}' would both install ${installed}; give one of them another HEADER or HEADERS_DESTINATION")
        endif()
        set_property(GLOBAL PROPERTY "TILEIRAS_INSTALLER_OF_${installed}" "${target}")
        install(FILES "${header}" DESTINATION "${install_HEADERS_DESTINATION}/${place}" ${component})
      endforeach()
    endif()
    foreach(format IN LISTS install_FORMATS)
      tile_kernel_artifacts(${target} ${format} files)
      foreach(file IN LISTS files)
        _tileiras_below("${root}" "${file}" place)
        install(FILES "${file}" DESTINATION "${install_DESTINATION}/${target}/${place}" ${component})
      endforeach()
    endforeach()

    if(type STREQUAL "OBJECT_LIBRARY")
      if(install_EXPORT)
        message(WARNING "install_tile_kernels: '${target}' is an OBJECT library: its objects are not exported; use TYPE STATIC or SHARED")
      endif()
      continue()
    elseif(type STREQUAL "UTILITY")
      continue()
    endif()
    set(export "")
    if(install_EXPORT)
      set(export EXPORT "${install_EXPORT}")
    endif()
    if(type STREQUAL "INTERFACE_LIBRARY")
      get_target_property(embed "${target}" TILE_EMBED)
      if(embed STREQUAL "incbin")
        message(FATAL_ERROR "install_tile_kernels: the source of the INTERFACE library '${target}' reads its image from this build tree; EMBED array can be installed")
      endif()
      # Its consumers compile the generated sources themselves: install them beside the headers.
      get_target_property(sources "${target}" INTERFACE_SOURCES)
      foreach(source IN LISTS sources)
        string(REGEX REPLACE "^\\$<BUILD_INTERFACE:(.*)>$" "\\1" source "${source}")
        _tileiras_below("${root}" "${source}" place)
        get_filename_component(file "${source}" NAME)
        install(FILES "${source}" DESTINATION "${install_HEADERS_DESTINATION}/${place}" ${component})
        target_sources(${target} INTERFACE
          "$<INSTALL_INTERFACE:$<INSTALL_PREFIX>/${install_HEADERS_DESTINATION}/${place}/${file}>")
      endforeach()
    endif()
    target_include_directories(${target} INTERFACE "$<INSTALL_INTERFACE:${install_HEADERS_DESTINATION}>")
    install(TARGETS ${target} ${export}
      ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}" ${component}
      LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}" ${component}
      RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}" ${component})
  endforeach()
endfunction()

# The folder of <file> relative to <root>, "." for the root itself; textual, because paths may hold $<CONFIG>.
function(_tileiras_below root file out)
  get_filename_component(directory "${file}" DIRECTORY)
  string(LENGTH "${root}" length)
  string(FIND "${directory}" "${root}/" position)
  set(place ".")
  if(position EQUAL 0)
    math(EXPR length "${length} + 1")
    string(SUBSTRING "${directory}" ${length} -1 place)
  endif()
  set(${out} "${place}" PARENT_SCOPE)
endfunction()
