#define QWELL_ISA avx512
#include "ops/cpu/kernels.inc"
