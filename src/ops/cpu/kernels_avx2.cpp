#define QWELL_ISA avx2
#include "ops/cpu/kernels.inc"
