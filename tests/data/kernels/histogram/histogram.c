void histogram(const unsigned char *restrict bytes, int *restrict counts) {
    int i = 0;
    for (; i + UNROLL <= N; i += UNROLL)
        for (int j = 0; j < UNROLL; j++) counts[bytes[i + j]]++;
    for (; i < N; i++) counts[bytes[i]]++;
}
