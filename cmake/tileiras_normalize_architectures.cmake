#[=======================================================================[.rst:
tileiras_normalize_architectures
--------------------------------
``tileiras_normalize_architectures(<outvar> <architecture>...)``

Result: in ``<outvar>`` the architectures in one spelling, ``90-real`` (becomes a cubin) and ``120-virtual`` (becomes the
forward-compatible entry of the fatbin), real ones first, each kind ascending and without duplicates.

===========================================  ====================  ====================
written                                      real                  virtual
===========================================  ====================  ====================
``100``                                      100                   100
``100-real``, ``sm_100``, ``10.0``           100
``100-virtual``, ``compute_100``                                   100
``10.0+PTX``                                 100                   100
``90a``, ``103f``                            as written            as written
``all``                                      all supported         highest generation
``all-major``                                lowest of each        highest generation
``native``                                   this machine's GPU
``cpu``                                      the processor of the host: stays ``cpu``, at the end
===========================================  ====================  ====================

Architectures that no Tile kernel can be compiled for (75 is CMake's default for CUDA with NVIDIA's compiler) are left
out with one warning. Errors: nothing remains; a word that is no architecture; ``native`` where there is no GPU.
#]=======================================================================]
function(tileiras_normalize_architectures outvar)
  _tileiras_split_architectures(real virtual ${ARGN})
  list(TRANSFORM real APPEND "-real")
  list(TRANSFORM virtual APPEND "-virtual")
  if(for_cpu)
    list(APPEND virtual cpu)
  endif()
  set(${outvar} ${real} ${virtual} PARENT_SCOPE)
endfunction()

# The same as two lists of plain numbers with their suffixes: "80;90a" and "120"; sets `for_cpu` in the caller as well.
# NVIDIA's compiler targets fewer: add_tile_kernel sets tile_COMPILER.
function(_tileiras_split_architectures real_var virtual_var)
  get_property(supported GLOBAL PROPERTY TILEIRAS_SUPPORTED_ARCHITECTURES)
  if(tile_COMPILER STREQUAL "nvidia")
    get_property(supported GLOBAL PROPERTY TILEIRAS_VENDOR_ARCHITECTURES)
  endif()
  _tileiras_majors(majors ${supported})
  set(real "")
  set(virtual "")
  set(dropped "")
  set(for_cpu FALSE)
  foreach(word IN LISTS ARGN)
    if(word STREQUAL "cpu")
      set(for_cpu TRUE)
      continue()
    elseif(word STREQUAL "all")
      list(APPEND real ${supported})
      list(GET majors -1 highest)
      list(APPEND virtual ${highest})
      continue()
    elseif(word STREQUAL "all-major")
      list(APPEND real ${majors})
      list(GET majors -1 highest)
      list(APPEND virtual ${highest})
      continue()
    elseif(word STREQUAL "native")
      _tileiras_native_architectures(native)
      list(APPEND real ${native})
      continue()
    endif()
    if(NOT word MATCHES "^(sm_|compute_|lto_)?([0-9]+)(\\.[0-9])?([af]?)(-real|-virtual|\\+PTX)?$")
      message(FATAL_ERROR "'${word}' is no architecture (examples: 90, 90a-real, 120-virtual, sm_90, compute_120, 10.0+PTX, all, all-major, native)")
    endif()
    set(prefix "${CMAKE_MATCH_1}")
    set(number "${CMAKE_MATCH_2}")
    set(minor "${CMAKE_MATCH_3}")
    set(suffix "${CMAKE_MATCH_4}")
    set(ending "${CMAKE_MATCH_5}")
    string(REPLACE "." "" dotless "${number}${minor}")
    if(suffix)
      string(TOUPPER "${suffix}" letter)
      get_property(first GLOBAL PROPERTY TILEIRAS_FIRST_${letter})
      if(dotless LESS first)
        message(FATAL_ERROR "'${word}' is no architecture: the first with '${suffix}' is ${first}${suffix}")
      endif()
    endif()
    set(is_real TRUE)
    set(is_virtual TRUE)
    if(ending STREQUAL "-real" OR (ending STREQUAL "" AND (prefix STREQUAL "sm_" OR minor)))
      set(is_virtual FALSE)
    elseif(ending STREQUAL "-virtual" OR prefix MATCHES "^(compute_|lto_)$")
      set(is_real FALSE)
    endif()
    if(NOT dotless IN_LIST supported)
      list(APPEND dropped "${word}")
      continue()
    endif()
    if(is_real)
      list(APPEND real "${dotless}${suffix}")
    endif()
    if(is_virtual)
      list(APPEND virtual "${dotless}${suffix}")
    endif()
  endforeach()
  foreach(list_name IN ITEMS real virtual dropped)
    list(REMOVE_DUPLICATES ${list_name})
    list(SORT ${list_name} COMPARE NATURAL)
  endforeach()
  string(REPLACE ";" ", " known "${supported}")
  if(dropped AND (real OR virtual OR for_cpu))
    string(REPLACE ";" ", " names "${dropped}")
    message(WARNING "no Tile kernel can be compiled for ${names}: left out (supported: ${known})")
  elseif(NOT real AND NOT virtual AND NOT for_cpu)
    string(REPLACE ";" ", " names "${dropped}")
    message(FATAL_ERROR "no architecture is left to compile for: '${names}' cannot be targeted (supported: ${known})")
  endif()
  set(${real_var} "${real}" PARENT_SCOPE)
  set(${virtual_var} "${virtual}" PARENT_SCOPE)
  set(for_cpu ${for_cpu} PARENT_SCOPE)
endfunction()

# The lowest supported architecture of each generation: 80 90 100 110 120.
function(_tileiras_majors out)
  set(majors "")
  set(seen "")
  foreach(arch IN LISTS ARGN)
    math(EXPR generation "${arch} / 10")
    if(NOT generation IN_LIST seen)
      list(APPEND seen ${generation})
      list(APPEND majors ${arch})
    endif()
  endforeach()
  set(${out} "${majors}" PARENT_SCOPE)
endfunction()

# The architectures of the GPUs in this machine. CMAKE_CUDA_ARCHITECTURES_NATIVE may hold an error text where there is
# no GPU ("No CUDA devices found.-real"), so only numbers count.
function(_tileiras_native_architectures out)
  set(found "")
  foreach(arch IN LISTS CMAKE_CUDA_ARCHITECTURES_NATIVE)
    if(arch MATCHES "^([0-9]+)[af]?(-real)?$")
      list(APPEND found "${CMAKE_MATCH_1}")
    endif()
  endforeach()
  if(NOT found)
    find_program(TILEIRAS_NVIDIA_SMI nvidia-smi)
    mark_as_advanced(TILEIRAS_NVIDIA_SMI)
    if(TILEIRAS_NVIDIA_SMI)
      execute_process(COMMAND "${TILEIRAS_NVIDIA_SMI}" --query-gpu=compute_cap --format=csv,noheader
        OUTPUT_VARIABLE capabilities ERROR_QUIET RESULT_VARIABLE status TIMEOUT 30)
      if(status EQUAL 0)
        string(REGEX MATCHALL "[0-9]+\\.[0-9]" capabilities "${capabilities}")
        string(REPLACE "." "" found "${capabilities}")
      endif()
    endif()
  endif()
  if(NOT found)
    message(FATAL_ERROR "'native' asks for the GPU of this machine, and there is none; name the architectures, for example ARCHITECTURES 90 120")
  endif()
  list(REMOVE_DUPLICATES found)
  set(${out} "${found}" PARENT_SCOPE)
endfunction()
