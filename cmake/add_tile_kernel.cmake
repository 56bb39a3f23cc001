#[=======================================================================[.rst:
add_tile_kernel
---------------
::

  add_tile_kernel(<name> SOURCES <file>... [TYPE OBJECT|STATIC|SHARED|MODULE|INTERFACE|CUSTOM]
    [ARCHITECTURES <arch>...] [FORMATS <format>...] [COMPILER builtin|nvidia] [LAUNCH_ABI simt|tile]
    [TENSOR_MAPS none|launcher]
    [OPT_LEVEL 0|1|2|3] [DEBUG] [LINEINFO] [SANITIZE memcheck]
    [OPTIONS <o>...] [PTXAS_OPTIONS <o>...] [FATBINARY_OPTIONS <o>...] [BYTECODE_VERSION <major.minor>]
    [ENTRIES <kernel>...] [SIGNATURE <s>...] [SYMBOL <name>...] [IMPORT_DIRECTORIES <dir>...]
    [MAX_REGISTERS <n>] [NO_SPILLS] [MAX_SHARED <bytes|100K>]
    [EMBED array|incbin|none] [COMPRESS default|size|speed|balance|none]
    [PREFIX <c-identifier>] [NAMESPACE <c++-namespace>] [HEADER <path>] [LANGUAGE C|CXX]
    [OUTPUT_DIRECTORY <dir>] [OUTPUT_NAME <stem>] [HOST_ARCH x86_64|aarch64] [HOST_OS linux|windows]
    [REMARKS <category>] [REMARKS_FILE <file>] [REPORT html|json] [LAUNCHER <command>...]
    [JOB_POOL <pool>] [JOBS <n>]
    [DEPENDS <file|target>...] [COMMENT <text>] [FOLDER <ide-folder>] [ALIAS <alias>] [EXCLUDE_FROM_ALL])

Compiles Tile IR for every architecture, bundles the images, and makes a library out of them that C and C++ programs
link with: ``target_link_tile_kernels(app PRIVATE <name>)``, then ``#include "<name>/<stem>_tile.h"``.

SOURCES            Tile IR text (``.tileir``, ``.mlir``) or bytecode (``.tilebc``, ``.tileirbc``), or a cuTile Python
                   file (``.py``, with ENTRIES and SIGNATURE). Files made during the build are fine.
TYPE               kind of the library, default OBJECT; CUSTOM makes the artefacts only and needs no C compiler.
ARCHITECTURES      see ``tileiras_normalize_architectures``; default CMAKE_TILE_ARCHITECTURES,
                   CMAKE_CUDA_ARCHITECTURES, environment TILEARCHS, CUDAARCHS. The target's property
                   TILE_ARCHITECTURES may be set afterwards, in the same directory. ``cpu`` stands beside GPUs, or alone: code
                   for the host's processor, which the launchers take where there is no driver, no device or no image
                   (environment TILEIRAS_DEVICE=auto|gpu|cpu); it needs llvmlite when building, nothing when running.
FORMATS            any of cubin fatbin tilebc ptx header json object; default fatbin header object
                   (CUSTOM: fatbin json). What another format needs is made as well. An object of a CUSTOM target
                   holds the image and its size (``<prefix>_image``), made without a compiler.
COMPILER           our compiler, or NVIDIA's own tileiras of the toolkit; default CMAKE_TILE_COMPILER, environment
                   TILEIRAS_COMPILER, builtin.
LAUNCH_ABI         simt (default): launched with an explicit block, which the header's table knows. tile: block 1,1,1.
TENSOR_MAPS        launcher: kernels may copy tensors in bulk, by descriptors that the generated launchers encode from the
                   arguments and pass as hidden parameters; needs LAUNCH_ABI simt. Default none: docs/running-kernels.md says why.
OPT_LEVEL          default 3, in the configuration Debug 0; DEBUG makes it 0. Generator expressions are fine.
DEBUG, LINEINFO    debug information; line tables for profilers. Without either: debug information in the configuration
                   Debug (line tables where OPT_LEVEL is not 0), line tables in RelWithDebInfo.
ENTRIES            kernels that must be there, and the only ones in the tables; of a cuTile file: the one function.
SIGNATURE          of a cuTile file: its parameters, as "f32[1],f32[1],=128" (arrays with their rank, scalars, constants);
                   several signatures make several kernels. See ``tileiras-build export --help``.
SYMBOL             names of the kernels that the signatures make, as many as there are signatures; the launchers are named
                   alike. Default the names of cuda-tile, which say every type.
IMPORT_DIRECTORIES where a cuTile file imports modules from, besides its own folder.
MAX_REGISTERS, NO_SPILLS, MAX_SHARED
                   budgets: an image with a kernel that exceeds one fails the build.
REMARKS            category of optimisation remarks: all, memory, tensorcore. They are written beside the image as YAML, or to
                   REMARKS_FILE, into whose name stem and architecture go where there are several images.
REPORT             html or json: a report of each image beside it, which explains the compile (docs/report.md). Not with
                   COMPILER nvidia.
EMBED              how the image gets into the program: a C array, ``.incbin`` (GNU and Clang), or none: the program links
                   with an object that defines ``<prefix>_image`` and its size, such as TILE_OBJECT of a CUSTOM target.
                   Default array; libraries of many sources take incbin where their compiler reads it (docs/cmake.md).
PREFIX             of every C name in the header; default <name>_<stem> (only <stem> where both are the same; with
                   several sources and PREFIX: PREFIX_stem); a number follows where two sources of a target give one
                   identifier. Two targets of a build tree cannot have the same.
HEADER             where the header goes, relative to the output directory, which is on the include path: a/b.h is
                   included as "a/b.h". Default ``<name>/<stem>_tile.h``.
OUTPUT_DIRECTORY   default ``<binary dir>/<name>.tile``, with the configuration below it in multi-config generators.

Result: the target ``<name>`` with the properties TILE_CUBINS, TILE_CUBIN_<arch>, TILE_FATBIN, TILE_HEADER, TILE_JSON,
TILE_PTX, TILE_TILEBC, TILE_OBJECT, TILE_REPORT (absolute paths, sources outer, architectures inner), TILE_ARCHITECTURES, TILE_OPT_LEVEL,
TILE_OPTIONS, TILE_PTXAS_OPTIONS, TILE_HOST_ARCH, TILE_HOST_OS, TILE_COMPILER_LAUNCHER, TILE_FORMATS, TILE_EMBED. The target
``<name>_images`` builds the artefacts alone. In multi-config generators the paths hold ``$<CONFIG>``: write
``$<TARGET_GENEX_EVAL:k,$<TARGET_PROPERTY:k,TILE_FATBIN>>`` there, or use ``tile_kernel_artifacts``.

From eight sources on, one command makes all artefacts of several sources; see docs/cmake.md.

Errors: configuring stops, naming the argument, when a source does not exist, no architecture is left, a value is none
that the argument takes, or a format needs another TYPE or COMPILER. A failing compile leaves no output behind.
#]=======================================================================]
function(add_tile_kernel name)
  _tileiras_options()
  set(flags ${_option_flags} EXCLUDE_FROM_ALL)
  set(single ${_option_single} TYPE OUTPUT_DIRECTORY OUTPUT_NAME JOB_POOL COMMENT FOLDER ALIAS)
  set(several ${_option_several} SOURCES DEPENDS)
  set(lists SOURCES ARCHITECTURES FORMATS)  # of which no word looks like a keyword
  set(words ${several})
  list(REMOVE_ITEM words ${lists})
  cmake_parse_arguments(PARSE_ARGV 1 tile "${flags}" "${single}" "${several}")
  _tileiras_check_keywords("add_tile_kernel(${name})" tile "${flags};${single};${several}" "${lists}" "${words}")
  _tileiras_check_arguments()

  _tileiras_default_architectures(wanted ${name} ${tile_ARCHITECTURES})
  _tileiras_budget_options(budgets)
  get_property(is_multi_config GLOBAL PROPERTY GENERATOR_IS_MULTI_CONFIG)
  set(folder "${CMAKE_CURRENT_BINARY_DIR}/${name}.tile")
  if(tile_OUTPUT_DIRECTORY)
    get_filename_component(folder "${tile_OUTPUT_DIRECTORY}" ABSOLUTE BASE_DIR "${CMAKE_CURRENT_BINARY_DIR}")
  endif()
  if(is_multi_config AND NOT folder MATCHES "\\$<CONFIG>")
    string(APPEND folder "/$<CONFIG>")
  endif()

  # The target of the artefacts exists first: it carries the properties that the rules read.
  set(images ${name}_images)
  set(all ALL)
  if(tile_EXCLUDE_FROM_ALL OR NOT tile_TYPE STREQUAL "CUSTOM")
    set(all "")
  endif()
  if(tile_TYPE STREQUAL "CUSTOM")
    add_custom_target(${name} ${all})
  elseif(tile_TYPE STREQUAL "INTERFACE")
    add_library(${name} INTERFACE)
  else()
    set(exclude "")
    if(tile_EXCLUDE_FROM_ALL)
      set(exclude EXCLUDE_FROM_ALL)
    endif()
    add_library(${name} ${tile_TYPE} ${exclude})
  endif()
  _tileiras_set_properties()

  _tileiras_stems(stems ${tile_SOURCES})
  if(tile_OUTPUT_NAME)
    set(stems "${tile_OUTPUT_NAME}")
  endif()

  # What can be known now, so that properties and paths may be asked for; the commands follow at the end of the
  # directory, when all properties of the target have been set.
  set(prefixes "")
  foreach(source stem IN ZIP_LISTS tile_SOURCES stems)
    _tileiras_prefix(prefix "${source}" "${stem}")
    list(APPEND prefixes "${prefix}")
  endforeach()
  set(planning TRUE)
  _tileiras_make_artefacts()
  if(tile_FOLDER)
    set_target_properties(${name} PROPERTIES FOLDER "${tile_FOLDER}")
  endif()
  _tileiras_finish_library()
  if(tile_ALIAS)
    add_library(${tile_ALIAS} ALIAS ${name})
  endif()
  _tileiras_save_variables()
  cmake_language(EVAL CODE "cmake_language(DEFER CALL _tileiras_add_rules [==[${name}]==])")
endfunction()

# The commands of a target, from its properties as they are at the end of its directory.
function(_tileiras_add_rules name)
  _tileiras_restore_variables()
  get_target_property(asked ${name} TILE_ARCHITECTURES)
  if(NOT asked)
    message(FATAL_ERROR "add_tile_kernel(${name}): its property TILE_ARCHITECTURES is empty: an image is always for some architecture")
  endif()
  set(wanted "${asked}")
  set(planning FALSE)
  get_target_property(tested ${name} TILE_TESTED)
  if(tested AND NOT "ptx" IN_LIST tile_FORMATS)
    list(APPEND tile_FORMATS ptx)  # what a test of this image executes
  endif()

  # Make does not notice a changed command line, nor that an image was taken out of a container: these files tell it.
  set(records "${CMAKE_CURRENT_BINARY_DIR}/CMakeFiles/${name}.tile")
  set(record "")
  if(is_multi_config)
    set(record "-$<CONFIG>")
  endif()
  set(options_file "${records}/options${record}.txt")
  set(bundle_file "${records}/bundle${record}.txt")
  _tileiras_split_architectures(real virtual ${wanted})
  _tileiras_compile_options(compile_options)
  _tileiras_batch_size(batch)
  _tileiras_batch_embed(batch_embed)
  file(GENERATE OUTPUT "${options_file}" CONTENT
    "${compile_options} ${budgets}\n${tile_SIGNATURE} ${tile_SYMBOL} ${tile_IMPORT_DIRECTORIES} ${tile_REMARKS} ${tile_REMARKS_FILE} ${tile_REPORT}\n")
  file(GENERATE OUTPUT "${bundle_file}" CONTENT
    "${real} ${virtual} ${for_cpu} ${stems}\n$<TARGET_GENEX_EVAL:${name},$<TARGET_PROPERTY:${name},TILE_FATBINARY_OPTIONS>> ${tile_COMPRESS}\n${tile_PREFIX} ${tile_NAMESPACE} ${batch_embed} ${tile_LANGUAGE} ${tile_HEADER}\n")

  foreach(property IN LISTS planned)
    set_property(TARGET ${name} PROPERTY ${property})
  endforeach()
  _tileiras_make_artefacts()

  set(all "")
  if(tile_TYPE STREQUAL "INTERFACE" AND NOT tile_EXCLUDE_FROM_ALL)
    set(all ALL)  # nothing builds an INTERFACE library, but installing it needs its files
  endif()
  add_custom_target(${images} ${all} DEPENDS ${products})
  get_target_property(leftovers ${name} TILE_LEFTOVERS)
  set_property(TARGET ${images} PROPERTY ADDITIONAL_CLEAN_FILES ${leftovers})
  if(tile_FOLDER)
    set_target_properties(${images} PROPERTIES FOLDER "${tile_FOLDER}")
  endif()
  add_dependencies(${name} ${images})
  _tileiras_note_products(${name} ${leftovers} ${artefacts})
endfunction()

# Every artefact of every source: paths and properties while planning, then the commands. Sets in the caller `products`
# (built by <name>_images), `artefacts` (every file), `generated` (compiled into the library) and `planned` (properties).
macro(_tileiras_make_artefacts)
  _tileiras_split_architectures(real virtual ${wanted})
  if(NOT real AND tile_LAUNCH_ABI STREQUAL "tile" AND "header" IN_LIST tile_FORMATS)
    message(FATAL_ERROR "add_tile_kernel(${name}): a header needs one real architecture with LAUNCH_ABI tile: Tile IR alone does not tell how a kernel is launched")
  endif()
  if(for_cpu AND tile_COMPILER STREQUAL "nvidia")
    message(FATAL_ERROR "add_tile_kernel(${name}): ARCHITECTURES cpu needs COMPILER builtin: NVIDIA's compiler makes no code for the CPU")
  endif()
  if(for_cpu AND budgets)
    message(FATAL_ERROR "add_tile_kernel(${name}): MAX_REGISTERS, NO_SPILLS and MAX_SHARED are budgets of a GPU's image: not with ARCHITECTURES cpu")
  endif()
  if(for_cpu AND NOT "header" IN_LIST tile_FORMATS)
    message(FATAL_ERROR "add_tile_kernel(${name}): ARCHITECTURES cpu needs FORMATS header: the code lies in its source")
  endif()
  if(for_cpu AND NOT real AND NOT virtual AND NOT tile_EMBED STREQUAL "array")
    message(FATAL_ERROR "add_tile_kernel(${name}): EMBED ${tile_EMBED} has no image to embed with ARCHITECTURES cpu alone")
  endif()
  if(budgets AND NOT real)
    message(FATAL_ERROR "add_tile_kernel(${name}): MAX_REGISTERS, NO_SPILLS and MAX_SHARED need a real architecture: what portable code uses is decided by the driver")
  endif()
  set(planned TILE_SOURCES TILE_CUBINS TILE_TILEBC TILE_PTX TILE_JSON TILE_FATBIN TILE_HEADER TILE_LEFTOVERS)
  if(tile_TYPE STREQUAL "CUSTOM")
    list(APPEND planned TILE_OBJECT)  # of a library: the objects that CMake's own compiler makes
  endif()
  foreach(_arch IN LISTS real)
    list(APPEND planned TILE_CUBIN_${_arch})
  endforeach()
  set(products "")
  set(artefacts "")
  set(generated "")
  _tileiras_batch_size(batch)
  foreach(source stem prefix IN ZIP_LISTS tile_SOURCES stems prefixes)
    _tileiras_kernel_source("${source}" "${stem}" "${prefix}")
  endforeach()
  if(batch AND NOT planning)
    _tileiras_rule_batches()
  endif()
endmacro()

# A function's variables, kept in properties until the end of the directory.
macro(_tileiras_save_variables)
  get_cmake_property(_variables VARIABLES)
  set(_kept "")
  foreach(_variable IN LISTS _variables)
    if(_variable MATCHES "^tile_[A-Z_]+$" OR _variable MATCHES "^(is_multi_config|folder|images|stems|prefixes|budgets|planned)$")
      set_property(TARGET ${name} PROPERTY _TILE_SAVED_${_variable} "${${_variable}}")
      list(APPEND _kept ${_variable})
    endif()
  endforeach()
  set_property(TARGET ${name} PROPERTY _TILE_SAVED "${_kept}")
endmacro()

macro(_tileiras_restore_variables)
  get_target_property(_kept ${name} _TILE_SAVED)
  foreach(_variable IN LISTS _kept)
    get_property(${_variable} TARGET ${name} PROPERTY _TILE_SAVED_${_variable})
  endforeach()
endmacro()

# Everything for one source. Appends to `products`, `artefacts` and `generated`.
function(_tileiras_kernel_source source stem prefix)
  _tileiras_source_path(path "${source}")
  if(path MATCHES "\\.py$")
    _tileiras_rule_export(path "${path}" "${stem}")
    set(tile_ENTRIES "")  # the export names the kernels; the symbols are mangled by the frontend
    _tileiras_compile_options(compile_options)
  endif()
  set(made "")

  set(entries "")
  set(files "")
  set(jsons "")
  foreach(arch IN LISTS real)
    _tileiras_rule_cubin(cubin json "${path}" "${stem}" "${arch}")
    list(APPEND entries --elf "sm_${arch}=${cubin}")
    list(APPEND files "${cubin}")
    list(APPEND jsons "${json}")
    set_property(TARGET ${name} APPEND PROPERTY TILE_CUBINS "${cubin}")
    set_property(TARGET ${name} APPEND PROPERTY TILE_CUBIN_${arch} "${cubin}")
    if("cubin" IN_LIST tile_FORMATS OR "ptx" IN_LIST tile_FORMATS)
      list(APPEND made "${cubin}")
    endif()
  endforeach()

  set(bytecode "")
  if("tilebc" IN_LIST tile_FORMATS OR (virtual AND tile_LAUNCH_ABI STREQUAL "tile"))
    _tileiras_rule_bytecode(bytecode "${path}" "${stem}")
    set_property(TARGET ${name} APPEND PROPERTY TILE_TILEBC "${bytecode}")
    if("tilebc" IN_LIST tile_FORMATS)
      list(APPEND made "${bytecode}")
    endif()
  endif()
  if("fatbin" IN_LIST tile_FORMATS OR "ptx" IN_LIST tile_FORMATS)
    foreach(arch IN LISTS virtual)
      if(tile_LAUNCH_ABI STREQUAL "tile")
        # The forward-compatible part of a tile image is the Tile IR itself: the driver compiles it for a later GPU.
        list(APPEND entries --tileir "compute_${arch}=${bytecode}")
        list(APPEND files "${bytecode}")
      else()
        _tileiras_rule_ptx(ptx json "${path}" "${stem}" "${arch}")
        list(APPEND jsons "${json}")
        list(APPEND entries --ptx "compute_${arch}=${ptx}")
        list(APPEND files "${ptx}")
        set_property(TARGET ${name} APPEND PROPERTY TILE_PTX "${ptx}")
        if("ptx" IN_LIST tile_FORMATS)
          list(APPEND made "${ptx}")
        endif()
      endif()
    endforeach()
  endif()

  if(for_cpu)
    _tileiras_rule_cpu(json "${path}" "${stem}")
    list(APPEND jsons "${json}")
  endif()

  set_property(TARGET ${name} APPEND PROPERTY TILE_SOURCES "${path}")
  set_property(TARGET ${name} APPEND PROPERTY TILE_JSON ${jsons})
  if("json" IN_LIST tile_FORMATS)
    list(APPEND made ${jsons})
  endif()

  set(fatbin "")
  if("fatbin" IN_LIST tile_FORMATS AND entries)  # with ARCHITECTURES cpu alone there is no image
    _tileiras_rule_fatbin(fatbin "${stem}" ENTRIES ${entries} FILES ${files})
    set_property(TARGET ${name} APPEND PROPERTY TILE_FATBIN "${fatbin}")
    list(APPEND made "${fatbin}")
  endif()
  if("object" IN_LIST tile_FORMATS AND tile_TYPE STREQUAL "CUSTOM")
    _tileiras_rule_object(object "${stem}" "${prefix}" "${fatbin}")
    set_property(TARGET ${name} APPEND PROPERTY TILE_OBJECT "${object}")
    list(APPEND made "${object}")
  endif()
  if("header" IN_LIST tile_FORMATS)
    _tileiras_rule_header(header code "${stem}" "${prefix}" "${fatbin}" JSON ${jsons})
    set_property(TARGET ${name} APPEND PROPERTY TILE_HEADER "${header}")
    list(APPEND made "${header}" "${code}")
    set(generated "${generated};${code}" PARENT_SCOPE)
  endif()
  list(APPEND products ${made})
  set(products "${products}" PARENT_SCOPE)
  set(made_of_${prefix} "${made}" PARENT_SCOPE)
  set(files_of_${prefix} "${files};${jsons}" PARENT_SCOPE)
  list(APPEND artefacts ${files} ${jsons} ${made})
  set(artefacts "${artefacts}" PARENT_SCOPE)
endfunction()

# What the C names of one source begin with: the target and the stem, or what PREFIX says; unique in the build tree.
function(_tileiras_prefix out source stem)
  _tileiras_identifier(own "${stem}")
  _tileiras_identifier(target "${name}")
  list(LENGTH tile_SOURCES count)
  if(tile_PREFIX AND count EQUAL 1)
    set(prefix "${tile_PREFIX}")
  elseif(tile_PREFIX)
    set(prefix "${tile_PREFIX}_${own}")
  elseif(own STREQUAL target)
    set(prefix "${own}")
  else()
    set(prefix "${target}_${own}")
  endif()
  set(number 2)  # "a b" and "a_b" are two files, but one identifier
  set(unique "${prefix}")
  while(unique IN_LIST prefixes)
    set(unique "${prefix}_${number}")
    math(EXPR number "${number} + 1")
  endwhile()
  set(defines "")  # EMBED none leaves the image to an object of another target, of the same PREFIX
  if(NOT tile_TYPE STREQUAL "CUSTOM")
    list(APPEND defines FUNCTIONS)
  endif()
  if((NOT tile_TYPE STREQUAL "CUSTOM" AND NOT tile_EMBED STREQUAL "none") OR (tile_TYPE STREQUAL "CUSTOM" AND "object" IN_LIST tile_FORMATS))
    list(APPEND defines IMAGE)
  endif()
  foreach(what IN LISTS defines)
    get_property(owner GLOBAL PROPERTY TILEIRAS_${what}_OF_${unique})
    if(owner)
      message(FATAL_ERROR "add_tile_kernel(${name}): the C names of '${source}' would begin with '${unique}_', as those of ${owner} do; choose another PREFIX")
    endif()
    set_property(GLOBAL PROPERTY TILEIRAS_${what}_OF_${unique} "'${source}' of the target ${name}")
  endforeach()
  set(${out} "${unique}" PARENT_SCOPE)
endfunction()

# The absolute path of a source; a relative one is looked for as add_library does.
function(_tileiras_source_path out source)
  if(source MATCHES "\\$<" OR IS_ABSOLUTE "${source}")
    set(path "${source}")
  elseif(EXISTS "${CMAKE_CURRENT_SOURCE_DIR}/${source}")
    set(path "${CMAKE_CURRENT_SOURCE_DIR}/${source}")
  else()
    set(path "${CMAKE_CURRENT_BINARY_DIR}/${source}")
  endif()
  if(NOT path MATCHES "\\$<")
    get_filename_component(path "${path}" ABSOLUTE)  # a/../k.tileir and k.tileir are one file
  endif()
  if(NOT path MATCHES "\\$<" AND NOT EXISTS "${path}")
    get_source_file_property(is_generated "${path}" GENERATED)
    if(NOT is_generated)
      message(FATAL_ERROR "add_tile_kernel(${name}): cannot find source file '${source}'")
    endif()
  endif()
  if(IS_DIRECTORY "${path}")
    message(FATAL_ERROR "add_tile_kernel(${name}): the source '${source}' is a directory")
  endif()
  if(NOT path MATCHES "\\.(tileir|tilebc|tileirbc|mlir|bc|py)$" AND NOT path MATCHES "\\$<")
    message(FATAL_ERROR "add_tile_kernel(${name}): '${source}' is no Tile IR file (.tileir .mlir .tilebc .tileirbc) and no cuTile file (.py)")
  endif()
  if(path MATCHES "\\.py$" AND (NOT tile_ENTRIES OR NOT tile_SIGNATURE))
    message(FATAL_ERROR "add_tile_kernel(${name}): the cuTile source '${source}' needs ENTRIES and SIGNATURE")
  endif()
  if(path MATCHES "\\.py$" AND tile_ENTRIES MATCHES ";")
    message(FATAL_ERROR "add_tile_kernel(${name}): ENTRIES names one function of a cuTile source; make one target for each")
  endif()
  set(${out} "${path}" PARENT_SCOPE)
endfunction()

# Stops where a value is given that the option does not take (detail/options.cmake).
macro(_tileiras_check_value keyword value)
  if(NOT "${value}" STREQUAL "" AND NOT "${value}" MATCHES "^(${_values_${keyword}})$")
    message(FATAL_ERROR "add_tile_kernel(${name}): ${keyword} '${value}' ${_verdict_${keyword}}")
  endif()
endmacro()

macro(_tileiras_check_arguments)
  if(TARGET ${name})
    message(FATAL_ERROR "add_tile_kernel(${name}): there is already a target of this name")
  endif()
  if(NOT tile_SOURCES)
    message(FATAL_ERROR "add_tile_kernel(${name}): SOURCES is empty")
  endif()
  list(REMOVE_DUPLICATES tile_SOURCES)  # as add_library does
  foreach(_source IN LISTS tile_SOURCES)
    if(_source MATCHES ";")
      message(FATAL_ERROR "add_tile_kernel(${name}): SOURCES: to CMake, '${_source}' is a list: a file's name cannot hold ';'")
    endif()
  endforeach()
  if(NOT tile_TYPE)
    set(tile_TYPE OBJECT)
  endif()
  if(NOT tile_TYPE MATCHES "^(OBJECT|STATIC|SHARED|MODULE|INTERFACE|CUSTOM)$")
    message(FATAL_ERROR "add_tile_kernel(${name}): TYPE '${tile_TYPE}' is none of OBJECT, STATIC, SHARED, MODULE, INTERFACE, CUSTOM")
  endif()

  set(_compiler builtin)
  if(NOT "$ENV{TILEIRAS_COMPILER}" STREQUAL "")
    set(_compiler "$ENV{TILEIRAS_COMPILER}")
  endif()
  _tileiras_default(tile_COMPILER COMPILER "${tile_COMPILER}" "${_compiler}")
  _tileiras_check_value(COMPILER "${tile_COMPILER}")
  if(tile_COMPILER STREQUAL "nvidia")
    get_property(_vendor GLOBAL PROPERTY TILEIRAS_VENDOR_EXECUTABLE)
    if(NOT _vendor)
      message(FATAL_ERROR "add_tile_kernel(${name}): COMPILER nvidia needs NVIDIA's tileiras, and none was found (pip install cuda-tile[tileiras], or set Tileiras_TOOLKIT_ROOT)")
    endif()
    _tileiras_default(tile_LAUNCH_ABI LAUNCH_ABI "${tile_LAUNCH_ABI}" tile)
    if(NOT tile_LAUNCH_ABI STREQUAL "tile")
      message(FATAL_ERROR "add_tile_kernel(${name}): COMPILER nvidia makes LAUNCH_ABI tile only")
    endif()
  endif()
  _tileiras_default(tile_LAUNCH_ABI LAUNCH_ABI "${tile_LAUNCH_ABI}" simt)
  _tileiras_check_value(LAUNCH_ABI "${tile_LAUNCH_ABI}")
  _tileiras_check_value(TENSOR_MAPS "${tile_TENSOR_MAPS}")
  if(tile_TENSOR_MAPS STREQUAL "launcher" AND NOT tile_LAUNCH_ABI STREQUAL "simt")
    message(FATAL_ERROR "add_tile_kernel(${name}): TENSOR_MAPS launcher needs LAUNCH_ABI simt, which COMPILER builtin makes")
  endif()

  set(_formats fatbin header object)
  if(tile_TYPE STREQUAL "CUSTOM")
    set(_formats fatbin json)
  endif()
  _tileiras_default(tile_FORMATS FORMATS "${tile_FORMATS}" "${_formats}")
  foreach(_format IN LISTS tile_FORMATS)
    if(NOT _format MATCHES "^(${_values_FORMATS})$")
      message(FATAL_ERROR "add_tile_kernel(${name}): FORMATS has '${_format}', which ${_verdict_FORMATS}")
    endif()
  endforeach()
  if("ptx" IN_LIST tile_FORMATS AND tile_COMPILER STREQUAL "nvidia")
    message(FATAL_ERROR "add_tile_kernel(${name}): FORMATS ptx needs COMPILER builtin; NVIDIA's assembler does not write PTX")
  endif()
  if(NOT tile_TYPE STREQUAL "CUSTOM")
    list(APPEND tile_FORMATS header)
  endif()
  if("header" IN_LIST tile_FORMATS OR "object" IN_LIST tile_FORMATS)
    list(APPEND tile_FORMATS fatbin)
  endif()
  list(REMOVE_DUPLICATES tile_FORMATS)

  get_property(_languages GLOBAL PROPERTY ENABLED_LANGUAGES)
  if(NOT tile_LANGUAGE)
    set(tile_LANGUAGE C)
    if(NOT "C" IN_LIST _languages AND "CXX" IN_LIST _languages)
      set(tile_LANGUAGE CXX)
    endif()
  endif()
  _tileiras_check_value(LANGUAGE "${tile_LANGUAGE}")
  if(NOT tile_TYPE STREQUAL "CUSTOM" AND NOT tile_LANGUAGE IN_LIST _languages)
    message(FATAL_ERROR "add_tile_kernel(${name}): TYPE ${tile_TYPE} needs a compiler for ${tile_LANGUAGE}: project(... LANGUAGES ${tile_LANGUAGE}), or TYPE CUSTOM")
  endif()
  set(tile_EMBED_CHOSEN FALSE)
  if(NOT tile_EMBED AND NOT CMAKE_TILE_EMBED)
    set(tile_EMBED_CHOSEN TRUE)  # by CMake: a batch may read images in another way
  endif()
  _tileiras_default(tile_EMBED EMBED "${tile_EMBED}" array)
  _tileiras_check_value(EMBED "${tile_EMBED}")
  _tileiras_check_value(COMPRESS "${tile_COMPRESS}")
  list(LENGTH tile_SOURCES _count)
  foreach(_argument IN ITEMS HEADER OUTPUT_NAME)
    if(tile_${_argument} AND _count GREATER 1)
      message(FATAL_ERROR "add_tile_kernel(${name}): ${_argument} names one file, but there are ${_count} SOURCES")
    endif()
  endforeach()
  if(tile_BYTECODE_VERSION)
    get_property(_versions GLOBAL PROPERTY TILEIRAS_BYTECODE_VERSIONS)
    if(NOT tile_BYTECODE_VERSION IN_LIST _versions)
      message(FATAL_ERROR "add_tile_kernel(${name}): BYTECODE_VERSION ${tile_BYTECODE_VERSION} is unknown (${_versions})")
    endif()
  endif()
  if(tile_DEBUG)
    if(tile_OPT_LEVEL AND NOT tile_OPT_LEVEL MATCHES "\\$<")
      message(FATAL_ERROR "add_tile_kernel(${name}): DEBUG needs OPT_LEVEL 0; optimised code cannot be debugged")
    elseif(NOT tile_OPT_LEVEL)
      set(tile_OPT_LEVEL 0)
    endif()
  endif()
  set(_level "$<IF:$<CONFIG:Debug>,0,3>")
  if(tile_LINEINFO OR tile_SANITIZE)
    set(_level 3)
  endif()
  _tileiras_default(tile_OPT_LEVEL OPT_LEVEL "${tile_OPT_LEVEL}" "${_level}")
  foreach(_argument IN LISTS tile_KEYWORDS_MISSING_VALUES)
    message(FATAL_ERROR "add_tile_kernel(${name}): ${_argument} has no value")
  endforeach()
  # What would otherwise be found out by every command of the build. Values may be generator expressions.
  foreach(_argument IN ITEMS OPT_LEVEL SANITIZE HOST_ARCH HOST_OS REMARKS REPORT MAX_REGISTERS JOBS MAX_SHARED)
    if(NOT "${tile_${_argument}}" MATCHES "\\$<")
      _tileiras_check_value(${_argument} "${tile_${_argument}}")
    endif()
  endforeach()
  foreach(_row IN ITEMS
      "PREFIX|[A-Za-z_][A-Za-z0-9_]*|is no C identifier"
      "NAMESPACE|[A-Za-z_][A-Za-z0-9_]*(::[A-Za-z_][A-Za-z0-9_]*)*|is no C++ namespace")
    string(REGEX MATCH "^([A-Z_]+)[|](.*)[|]([^|]*)$" _matched "${_row}")
    set(_argument "${CMAKE_MATCH_1}")
    set(_pattern "${CMAKE_MATCH_2}")
    set(_verdict "${CMAKE_MATCH_3}")
    if(NOT "${tile_${_argument}}" STREQUAL "" AND NOT "${tile_${_argument}}" MATCHES "^(${_pattern}|.*\\$<.*)$")
      message(FATAL_ERROR "add_tile_kernel(${name}): ${_argument} '${tile_${_argument}}' ${_verdict}")
    endif()
  endforeach()
  foreach(_argument IN ITEMS SIGNATURE SYMBOL IMPORT_DIRECTORIES)
    if(tile_${_argument} AND NOT "${tile_SOURCES};" MATCHES "(\\.py|>);")
      message(FATAL_ERROR "add_tile_kernel(${name}): ${_argument} is for cuTile sources, and no source is a .py file")
    endif()
  endforeach()
  if(tile_SYMBOL)
    list(LENGTH tile_SYMBOL _symbols)
    list(LENGTH tile_SIGNATURE _signatures)
    if(NOT _symbols EQUAL _signatures)
      message(FATAL_ERROR "add_tile_kernel(${name}): SYMBOL has ${_symbols} names for ${_signatures} signatures")
    endif()
  endif()
  if(tile_REPORT AND tile_COMPILER STREQUAL "nvidia")
    message(FATAL_ERROR "add_tile_kernel(${name}): REPORT needs COMPILER builtin: NVIDIA's compiler does not tell what a report shows")
  endif()
  if(tile_REMARKS_FILE AND NOT tile_REMARKS)
    message(FATAL_ERROR "add_tile_kernel(${name}): REMARKS_FILE needs REMARKS: which remarks it is to hold")
  endif()
endmacro()

function(_tileiras_set_properties)
  if(NOT tile_HOST_ARCH OR NOT tile_HOST_OS)
    _tileiras_host(host_arch host_os)
  endif()
  _tileiras_default(host_arch HOST_ARCH "${tile_HOST_ARCH}" "${host_arch}")
  _tileiras_default(host_os HOST_OS "${tile_HOST_OS}" "${host_os}")
  _tileiras_default(options OPTIONS "" "")
  _tileiras_default(ptxas_options PTXAS_OPTIONS "" "")
  list(APPEND options ${tile_OPTIONS})
  list(APPEND ptxas_options ${tile_PTXAS_OPTIONS})
  set(launcher "${tile_LAUNCHER}")
  if(NOT launcher)
    set(launcher "${TILE_COMPILER_LAUNCHER}")
  endif()
  _tileiras_default(launcher COMPILER_LAUNCHER "${launcher}" "")
  set_target_properties(${name} PROPERTIES
    TILE_ARCHITECTURES "${wanted}" TILE_FORMATS "${tile_FORMATS}" TILE_EMBED "${tile_EMBED}"
    TILE_OPT_LEVEL "${tile_OPT_LEVEL}" TILE_OPTIONS "${options}" TILE_PTXAS_OPTIONS "${ptxas_options}"
    TILE_FATBINARY_OPTIONS "${tile_FATBINARY_OPTIONS}"
    TILE_HOST_ARCH "${host_arch}" TILE_HOST_OS "${host_os}" TILE_COMPILER_LAUNCHER "${launcher}"
    TILE_IMAGES_TARGET ${images} TILE_OUTPUT_DIRECTORY "${folder}")
endfunction()

# The generated sources go into the library, its folder onto the include path of whoever links with it.
function(_tileiras_finish_library)
  if(tile_TYPE STREQUAL "CUSTOM")
    return()
  endif()
  set(scope PUBLIC)
  if(tile_TYPE STREQUAL "INTERFACE")
    set(scope INTERFACE)
  else()
    set_target_properties(${name} PROPERTIES POSITION_INDEPENDENT_CODE ON LINKER_LANGUAGE ${tile_LANGUAGE})
  endif()
  if(tile_TYPE MATCHES "^(SHARED|MODULE)$")
    # Its symbols are all that it is for, whatever CMAKE_<LANG>_VISIBILITY_PRESET says of the project's own code.
    set_target_properties(${name} PROPERTIES ${tile_LANGUAGE}_VISIBILITY_PRESET default)
  endif()
  foreach(code IN LISTS generated)
    if(code AND tile_TYPE STREQUAL "INTERFACE")
      target_sources(${name} INTERFACE "$<BUILD_INTERFACE:${code}>")
    elseif(code)
      target_sources(${name} PRIVATE "${code}")
    endif()
  endforeach()
  target_include_directories(${name} ${scope} "$<BUILD_INTERFACE:${folder}>")
  # export() of this build tree names the folder of every configuration, and CMake insists that all of them exist.
  foreach(config IN LISTS CMAKE_CONFIGURATION_TYPES)
    string(REPLACE "$<CONFIG>" "${config}" directory "${folder}")
    file(MAKE_DIRECTORY "${directory}")
  endforeach()
  if(tile_TYPE MATCHES "^(OBJECT|STATIC|SHARED|MODULE)$")
    set_target_properties(${name} PROPERTIES TILE_OBJECT "$<TARGET_OBJECTS:${name}>")
  endif()
  if(IS_ABSOLUTE "${tile_HEADER}")  # a relative one is included as it is spelled
    get_filename_component(directory "${tile_HEADER}" DIRECTORY)
    target_include_directories(${name} ${scope} "$<BUILD_INTERFACE:${directory}>")
  endif()
  if(batch AND NOT tile_EMBED STREQUAL "incbin" AND NOT DEFINED CMAKE_UNITY_BUILD)
    # The loader is most of what a generated source costs, and one translation unit needs it once. (A source with
    # .incbin depends on its image, which a unity source would not.)
    set_target_properties(${name} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE BATCH UNITY_BUILD_BATCH_SIZE 64)
  endif()
  target_link_libraries(${name} ${scope} ${CMAKE_DL_LIBS})  # the loader finds the driver at run time
  if(for_cpu)
    target_link_libraries(${name} ${scope} pthread m)
  endif()
endfunction()
