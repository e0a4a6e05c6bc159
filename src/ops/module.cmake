# Each instruction set's kernels are compiled for it, and for nothing more. (GCC 12 warns of the undefined vectors in its own intrinsics.)
set_source_files_properties(${CMAKE_SOURCE_DIR}/src/ops/cpu/kernels_avx2.cpp PROPERTIES COMPILE_OPTIONS "-O3;-Wno-uninitialized;-Wno-maybe-uninitialized;-mavx2;-mfma;-mf16c")
set_source_files_properties(${CMAKE_SOURCE_DIR}/src/ops/cpu/kernels_avx512.cpp
  PROPERTIES COMPILE_OPTIONS "-O3;-Wno-uninitialized;-Wno-maybe-uninitialized;-mavx2;-mfma;-mavx512f;-mavx512bw;-mavx512dq;-mavx512vl")
set_source_files_properties(${CMAKE_SOURCE_DIR}/src/ops/cpu/kernels_avx512_bf16.cpp
  PROPERTIES COMPILE_OPTIONS "-O3;-Wno-uninitialized;-Wno-maybe-uninitialized;-mavx2;-mfma;-mavx512f;-mavx512bw;-mavx512dq;-mavx512vl;-mavx512bf16")
