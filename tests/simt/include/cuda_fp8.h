// E4M3 numbers on the host, as in https://docs.nvidia.com/cuda/cuda-math-api/cuda_math_api/struct____nv__fp8__e4m3.html
#pragma once

struct __nv_fp8_e4m3 {
    unsigned char __x;
    explicit operator float() const { return simt::of_e4m3(__x); }
};
