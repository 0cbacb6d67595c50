void compaction(const float *restrict x, float above, float *restrict kept, unsigned *restrict count) {
    for (int i = 0; i < N; i++) {
#if BRANCHLESS
        const unsigned keep = x[i] > above, place = *count;
        kept[place < N ? place : N - 1] = keep ? x[i] : kept[place < N ? place : N - 1];
        *count = place + keep;
#else
        if (x[i] > above) kept[(*count)++] = x[i];
#endif
    }
}
