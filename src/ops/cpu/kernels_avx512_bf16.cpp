#define QWELL_ISA avx512_bf16
#include "ops/cpu/kernels.inc"
