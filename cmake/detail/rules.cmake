# The custom commands behind add_tile_kernel: one for each image, so that a build is parallel and minimal.
#
# These functions read the variables of add_tile_kernel (CMake's dynamic scope): `tile_*` are its arguments after
# defaults, `name` its target, `folder` the output directory; while `planning` they set paths and properties only, and with
# `batch` sources a command the commands are those of batches.cmake. Every command depends on the source, on a file that
# holds what its command line says (Make does not notice a changed one) and on the toolchain's fingerprint.
include_guard(GLOBAL)

# The options that make the code, the same for every source and architecture: a list with generator expressions.
# Properties of the target are read when the build system is generated, so target_tile_options may follow.
function(_tileiras_compile_options out)
  set(property "$<GENEX_EVAL:$<TARGET_PROPERTY:${name},")
  set(options --compiler ${tile_COMPILER} --launch-abi ${tile_LAUNCH_ABI}
    --host-arch "${property}TILE_HOST_ARCH>>" --host-os "${property}TILE_HOST_OS>>"
    --opt-level "${property}TILE_OPT_LEVEL>>")
  if(tile_DEBUG)
    list(APPEND options --debug)
  elseif(tile_LINEINFO)
    list(APPEND options --lineinfo)
  else()  # as compilers of other languages: symbols in Debug, where nothing is optimised, lines in RelWithDebInfo
    set(level "${property}TILE_OPT_LEVEL>>")
    list(APPEND options "$<$<AND:$<CONFIG:Debug>,$<STREQUAL:${level},0>>:--debug>"
      "$<$<OR:$<CONFIG:RelWithDebInfo>,$<AND:$<CONFIG:Debug>,$<NOT:$<STREQUAL:${level},0>>>>:--lineinfo>")
  endif()
  # Positions say src/kernel.tileir, in whatever folder the project lies: equal sources give equal images everywhere.
  foreach(folder IN ITEMS "${CMAKE_BINARY_DIR}" "${CMAKE_SOURCE_DIR}")
    list(APPEND options "--file-prefix-map=${folder}=")
  endforeach()
  foreach(pair IN ITEMS TENSOR_MAPS=--tensor-maps SANITIZE=--sanitize BYTECODE_VERSION=--bytecode-version)
    string(REPLACE "=" ";" pair "${pair}")
    list(GET pair 0 argument)
    list(GET pair 1 flag)
    if(NOT "${tile_${argument}}" STREQUAL "")
      list(APPEND options ${flag} "${tile_${argument}}")
    endif()
  endforeach()
  foreach(entry IN LISTS tile_ENTRIES)
    list(APPEND options --entry "${entry}")
  endforeach()
  if(tile_JOBS)
    list(APPEND options "--ptxas-option=--split-compile=${tile_JOBS}")
  endif()
  get_property(root_option GLOBAL PROPERTY TILEIRAS_ROOT_OPTION)
  list(APPEND options ${root_option}
    "$<$<BOOL:${property}TILE_OPTIONS>>>:--option=$<JOIN:${property}TILE_OPTIONS>>,$<SEMICOLON>--option=>>"
    "$<$<BOOL:${property}TILE_PTXAS_OPTIONS>>>:--ptxas-option=$<JOIN:${property}TILE_PTXAS_OPTIONS>>,$<SEMICOLON>--ptxas-option=>>")
  set(${out} "${options}" PARENT_SCOPE)
endfunction()

# The budgets, which are held against images alone: registers of portable code are the driver's choice.
function(_tileiras_budget_options out)
  set(options "")
  if(NOT "${tile_MAX_REGISTERS}" STREQUAL "")
    list(APPEND options --max-registers "${tile_MAX_REGISTERS}")
  endif()
  if(NOT "${tile_MAX_SHARED}" STREQUAL "")
    list(APPEND options --max-shared "${tile_MAX_SHARED}")
  endif()
  if(tile_NO_SPILLS)
    list(APPEND options --no-spills)
  endif()
  set(${out} "${options}" PARENT_SCOPE)
endfunction()

# add_custom_command with what all rules share. <first> is the output that the depfile names.
function(_tileiras_rule)
  cmake_parse_arguments(rule "LAUNCHED;BUNDLES" "FIRST;DEPFILE;COMMENT" "OUTPUT;COMMAND;THEN;DEPENDS;BYPRODUCTS" ${ARGN})
  get_filename_component(place "${rule_FIRST}" DIRECTORY)
  get_filename_component(file "${rule_FIRST}" NAME)
  # Depfiles and the records of --why-rebuilt, which CMake does not know as outputs, and stamps.
  set_property(TARGET ${name} APPEND PROPERTY TILE_LEFTOVERS "${rule_FIRST}" "${rule_FIRST}.d" "${place}/.tileiras-record/${file}.json")
  if(planning)
    return()
  endif()
  get_property(launcher GLOBAL PROPERTY TILEIRAS_LAUNCHER)
  if(rule_LAUNCHED AND CMAKE_EXPORT_COMPILE_COMMANDS)
    list(SUBLIST rule_COMMAND 0 6 main_words)  # compile SOURCE -o OUTPUT --arch ARCH
    _tileiras_note_command("${rule_FIRST}" ${launcher} build ${main_words})
  endif()
  if(batch AND NOT rule_FIRST MATCHES "\\.o$")
    return()  # _tileiras_rule_batches makes it
  endif()
  set(command ${launcher} build ${rule_COMMAND})
  if(rule_LAUNCHED)
    set(command "$<TARGET_PROPERTY:${name},TILE_COMPILER_LAUNCHER>" ${command})
  endif()
  set(extra "")
  # Without a depfile the explicit DEPENDS remain: for a kernel in Tile IR, which imports nothing, that is everything but
  # passes of other packages.
  _tileiras_reads_depfiles(depfile_works "${rule_FIRST} ${rule_DEPENDS}")
  if(rule_DEPFILE AND NOT depfile_works AND rule_FIRST MATCHES "\\.export\\.tilebc$")
    message(WARNING "add_tile_kernel(${name}): this CMake and generator cannot follow what a cuTile source imports below such a path; list the imported modules in DEPENDS")
  endif()
  if(rule_DEPFILE AND depfile_works)
    list(APPEND command --depfile "${rule_DEPFILE}" --depfile-target "${rule_FIRST}")
    list(APPEND extra DEPFILE "${rule_DEPFILE}")
  endif()
  if(tile_JOB_POOL)
    list(APPEND extra JOB_POOL "${tile_JOB_POOL}")
  endif()
  if(rule_BYPRODUCTS)
    list(APPEND extra BYPRODUCTS ${rule_BYPRODUCTS})
  endif()
  if(rule_THEN)
    list(PREPEND extra COMMAND ${rule_THEN})
  endif()
  set(record "${options_file}")
  if(rule_BUNDLES)
    set(record "${bundle_file}")
  endif()
  get_property(fingerprint GLOBAL PROPERTY TILEIRAS_FINGERPRINT_FILE)
  add_custom_command(
    OUTPUT "${rule_FIRST}" ${rule_OUTPUT}
    COMMAND ${command}
    ${extra}
    DEPENDS ${rule_DEPENDS} "${fingerprint}" "${record}" ${tile_DEPENDS}
    COMMENT "${rule_COMMENT}"
    VERBATIM COMMAND_EXPAND_LISTS)
endfunction()

# Whether this CMake and its generator can follow a depfile that names <paths>.
function(_tileiras_reads_depfiles out paths)
  set(works TRUE)
  string(REPLACE "$<CONFIG>" "" paths "${paths}")
  if(is_multi_config AND CMAKE_VERSION VERSION_LESS 3.21)  # where DEPFILE takes no generator expression
    set(works FALSE)
  elseif(CMAKE_GENERATOR MATCHES "Ninja")
    _tileiras_ninja_reads(works "${paths}")
  endif()
  set(${out} ${works} PARENT_SCOPE)
endfunction()

# Whether Ninja understands <paths> in a depfile; where it does not, it runs the command in every build. CMake before 4.0
# writes a $ unescaped; Ninja before 1.12 ends a name at & ' " ?, every Ninja at * < > | ^ `.
function(_tileiras_ninja_reads out paths)
  set(reads TRUE)
  if(paths MATCHES "[*<>|^`]" OR (paths MATCHES "[$]" AND CMAKE_VERSION VERSION_LESS 4.0))
    set(reads FALSE)
  elseif(paths MATCHES "[&'\"?]")
    execute_process(COMMAND "${CMAKE_MAKE_PROGRAM}" --version OUTPUT_VARIABLE version RESULT_VARIABLE status ERROR_QUIET)
    if(NOT status EQUAL 0 OR version VERSION_LESS 1.12)
      set(reads FALSE)
    endif()
  endif()
  set(${out} ${reads} PARENT_SCOPE)
endfunction()

# Source and real architecture -> cubin and its kernels.json (and PTX, remarks). Sets <cubin_var> and <json_var>.
function(_tileiras_rule_cubin cubin_var json_var source stem arch)
  set(cubin "${folder}/${stem}.sm_${arch}.cubin")
  set(json "${folder}/${stem}.sm_${arch}.kernels.json")
  set(more "")
  set(outputs "${json}")
  if("ptx" IN_LIST tile_FORMATS AND tile_COMPILER STREQUAL "builtin")
    set(ptx "${folder}/${stem}.sm_${arch}.ptx")
    list(APPEND more --ptx "${ptx}")
    list(APPEND outputs "${ptx}")
    set_property(TARGET ${name} APPEND PROPERTY TILE_PTX "${ptx}")
  endif()
  set(byproducts "")
  if(tile_REMARKS)
    set(remarks "${folder}/${stem}.sm_${arch}.remarks.yaml")
    if(tile_REMARKS_FILE)
      get_filename_component(remarks "${tile_REMARKS_FILE}" ABSOLUTE BASE_DIR "${CMAKE_CURRENT_BINARY_DIR}")
      list(LENGTH tile_SOURCES sources)
      list(LENGTH real archs)
      if(sources GREATER 1 OR archs GREATER 1)  # one file for each image, named as the images are
        get_filename_component(remarks_folder "${remarks}" DIRECTORY)
        get_filename_component(remarks_suffix "${remarks}" LAST_EXT)
        get_filename_component(remarks "${remarks}" NAME_WLE)
        string(REPLACE "/" "_" remarks_stem "${stem}")
        set(remarks "${remarks_folder}/${remarks}.${remarks_stem}.sm_${arch}${remarks_suffix}")
      endif()
    endif()
    list(APPEND more --remarks "${tile_REMARKS}" --remarks-output "${remarks}")
    set(byproducts "${remarks}")
  endif()
  if(tile_REPORT)
    set(report "${folder}/${stem}.sm_${arch}.report.${tile_REPORT}")
    list(APPEND more --report "${report}")
    list(APPEND byproducts "${report}")
    set_property(TARGET ${name} APPEND PROPERTY TILE_REPORT "${report}")
  endif()
  set(comment "Compiling Tile kernel ${stem} for sm_${arch}")
  if(tile_COMMENT)
    set(comment "${tile_COMMENT} (${stem}, sm_${arch})")
  endif()
  _tileiras_rule(LAUNCHED FIRST "${cubin}" OUTPUT ${outputs} BYPRODUCTS ${byproducts} DEPFILE "${cubin}.d"
    COMMAND compile "${source}" -o "${cubin}" --arch "sm_${arch}" --kernels-json "${json}" ${more} ${compile_options} ${budgets}
    DEPENDS "${source}" COMMENT "${comment}")
  set(${cubin_var} "${cubin}" PARENT_SCOPE)
  set(${json_var} "${json}" PARENT_SCOPE)
endfunction()

# Source and virtual architecture -> portable PTX, the entry that a driver can compile for a later GPU, and its table.
function(_tileiras_rule_ptx ptx_var json_var source stem arch)
  set(ptx "${folder}/${stem}.compute_${arch}.ptx")
  set(json "${folder}/${stem}.compute_${arch}.kernels.json")
  _tileiras_rule(LAUNCHED FIRST "${ptx}" OUTPUT "${json}" DEPFILE "${ptx}.d"
    COMMAND compile "${source}" --ptx "${ptx}" --arch "compute_${arch}" --kernels-json "${json}" ${compile_options}
    DEPENDS "${source}" COMMENT "Compiling Tile kernel ${stem} to PTX for compute_${arch}")
  set(${ptx_var} "${ptx}" PARENT_SCOPE)
  set(${json_var} "${json}" PARENT_SCOPE)
endfunction()

# Source -> kernel table with code for the host's processor.
function(_tileiras_rule_cpu out source stem)
  set(json "${folder}/${stem}.cpu.kernels.json")
  set(command compile "${source}" --arch cpu --kernels-json "${json}" --launch-abi ${tile_LAUNCH_ABI}
    --host-arch "$<TARGET_PROPERTY:${name},TILE_HOST_ARCH>")
  foreach(entry IN LISTS tile_ENTRIES)
    list(APPEND command --entry "${entry}")
  endforeach()
  _tileiras_rule(LAUNCHED FIRST "${json}" DEPFILE "${json}.d" COMMAND ${command}
    DEPENDS "${source}" COMMENT "Compiling Tile kernel ${stem} for the CPU")
  set(${out} "${json}" PARENT_SCOPE)
endfunction()

# Source -> verified bytecode.
function(_tileiras_rule_bytecode out source stem)
  set(bytecode "${folder}/${stem}.tilebc")
  set(version "")
  if(tile_BYTECODE_VERSION)
    set(version --bytecode-version "${tile_BYTECODE_VERSION}")
  endif()
  _tileiras_rule(FIRST "${bytecode}" DEPFILE "${bytecode}.d" COMMAND bytecode "${source}" -o "${bytecode}" ${version}
    DEPENDS "${source}" COMMENT "Translating Tile kernel ${stem} to bytecode")
  set(${out} "${bytecode}" PARENT_SCOPE)
endfunction()

# cuTile Python -> bytecode, by the cuda-tile of the project's Python; the depfile lists the modules it imported.
function(_tileiras_rule_export out source stem)
  set(bytecode "${folder}/${stem}.export.tilebc")
  set(command export "${source}" --entry "${tile_ENTRIES}")
  foreach(signature IN LISTS tile_SIGNATURE)
    list(APPEND command --signature "${signature}")
  endforeach()
  foreach(symbol IN LISTS tile_SYMBOL)
    list(APPEND command --symbol "${symbol}")
  endforeach()
  foreach(folder IN LISTS tile_IMPORT_DIRECTORIES)
    get_filename_component(folder "${folder}" ABSOLUTE BASE_DIR "${CMAKE_CURRENT_SOURCE_DIR}")
    list(APPEND command "--path=${folder}")
  endforeach()
  if(tile_BYTECODE_VERSION)
    list(APPEND command --bytecode-version "${tile_BYTECODE_VERSION}")
    if(tile_BYTECODE_VERSION VERSION_LESS 13.3)  # older bytecode names the GPU that it is for
      list(GET real 0 arch)
      list(APPEND command --arch "sm_${arch}")
    endif()
  endif()
  foreach(folder IN ITEMS "${CMAKE_BINARY_DIR}" "${CMAKE_SOURCE_DIR}")
    list(APPEND command "--file-prefix-map=${folder}=")
  endforeach()
  _tileiras_rule(FIRST "${bytecode}" DEPFILE "${bytecode}.d" COMMAND ${command} -o "${bytecode}"
    DEPENDS "${source}" COMMENT "Exporting cuTile kernel ${stem}")
  set(${out} "${bytecode}" PARENT_SCOPE)
endfunction()

# Cubins, PTX and bytecode -> one fatbin.
function(_tileiras_rule_fatbin out stem)
  cmake_parse_arguments(from "" "" "ENTRIES;FILES" ${ARGN})
  set(fatbin "${folder}/${stem}.fatbin")
  set(compress "")
  if(tile_COMPRESS)
    set(compress --compress "${tile_COMPRESS}")
  endif()
  get_property(root_option GLOBAL PROPERTY TILEIRAS_ROOT_OPTION)
  set(options "$<TARGET_GENEX_EVAL:${name},$<TARGET_PROPERTY:${name},TILE_FATBINARY_OPTIONS>>")
  _tileiras_rule(BUNDLES FIRST "${fatbin}" COMMAND fatbin -o "${fatbin}" ${from_ENTRIES} ${compress} ${root_option}
    "$<$<BOOL:${options}>:--option=$<JOIN:${options},$<SEMICOLON>--option=>>"
    DEPENDS ${from_FILES} COMMENT "Bundling Tile kernel ${stem}")
  set(${out} "${fatbin}" PARENT_SCOPE)
endfunction()

# Fatbin and kernels.json -> header and its source with the embedded image.
function(_tileiras_rule_header header_var source_var stem prefix fatbin)
  cmake_parse_arguments(from "" "" "JSON" ${ARGN})
  set(suffix c)
  if(tile_LANGUAGE STREQUAL "CXX")
    set(suffix cpp)
  endif()
  set(header "${folder}/${name}/${stem}_tile.h")
  if(tile_HEADER)
    get_filename_component(header "${tile_HEADER}" ABSOLUTE BASE_DIR "${folder}")
  endif()
  set(source "${folder}/${name}/${stem}_tile.${suffix}")
  set(command header --prefix "${prefix}" --language ${tile_LANGUAGE} --embed ${tile_EMBED})
  if(fatbin)
    list(APPEND command --image "${fatbin}")
  endif()
  if(tile_HEADER AND NOT IS_ABSOLUTE "${tile_HEADER}")
    list(APPEND command --include-as "${tile_HEADER}")
  endif()
  if(tile_NAMESPACE)
    list(APPEND command --namespace "${tile_NAMESPACE}")
  endif()
  foreach(json IN LISTS from_JSON)
    list(APPEND command --json "${json}")
  endforeach()
  # The command keeps the time of a file whose content stays the same. The stamp, which always changes, comes first:
  # Ninja then leaves alone what includes an unchanged header, and Make does not run the command again and again.
  set(stamp "${folder}/${stem}_tile.stamp")
  _tileiras_rule(BUNDLES FIRST "${stamp}" OUTPUT "${source}" "${header}"
    COMMAND ${command} --header-out "${header}" --source-out "${source}"
    THEN "${CMAKE_COMMAND}" -E touch "${stamp}"
    DEPENDS ${fatbin} ${from_JSON} COMMENT "Writing ${stem}_tile.h")
  if(tile_EMBED STREQUAL "incbin")
    # The assembler reads the image by its path, which no compiler's depfile mentions.
    set_source_files_properties("${source}" PROPERTIES OBJECT_DEPENDS "${fatbin}")
  endif()
  set(${header_var} "${header}" PARENT_SCOPE)
  set(${source_var} "${source}" PARENT_SCOPE)
endfunction()

# Fatbin -> object file that holds it, without a C compiler.
function(_tileiras_rule_object out stem prefix fatbin)
  set(object "${folder}/${stem}.o")
  _tileiras_rule(BUNDLES FIRST "${object}"
    COMMAND object -o "${object}" --prefix "${prefix}" --image "${fatbin}"
      --host-arch "$<TARGET_PROPERTY:${name},TILE_HOST_ARCH>"
    DEPENDS "${fatbin}" COMMENT "Wrapping Tile kernel ${stem} in an object")
  set(${out} "${object}" PARENT_SCOPE)
endfunction()
