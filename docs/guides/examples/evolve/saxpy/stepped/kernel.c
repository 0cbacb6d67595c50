// out = a x + y in steps of STEP elements; the compiler vectorises the inner loop.
void saxpy(float a, const float *restrict x, const float *restrict y, float *restrict out) {
    long i = 0;
    for (; i + STEP <= N; i += STEP)
        for (int each = 0; each < STEP; each++) out[i + each] = a * x[i + each] + y[i + each];
    for (; i < N; i++) out[i] = a * x[i] + y[i];
}
