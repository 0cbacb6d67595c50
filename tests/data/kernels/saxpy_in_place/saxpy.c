void saxpy(float a, const float *restrict x, float *restrict y) {
    int i = 0;
    for (; i + UNROLL <= N; i += UNROLL)
        for (int j = 0; j < UNROLL; j++) y[i + j] += a * x[i + j];
    for (; i < N; i++) y[i] += a * x[i];
}
