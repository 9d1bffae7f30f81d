# Kernels: the same code compiled for several CPUs; the program picks one when it runs.

# Those for the CPUs of an architecture lie in folders of its name; all but these are left out. x86
# computes to ARM's bits as well (nn/simd/neon.h).
if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64|amd64)$")
  set(FLOTILLA_FOREIGN none)
  set(FLOTILLA_NEON -mfma)
  if(FLOTILLA_SANITIZE) # with checks it would take minutes
    set(FLOTILLA_FOREIGN arm)
  endif()
elseif(CMAKE_SYSTEM_PROCESSOR MATCHES "^(aarch64|arm64)$")
  set(FLOTILLA_FOREIGN x86)
else()
  set(FLOTILLA_FOREIGN "(arm|x86)")
endif()

set(FLOTILLA_AVX512 -mavx512f -mavx512dq -mavx512bw -mavx512vl -mfma)

# flotilla_kernels(FOLDER): flags for the kernels in this folder of src/. From the list file that
# has their target, for CMake keeps flags of source files per folder.
function(flotilla_kernels folder)
  set(here ${PROJECT_SOURCE_DIR}/src/${folder})
  set(flags -O3 -fno-math-errno -fno-trapping-math)
  # They share no templates of the standard library with the rest: those would be for one CPU.
  file(GLOB_RECURSE kernels ${here}/kernel_*.cpp)
  set_source_files_properties(${kernels} PROPERTIES SKIP_PRECOMPILE_HEADERS ON)
  if(FLOTILLA_SANITIZE) # more optimisation or checks of every number would take minutes to compile
    list(APPEND flags -O1 -fno-sanitize=undefined)
  endif()
  if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
    list(APPEND flags -Wno-maybe-uninitialized) # of its own intrinsics
  else()
    list(APPEND flags -Wno-unneeded-internal-declaration) # not all kernels use all of their body
  endif()
  set_source_files_properties(${here}/kernel_portable.cpp PROPERTIES COMPILE_OPTIONS "${flags}")
  set_source_files_properties(${here}/arm/kernel_neon.cpp PROPERTIES COMPILE_OPTIONS
                                                          "${flags};${FLOTILLA_NEON}")
  set_source_files_properties(${here}/x86/kernel_avx2.cpp PROPERTIES COMPILE_OPTIONS
                                                          "${flags};-mavx2;-mfma")
  set(avx512_flags ${flags} ${FLOTILLA_AVX512})
  set_source_files_properties(${here}/x86/kernel_avx512.cpp PROPERTIES COMPILE_OPTIONS
                                                            "${avx512_flags}")
  set_source_files_properties(
    ${here}/x86/kernel_amx.cpp PROPERTIES COMPILE_OPTIONS
                                          "${avx512_flags};-mavx512bf16;-mamx-tile;-mamx-bf16")
endfunction()
